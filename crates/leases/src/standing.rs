//! The one rule: what may be done with a lease now. Every command asks here and none decides it anew.

use crate::{Facts, Lease, LeaseState, SessionFacts};
use std::fmt;
use std::time::Duration;
use tidegate_core::planted::is_planted;
use tidegate_core::{Deadline, Now, WorkClass};

/// How long after its ttl a lease is left alone: a renewal may be under way, and the holder's own deadline is earlier.
pub const GRACE: Duration = Duration::from_secs(1);

/// Why nobody else may have a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// Its time hasn't run out.
    Unexpired,
    /// It protects mutations, and its holder isn't proved dead.
    Unproved,
    /// Its session has calls that are detached or whose outcome is unknown.
    UnsettledCalls,
    /// A restart holds its session up, so that it could not renew. Its time stands still.
    HeldUp,
    /// It is orphaned.
    Orphaned,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unexpired => "its time has not run out, try again when it has",
            Self::Unproved => {
                "it protects mutations and its holder is not proved dead, ask the holder to release it or an operator to adopt it"
            }
            Self::UnsettledCalls => {
                "its session has calls whose outcome is not known, wait until they are settled"
            }
            Self::HeldUp => "a restart holds its session up, wait until that is over",
            Self::Orphaned => "its holder can't be asked, ask an operator to adopt it",
        })
    }
}

/// What may be done with a lease now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has ended: anybody may have it.
    Ended,
    /// Nobody else may have it.
    Kept(Kept),
    /// Its time and the grace have run out: anybody may have it.
    RunOut,
    /// Its holder is proved dead: anybody may have it.
    HolderDead,
    /// It protects mutations, its `max_ttl` has run out and its holder can't be asked: it is to be orphaned.
    Outlived,
}

pub(crate) fn standing(lease: &Lease, facts: &Facts, now: &Now) -> Standing {
    if !lease.is_live() {
        return Standing::Ended;
    }
    let SessionFacts { unsettled_calls: unsettled, held_up, .. } = facts.session(&lease.owner.session);
    if !unsettled && facts.proved_dead(&lease.owner) {
        return Standing::HolderDead;
    }
    if lease.state == LeaseState::Orphaned {
        return Standing::Kept(Kept::Orphaned);
    }
    if held_up {
        return Standing::Kept(Kept::HeldUp);
    }
    if is_planted("a-live-lease-is-taken") {
        return Standing::RunOut;
    }
    if lease.class == WorkClass::Mutating && !is_planted("a-mutating-lease-runs-out") {
        return match max_expiry(lease, facts, now) {
            Some(max) if max.passed(now) => Standing::Outlived,
            _ if unsettled => Standing::Kept(Kept::UnsettledCalls),
            _ => Standing::Kept(Kept::Unproved),
        };
    }
    if !after(expiry(lease, facts, now), GRACE).passed(now) {
        Standing::Kept(Kept::Unexpired)
    } else if unsettled {
        Standing::Kept(Kept::UnsettledCalls)
    } else {
        Standing::RunOut
    }
}

/// When the holder's time runs out, seen from here: a manager that was away for longer than a ttl owes a whole one.
pub(crate) fn expiry(lease: &Lease, facts: &Facts, now: &Now) -> Deadline {
    owed(lease, facts, lease.deadline_on(now))
}

fn max_expiry(lease: &Lease, facts: &Facts, now: &Now) -> Option<Deadline> {
    lease.max_deadline_on(now).map(|max| owed(lease, facts, max))
}

fn owed(lease: &Lease, facts: &Facts, deadline: Deadline) -> Deadline {
    match facts.freeze() {
        Some(freeze) if lease.ttl <= freeze.gap => {
            let from = Deadline { at_ms: freeze.ended_ms, ..deadline };
            Deadline { at_ms: deadline.at_ms.max(after(from, lease.ttl).at_ms), ..deadline }
        }
        _ => deadline,
    }
}

/// The deadline, moved.
pub(crate) fn after(deadline: Deadline, by: Duration) -> Deadline {
    let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    Deadline { at_ms: deadline.at_ms.saturating_add(by_ms), ..deadline }
}
