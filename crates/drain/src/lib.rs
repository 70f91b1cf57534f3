//! An admission gate, the work in flight behind it, and a drain that ends drained or refused.
//!
//! A [`Gate`] stands before one component. Work asks to be admitted and holds a [`Permit`] until it has really ended,
//! which may be long after its caller has gone. A drain closes the gates of its scope, waits until its recorded
//! deadline, and ends in one of two ways: *drained*, or *refused* by holders that are named. Its [`DrainRecord`] is
//! durable, so that a process which comes back after a crash neither stays closed for ever nor forgets that it was
//! closing.
//!
//! - [`verdict`], [`decide_begin`], [`decide_end`], [`recover`]: the rules, as plain functions.
//! - [`Drainer`]: waits at closed gates. [`Drains`]: does all of it against a store.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_core::{BootId, Now, WallTime, WorkClass};
//! use tidegate_drain::{Gate, Verdict, WorkInfo, verdict};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Now { boot: BootId(1), boot_ms: 0, wall: WallTime(0) };
//! let gate = Gate::new("files".parse()?, 64);
//! let write = Arc::new(WorkInfo {
//!     session: "local/s1".parse()?,
//!     component: "files".parse()?,
//!     tool: "write_file".into(),
//!     class: WorkClass::Mutating,
//! });
//! let mut permit = gate.admit(&write, &now)?;
//! permit.detach(); // the caller is gone, the server may still be writing
//!
//! assert_eq!(gate.close("d1".parse()?)?, 1);
//! let holders = gate.holders(&now);
//! assert_eq!(verdict(&holders, false), Verdict::Wait);
//! assert!(matches!(verdict(&holders, true), Verdict::Refused { .. }));
//!
//! permit.finish(); // the server answered
//! assert_eq!(verdict(&gate.holders(&now), false), Verdict::Drained { read_only: vec![] });
//! # Ok(())
//! # }
//! ```

mod decide;
mod drainer;
mod drains;
mod error;
mod gate;
mod permit;
mod record;
mod slab;
mod sync;
mod verdict;
mod work;

pub use decide::{Begin, Begun, End, Recovery, decide_begin, decide_end, decide_recover, recover};
pub use drainer::{Drainer, PROGRESS_EVERY_MS};
pub use drains::{Drained, Drains};
pub use error::DrainError;
pub use gate::{AlreadyClosed, Gate, MAX_CAPACITY, NotYours, Refusal};
pub use permit::Permit;
pub use record::{
    DrainRecord, DrainState, MAX_RECORDED_HOLDERS, MAX_SCOPE, PREFIX, key, scope, scope_of_all,
};
pub use slab::PermitId;
pub use verdict::{Verdict, verdict};
pub use work::{Holder, WorkInfo};

/// The crates whose types a caller of this one needs, so that it's the only one to add.
#[doc(no_inline)]
pub use {tidegate_core as core, tidegate_host as host};
