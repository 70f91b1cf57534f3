//! The binary as its users see it: who may restart what, bad input, and faults that were seen in public.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod authority;
mod bad_client;
mod bad_configuration;
mod bad_state;
mod beside;
mod breaker;
mod bytes;
mod clients;
mod contract;
mod death;
mod doctor;
mod import;
#[path = "../../../relay/tests/it/json.rs"]
mod json;
mod keeper;
mod left;
mod packaging;
mod per_session;
mod pipes;
mod restart;
mod routing;
mod silence;
mod tool_leases;
mod trees;
mod upgrade;
