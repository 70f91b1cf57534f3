//! A lease that is held, as whoever admits work under it needs to know it. How it came to that is the leases'.

use crate::{Fence, SessionId};

/// A lease that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// By whom.
    pub session: SessionId,
    /// Under which token.
    pub fence: Fence,
    /// Until when, in milliseconds of the boot-time clock; `None`: as long as its holder lives.
    pub until_ms: Option<u64>,
}
