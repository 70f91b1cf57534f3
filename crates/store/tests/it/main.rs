//! Integration tests, in one binary: the contract against both engines, then what each engine promises beyond it.

mod contract;
mod damage;
mod durability;
mod faults;
mod fixture;
mod locks;
mod opening;
mod processes;
mod rewriting;
mod support;
