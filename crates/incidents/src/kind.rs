//! What an incident can be about, how bad it is, and who is next. Fixed lists, spelled as in the public contract.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! spelled {
    ($(#[$doc:meta])* $type:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $name)] $variant,)+
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its spelling.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|v| v.as_str() == s).ok_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|v| v.as_str()).collect();
                    format!("{} is one of {}; {s:?} is not", $what, all.join(", "))
                })
            }
        }
    };
}

spelled! {
    /// What happened. With the dedup key it says whether two reports are about the same thing.
    IncidentKind, "an incident's kind" {
        /// A drain ended with unsafe work still running; the restart was refused.
        DrainRefused = "drain_refused",
        /// A server did not start.
        StartFailed = "start_failed",
        /// A restart ended without a running server.
        RestartFailed = "restart_failed",
        /// A restart was undone: the old launch identity runs again.
        RolledBack = "rolled_back",
        /// A new server started and did not pass its verification.
        VerifyFailed = "verify_failed",
        /// A call was written, never answered, and may not be replayed.
        OutcomeUnknown = "outcome_unknown",
        /// A mutating lease whose holder can't be proved dead or alive.
        LeaseOrphaned = "lease_orphaned",
        /// A lease ran out while its holder was gone.
        LeaseExpired = "lease_expired",
        /// A server ended by itself.
        ComponentCrashed = "component_crashed",
        /// An operation was found open after its daemon's death and was ended.
        OperationInterrupted = "operation_interrupted",
        /// A daemon ended without shutting down.
        UncleanStop = "unclean_stop",
        /// An operator went around the approvals.
        BreakGlass = "break_glass",
        /// A signal ended a daemon while an unsafe call was running.
        UnsafeAfterSignal = "unsafe_after_signal",
        /// Processes of a stopped server are still there.
        TreeSurvived = "tree_survived",
        /// The store could not do what it was asked.
        StoreFailed = "store_failed",
        /// More different incidents than are kept; this one stands for the rest.
        TooManyIncidents = "too_many_incidents",
    }
}

spelled! {
    /// How bad it is, mildest first.
    Severity, "a severity" {
        /// For the record.
        Info = "info",
        /// Somebody should look.
        Warning = "warning",
        /// Somebody has to look now.
        Critical = "critical",
    }
}

spelled! {
    /// Whose turn it is.
    WhoIsNext, "who is next" {
        /// An operator.
        Operator = "operator",
        /// The session that it happened to.
        Session = "session",
        /// Nobody: nothing is left to do.
        Nobody = "nobody",
    }
}

spelled! {
    /// Where an incident is in its life.
    IncidentState, "an incident's state" {
        /// Nobody has looked.
        Open = "open",
        /// Somebody has.
        Acknowledged = "acknowledged",
        /// Nothing is left to do. When it recurs it is open again.
        Resolved = "resolved",
    }
}
