//! The relay from the outside: lines and events in, effects out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bytes;
mod cancelling;
mod classes;
mod corpus;
mod death;
mod handshakes;
mod holding;
mod ids;
mod interleavings;
mod json;
mod leases;
mod limits;
mod lists;
mod own;
mod refusals;
mod resuming;
mod routing;
mod subscriptions;
mod world;
