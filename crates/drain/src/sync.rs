//! The synchronisation that the gate and its slots use, in one place: `tidegate-models` compiles both a second time with
//! another one, which decides at each access who goes next.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread::yield_now;
