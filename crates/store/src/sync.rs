//! The synchronisation between callers and the writer's thread, in one place: `tidegate-models` compiles the queue and its
//! replies a second time with another one, which decides at each access who goes next.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
