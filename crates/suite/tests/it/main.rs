//! The suite's own tests: that its instruments do what they say.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod examples;
mod external;
mod fault_server;
mod process;
mod simulated;
mod soak;
