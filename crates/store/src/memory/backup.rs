//! A copy of what was synced at some moment, to be restored later.

use crate::state::State;

/// What [`MemoryStore::backup`](crate::MemoryStore::backup) took.
#[derive(Debug, Clone)]
pub struct Backup {
    pub(super) state: State,
}
