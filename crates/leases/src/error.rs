//! What can go wrong with a lease, by what the caller can do next.

use crate::{Kept, LeaseKey, LeaseState, MAX_LEASES, MAX_TTL, MIN_TTL};
use std::time::Duration;
use tidegate_core::{Fence, SessionId};
use tidegate_store::{ReadError, StoreError};

/// A command that was refused. Nothing has been changed, unless it is a [`StoreError`] that says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Somebody else has it.
    #[error("{key} is held by {by}{}: {kept}", for_another(.kept, .free_in))]
    Held {
        /// The resource.
        key: LeaseKey,
        /// Its holder.
        by: SessionId,
        /// The holder's fence.
        fence: Fence,
        /// When the holder's time and the grace run out.
        free_in: Duration,
        /// Why nobody else may have it.
        kept: Kept,
    },
    /// The caller had the lease once; somebody got it since. What it protects may have changed.
    #[error(
        "the fence {fence} of {key} is stale, the lease is now at {current}: acquire it again and read what it protects anew"
    )]
    Stale {
        /// The resource.
        key: LeaseKey,
        /// What the caller showed.
        fence: Fence,
        /// What counts.
        current: Fence,
    },
    /// Nobody holds it.
    #[error("{key} is not held{}: acquire it", state_text(.state))]
    NotHeld {
        /// The resource.
        key: LeaseKey,
        /// What became of the last lease, where there is a record.
        state: Option<LeaseState>,
    },
    /// The fence is right and the caller is somebody else.
    #[error(
        "{key} is held by {by}, not by the caller: only its owner renews or releases it, operators adopt it"
    )]
    NotYours {
        /// The resource.
        key: LeaseKey,
        /// Its holder.
        by: SessionId,
    },
    /// The process that holds it is proved dead: whoever renews in its name has to stop.
    #[error("the owner of {key} is dead: stop renewing in its name")]
    OwnerGone {
        /// The resource.
        key: LeaseKey,
    },
    /// Its longest time has run out, or it is orphaned already.
    #[error("{key} can't be renewed beyond its max_ttl: release it and acquire it again")]
    Outlived {
        /// The resource.
        key: LeaseKey,
    },
    /// A mutating lease without a process to prove dead.
    #[error(
        "{key} protects mutations and its owner has no process that could be proved dead: give a max_ttl"
    )]
    MaxTtlRequired {
        /// The resource.
        key: LeaseKey,
    },
    /// A ttl that is out of bounds.
    #[error("a ttl is between {} and {} ms, and max_ttl between the ttl and the latter; {} ms is not", MIN_TTL.as_millis(), MAX_TTL.as_millis(), .given.as_millis())]
    TtlOutOfRange {
        /// What was asked for.
        given: Duration,
    },
    /// [`MAX_LEASES`] are held.
    #[error("{MAX_LEASES} leases are held, which is the limit: release some first")]
    TooMany,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ReadError> for LeaseError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

impl LeaseError {
    /// Whether the caller's lease is lost for good: only acquiring it again helps.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Stale { .. }
            | Self::NotHeld { .. }
            | Self::NotYours { .. }
            | Self::OwnerGone { .. }
            | Self::Outlived { .. } => true,
            Self::Held { .. }
            | Self::MaxTtlRequired { .. }
            | Self::TtlOutOfRange { .. }
            | Self::TooMany
            | Self::Store(_) => false,
        }
    }
}

fn state_text(state: &Option<LeaseState>) -> &'static str {
    match state {
        Some(LeaseState::Released) => " any more, it was released",
        Some(LeaseState::Expired) => " any more, it expired",
        _ => "",
    }
}

fn for_another(kept: &Kept, free_in: &Duration) -> String {
    match kept {
        Kept::Unexpired => format!(" for another {} ms", free_in.as_millis()),
        _ => String::new(),
    }
}
