//! What the caller has to tell others once a decision is durable.

use crate::{Lease, LeaseKey};
use tidegate_core::{Fence, SessionId};

/// Something others have to hear, once the decision is durable. It may be said twice: key and fence tell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseEffect {
    /// Nobody can have the lease until an operator adopts it: open an incident.
    Orphaned {
        /// The resource.
        key: LeaseKey,
        /// Whose it was.
        session: SessionId,
        /// Under which fence.
        fence: Fence,
        /// Why the holder can't be asked.
        why: String,
    },
    /// The session no longer has the lease: tell it to acquire it again. A courtesy, which an uncertain commit may cost;
    /// it learns it at its next renewal anyway.
    Lost {
        /// The resource.
        key: LeaseKey,
        /// Whose it was.
        session: SessionId,
        /// Under which fence.
        fence: Fence,
    },
}

impl LeaseEffect {
    pub(crate) fn orphaned(lease: &Lease, why: &str) -> Self {
        let (key, session) = (lease.key.clone(), lease.owner.session.clone());
        Self::Orphaned { key, session, fence: lease.fence, why: why.to_owned() }
    }

    pub(crate) fn lost(lease: &Lease) -> Self {
        Self::Lost { key: lease.key.clone(), session: lease.owner.session.clone(), fence: lease.fence }
    }
}
