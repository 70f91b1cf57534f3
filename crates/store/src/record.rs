//! What a store hands out.

use crate::Key;
use std::sync::Arc;
use tidegate_core::{Epoch, Fence, Revision};

/// One record as it was at some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: Key,
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// Epoch and revision of the commit that wrote it last: the fencing token of a lease granted in that commit.
    pub fence: Fence,
}

/// A consistent snapshot of all records under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The store's epoch.
    pub epoch: Epoch,
    /// The revision the snapshot is of.
    pub revision: Revision,
    /// The records, by key.
    pub records: Vec<Record>,
}

/// A commit that is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Its epoch and revision.
    pub fence: Fence,
}
