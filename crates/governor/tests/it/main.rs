//! The governor against a store in memory and a world that is played.

mod approvals;
mod components;
mod crashes;
mod faults;
mod operations;
mod support;
mod timelines;
mod world;
