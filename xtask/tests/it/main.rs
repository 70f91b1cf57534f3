//! From outside: what the commands refuse, and what CI plans and concludes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod conclude;
mod plan;
