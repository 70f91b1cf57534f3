//! The governor against a store in memory and a world that is played.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on says so by panicking")]

mod approvals;
mod blocked;
mod components;
mod crashes;
mod faults;
mod left;
mod operations;
mod support;
mod timelines;
mod world;
