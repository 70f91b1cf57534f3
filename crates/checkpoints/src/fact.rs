//! Facts that a session is told are kept: notes, subscriptions, log levels, leases. Acknowledged means synced.
//!
//! Nothing acknowledged is dropped to make room: a full list refuses, and says how to make room.

use crate::change::{change, load_live};
use crate::pending::{self, Clear};
use crate::{Checkpoint, CheckpointError, Note, Subscription};
use tidegate_core::{ComponentName, NextAction, Now, SessionId};
use tidegate_store::{Decision, View};

/// The most notes of one session; they are for a successor to read.
pub const MAX_NOTES: usize = 32;

/// The longest note, in bytes: a page. A longer text belongs into a file that the note names.
pub const MAX_NOTE_BYTES: usize = 4 * 1024;

/// The most leases of one session.
pub const MAX_LEASES: usize = 128;

/// The most subscriptions of one session.
pub const MAX_SUBSCRIPTIONS: usize = 256;

/// The longest lease key, resource address or log level, in bytes.
pub const MAX_FACT_BYTES: usize = 512;

/// The most components with a log level of their own.
pub const MAX_LOG_LEVELS: usize = 64;

/// One fact of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// A note. The same `id` again changes nothing.
    Note {
        /// Its own id.
        id: String,
        /// What it says.
        text: String,
    },
    /// A note in place of all the notes before it.
    SumUp {
        /// Its own id.
        id: String,
        /// What it says.
        text: String,
    },
    /// A resource is subscribed to.
    Subscribed(Subscription),
    /// A resource isn't subscribed to any more.
    Unsubscribed(Subscription),
    /// The log level asked of a component.
    LogLevel {
        /// Which.
        component: ComponentName,
        /// The level, in the server's spelling.
        level: String,
    },
    /// A lease is held.
    LeaseHeld(String),
    /// A lease isn't held any more.
    LeaseGone(String),
}

/// Adds facts to a session's record, all or none.
///
/// # Errors
/// [`CheckpointError::NoSuchSession`], [`CheckpointError::Ended`], [`CheckpointError::Full`],
/// [`CheckpointError::TooLong`].
pub fn decide_facts(
    view: &View,
    session: &SessionId,
    facts: &[Fact],
    now: &Now,
) -> Result<Decision<()>, CheckpointError> {
    let before = load_live(view, session)?;
    let txn = change(view, before, now, |c| facts.iter().try_for_each(|fact| apply(c, fact, now)))?;
    Ok(Decision::write(txn, ()))
}

fn apply(c: &mut Checkpoint, fact: &Fact, now: &Now) -> Result<(), CheckpointError> {
    match fact {
        Fact::Note { id, text } => note(c, id, text, now)?,
        Fact::SumUp { id, text } => {
            if !c.notes.iter().any(|n| n.id == *id) {
                c.notes.clear();
                note(c, id, text, now)?;
            }
        }
        Fact::Subscribed(subscription) => {
            fits("resource address", &subscription.uri, MAX_FACT_BYTES)?;
            c.subscriptions.insert(subscription.clone());
        }
        Fact::Unsubscribed(subscription) => {
            c.subscriptions.remove(subscription);
        }
        Fact::LogLevel { component, level } => {
            fits("log level", level, MAX_FACT_BYTES)?;
            c.log_level.insert(component.clone(), level.clone());
        }
        Fact::LeaseHeld(lease) => {
            fits("lease key", lease, MAX_FACT_BYTES)?;
            c.leases.insert(lease.clone());
            let lost = NextAction::ReacquireLease { lease: lease.clone(), unnamed: false };
            pending::change(c, &[Clear::About(lost)], &[], now);
        }
        Fact::LeaseGone(lease) => {
            c.leases.remove(lease);
        }
    }
    room(c)
}

fn note(c: &mut Checkpoint, id: &str, text: &str, now: &Now) -> Result<(), CheckpointError> {
    fits("note", text, MAX_NOTE_BYTES)?;
    if !c.notes.iter().any(|n| n.id == id) {
        c.notes.push(Note { id: id.to_owned(), at: now.wall, text: text.to_owned() });
    }
    Ok(())
}

fn fits(what: &'static str, text: &str, limit: usize) -> Result<(), CheckpointError> {
    if text.len() > limit {
        return Err(CheckpointError::TooLong { what, bytes: text.len(), limit });
    }
    Ok(())
}

pub(crate) fn room(c: &Checkpoint) -> Result<(), CheckpointError> {
    let lists = [
        ("notes", c.notes.len(), MAX_NOTES, "replace them by one note that sums them up"),
        ("subscriptions", c.subscriptions.len(), MAX_SUBSCRIPTIONS, "unsubscribe from some"),
        ("log levels", c.log_level.len(), MAX_LOG_LEVELS, "one per component is enough"),
        ("leases", c.leases.len(), MAX_LEASES, "release some"),
    ];
    match lists.into_iter().find(|(_, len, limit, _)| len > limit) {
        None => Ok(()),
        Some((what, _, limit, remedy)) => {
            Err(CheckpointError::Full { session: c.session.clone(), what, limit, remedy })
        }
    }
}
