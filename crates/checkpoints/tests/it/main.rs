//! Checkpoints, from the outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod bounds;
mod crash;
mod fixture;
mod naming;
mod scenarios;
