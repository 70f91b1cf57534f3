//! The engine for tests and the simulator: every fault of the contract on demand, and a crash that forgets what was
//! not synced. Deterministic; never blocks, never touches a file or a clock.

mod backup;
mod engine;
mod faults;

pub use backup::Backup;
pub use engine::MemoryStore;
pub use faults::{Fault, Faults, SeededFaults};
