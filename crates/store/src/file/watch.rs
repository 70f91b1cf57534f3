//! Following the commits of every process that has the store open.

use super::engine::Shared;
use super::error::unreadable;
use crate::{Change, ReadError, Watch};
use std::sync::Arc;
use tidegate_core::{BoxFuture, Revision};

/// A watch on a journal.
#[derive(Debug)]
pub(super) struct FileWatch {
    shared: Arc<Shared>,
    prefix: String,
    cursor: Revision,
    /// The lineage in which the cursor has a meaning.
    lineage: u64,
}

impl FileWatch {
    pub(super) fn new(shared: Arc<Shared>, prefix: &str, cursor: Revision) -> Self {
        shared.queue.begin_watch();
        let lineage = shared.replica().lineage();
        Self { shared, prefix: prefix.to_owned(), cursor, lineage }
    }

    fn look(&mut self) -> Result<Option<Vec<Change>>, ReadError> {
        let mut replica = self.shared.replica();
        replica.refresh(&*self.shared.medium).map_err(|e| unreadable(&e))?;
        if replica.lineage() != self.lineage {
            return Err(unavailable("the store was replaced; list again"));
        }
        let durable = replica.journal.durable();
        let changes = replica.state.changes(&mut self.cursor, &self.prefix, durable)?;
        let unsynced = replica.journal.has_unsynced();
        let ground = replica.holds(replica.ground());
        drop(replica);
        if changes.is_none() {
            ground.map_err(unavailable)?;
            if self.shared.queue.is_closed() {
                return Err(unavailable("the store is closed"));
            }
            if unsynced {
                self.shared.queue.sync();
            }
        }
        Ok(changes)
    }
}

impl Watch for FileWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Change>, ReadError>> {
        Box::pin(async move {
            loop {
                let listener = self.shared.progress.listen();
                if let Some(changes) = self.look()? {
                    return Ok(changes);
                }
                listener.await;
            }
        })
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.shared.queue.end_watch();
    }
}

fn unavailable(reason: &str) -> ReadError {
    ReadError::Unavailable { reason: reason.to_owned() }
}
