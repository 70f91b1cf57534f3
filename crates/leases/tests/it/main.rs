//! The tests of `tidegate-leases`, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod allocation;
mod edges;
mod guard;
mod holders;
mod kernel;
mod processes;
mod random;
mod records;
mod scenarios;
mod world;
