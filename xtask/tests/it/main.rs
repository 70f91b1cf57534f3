//! The commands from outside: what they refuse, and what CI plans.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod plan;
