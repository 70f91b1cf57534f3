//! The tests of `tidegate-leases`, in one binary.

mod guard;
mod holders;
mod processes;
mod random;
mod records;
mod scenarios;
mod world;
