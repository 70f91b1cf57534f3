//! The one way a record is changed: nothing is written when nothing changes, else its version grows by one.
//!
//! That makes every change its own recognition after an uncertain commit: done already means nothing to do.

use crate::{Checkpoint, CheckpointError, key};
use tidegate_core::{Now, SessionId};
use tidegate_store::{Txn, View};

pub(crate) fn load(view: &View, session: &SessionId) -> Result<Option<Checkpoint>, CheckpointError> {
    Ok(view.read(&key(session))?)
}

/// The record of a session that facts may be added to.
pub(crate) fn load_live(view: &View, session: &SessionId) -> Result<Checkpoint, CheckpointError> {
    match load(view, session)? {
        None => Err(CheckpointError::NoSuchSession { session: session.clone() }),
        Some(c) if c.ended.is_some() => Err(CheckpointError::Ended { session: session.clone() }),
        Some(c) => Ok(c),
    }
}

pub(crate) fn change(
    view: &View,
    before: Checkpoint,
    now: &Now,
    apply: impl FnOnce(&mut Checkpoint) -> Result<(), CheckpointError>,
) -> Result<Txn, CheckpointError> {
    let mut after = before.clone();
    apply(&mut after)?;
    if after == before {
        return Ok(Txn::new());
    }
    after.version = before.version + 1;
    after.updated_at = now.wall;
    Ok(Txn::new().put(view, &key(&after.session), &after))
}
