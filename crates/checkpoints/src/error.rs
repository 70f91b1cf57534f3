//! What a session's record can't do, and what to do instead.

use crate::NameRefusal;
use tidegate_core::{PrincipalName, SessionId};
use tidegate_store::{ReadError, StoreError};

/// A refused or failed operation on a session's record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// There is no such record.
    #[error("there is no session {session}; `tidegate sessions` lists those that there are")]
    NoSuchSession {
        /// What was asked for.
        session: SessionId,
    },
    /// The session has ended: nothing is added to it any more.
    #[error("session {session} has ended; attach again to start anew under its name")]
    Ended {
        /// Which.
        session: SessionId,
    },
    /// A bounded list is full. What is in it was acknowledged, so nothing is dropped to make room.
    #[error("session {session} already has {limit} {what}; {remedy}")]
    Full {
        /// Whose list.
        session: SessionId,
        /// Of what.
        what: &'static str,
        /// Its bound.
        limit: usize,
        /// How to make room.
        remedy: &'static str,
    },
    /// A text that is too long to keep.
    #[error("a {what} has at most {limit} bytes, this one has {bytes}; shorten it")]
    TooLong {
        /// Of what kind.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// No more sessions of this principal.
    #[error(
        "{principal} already has {limit} sessions that are in use; end some with `tidegate sessions end NAME`"
    )]
    TooManySessions {
        /// Whose.
        principal: PrincipalName,
        /// The bound.
        limit: usize,
    },
    /// The name can't be had.
    #[error(transparent)]
    Name(#[from] NameRefusal),
    /// The caller may not do that.
    #[error("only an operator ends the session of somebody else ({session}); use an operator's token")]
    NotAllowed {
        /// Whose session it is.
        session: SessionId,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ReadError> for CheckpointError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}
