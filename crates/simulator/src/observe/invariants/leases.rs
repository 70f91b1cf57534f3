//! The bullet about leases, for the work that is done under them. 6.

use super::Found;
use crate::observe::{Call, CallId, Needed, Observation, Outcome, Seen};
use crate::world::UP_MS;
use tidegate_core::{SessionId, WorkClass};
use tidegate_leases::{Lease, LeaseState};

/// 6: a call that needs a lease reaches its server only in the holder's name, and under the fence that it names; it is
/// refused only where its session doesn't hold that; and nobody else's call runs under the same lease meanwhile.
pub(super) fn work_under_leases(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| match seen {
        Seen::Received { call, component, .. } => {
            let it = observed.truth.calls.get(call)?;
            let needed = it.lease.as_ref()?;
            let (looked_in, looked_ms) = it.admitted_after;
            let held = |lease: &Lease| holds(lease, &it.session, needed, looked_ms);
            if !observed.durable.lease_since(&needed.key, looked_in).flatten().any(held) {
                let session = &it.session;
                return Some(format!("{component} reads {call}, and {session} does not hold {needed}"));
            }
            beside_another(observed, call, it, needed)
        }
        Seen::Delivered { call, outcome: Outcome::Refused(refused), .. }
            if refused.kind == "lease_required" =>
        {
            let it = observed.truth.calls.get(call)?;
            let Some(needed) = &it.lease else {
                return Some(format!("{call} is refused for a lease that it doesn't need"));
            };
            // One that it was given after it had called may not have been there yet when somebody looked.
            let held = |lease: &Lease| holds(lease, &it.session, needed, observed.truth.now_ms);
            let mut meanwhile = observed.durable.lease_since(&needed.key, it.sent_in);
            let throughout = meanwhile.all(|lease| lease.is_some_and(held));
            (throughout && !it.disturbed)
                .then(|| format!("{call} is refused for want of a lease, and {} holds {needed}", it.session))
        }
        _ => None,
    })
}

/// Whether this is the session's lease, as the call believes, at this time.
fn holds(lease: &Lease, session: &SessionId, needed: &Needed, at_ms: u64) -> bool {
    let renewed = lease.class == WorkClass::Mutating || lease.deadline.at_ms > UP_MS + at_ms;
    let is_in_time = lease.max_deadline.is_none_or(|max| max.at_ms > UP_MS + at_ms);
    lease.state == LeaseState::Held
        && lease.owner.session == *session
        && needed.fence.is_none_or(|fence| lease.fence == fence)
        && renewed
        && is_in_time
}

/// Another session's call that runs under the lease, which only proof of death, or that session itself, could take away.
fn beside_another(observed: &Observation<'_>, call: &CallId, it: &Call, needed: &Needed) -> Found {
    let mut calls = observed.truth.calls.iter();
    let (other, theirs) = calls.find(|(_, other)| {
        let Some(since) = other.executing_since.filter(|_| !other.let_go) else { return false };
        let same = other.lease.as_ref().is_some_and(|lease| lease.key == needed.key);
        same && other.session != it.session && is_guarded(observed, other, needed, since)
    })?;
    let (session, key) = (&theirs.session, &needed.key);
    Some(format!("{call} runs under {key} while {other} of {session} does, which has not let go"))
}

/// Whether a session's lease doesn't end by time alone.
fn is_guarded(observed: &Observation<'_>, call: &Call, needed: &Needed, since: u64) -> bool {
    let meanwhile = observed.durable.lease_since(&needed.key, since).flatten();
    let mut theirs = meanwhile.filter(|it| it.owner.session == call.session).peekable();
    let guarded = |lease: &Lease| lease.class == WorkClass::Mutating && lease.max_deadline.is_none();
    theirs.peek().is_some() && theirs.all(guarded)
}
