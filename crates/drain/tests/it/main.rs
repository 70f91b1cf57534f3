//! The gate under threads, the verdict, the durable record, the waiting, and whole stories from scenario files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gate;
mod race;
mod records;
mod scenarios;
mod verdict;
mod waiting;
mod world;
