//! Incidents, from the outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod crash;
mod dedup;
mod fixture;
mod life;
mod redaction;
mod scenarios;
