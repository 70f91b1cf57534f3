//! The models, in one binary. At its root stands what the files of other crates that are compiled here expect there.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod commits;
mod gates;
mod leases;

use gates::{Holder, PermitId, WorkInfo, gate::Gate, permit, slab};
use tidegate_store::{CommitError, Committed, Txn};

/// The synchronisation that those files use, under shuttle's control.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use std::sync::{Arc, PoisonError};
}
