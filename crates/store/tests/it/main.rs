//! Integration tests, in one binary: the contract against both engines, then what each engine promises beyond it.

#![allow(clippy::unwrap_used, reason = "outside a test function an unwrap fails the test all the same")]

mod contract;
mod corpus;
mod damage;
mod durability;
mod faults;
mod fixture;
mod locks;
mod mounts;
mod opening;
mod power;
mod processes;
mod rewriting;
mod support;
