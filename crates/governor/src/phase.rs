//! The phases of an operation: which there are, which are ends, which still allow a way back.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where an operation is. Durable before it is acted on; spelled as in the public contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Phase {
    /// Asked for; waits for approvals. Reserves nothing.
    Requested,
    /// Approved; from here on it owns its components.
    Approved,
    /// The gates are closing or closed; waits for the work in flight.
    Draining,
    /// Nothing unsafe is in flight; the sessions' facts are being gathered.
    Checkpointing,
    /// The checkpoints are durable; servers are being stopped. From here on there is only forward.
    Stopping,
    /// The old servers are proved dead and the new generations are durable; servers are being started.
    Starting,
    /// Servers run; each has to answer a handshake and its lists.
    Verifying,
    /// Done.
    Completed,
    /// An approver said no.
    Denied,
    /// Nobody approved in time, or what was approved is not what is there any more.
    Expired,
    /// Taken back before anything was stopped.
    Cancelled,
    /// The drain's deadline passed with unsafe work in flight; nothing was stopped.
    Refused,
    /// The new identity failed and the old one serves again.
    RolledBack,
    /// It could not be carried out; the incident says what is needed.
    Failed,
}

impl Phase {
    /// Whether nothing follows.
    #[must_use]
    pub fn is_end(self) -> bool {
        self >= Self::Completed
    }

    /// Whether servers may already have been stopped, so that the operation can only be carried forward.
    #[must_use]
    pub fn is_past_return(self) -> bool {
        matches!(self, Self::Stopping | Self::Starting | Self::Verifying)
    }

    /// Whether it owns its components: approved and not ended.
    #[must_use]
    pub fn is_running(self) -> bool {
        self > Self::Requested && !self.is_end()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_is_one_of_waiting_running_ended() {
        use Phase::*;
        for (phase, running, past_return, end) in [
            (Requested, false, false, false),
            (Approved, true, false, false),
            (Draining, true, false, false),
            (Checkpointing, true, false, false),
            (Stopping, true, true, false),
            (Starting, true, true, false),
            (Verifying, true, true, false),
            (Completed, false, false, true),
            (Denied, false, false, true),
            (Expired, false, false, true),
            (Cancelled, false, false, true),
            (Refused, false, false, true),
            (RolledBack, false, false, true),
            (Failed, false, false, true),
        ] {
            assert_eq!(
                (phase.is_running(), phase.is_past_return(), phase.is_end()),
                (running, past_return, end),
                "{phase}"
            );
        }
    }
}
