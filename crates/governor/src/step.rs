//! The state machine of one operation. Pure: an operation and what happened give the next operation and what else has
//! to be written with it; what to do then follows from the operation ([`effect_of`](crate::effect_of)). It reads no
//! record and makes no text for a store.

use crate::operation::{Drain, MAX_HOLDERS};
use crate::{Caller, ComponentState, Event, Intent, Launches, Operation, Phase, Stamp, Verified, ruling};
use std::collections::BTreeMap;
use tidegate_checkpoints::Draft;
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, DrainId, Now};
use tidegate_drain::{End, Holder, Verdict};

/// How often a component is started in one operation: once, and once more when that failed.
pub const MAX_STARTS: u32 = 2;

/// Why an operation ends in an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Unsafe work outlived the drain's deadline.
    Refused,
    /// What may be left of an unsafe call in an old server outlived the drain's deadline.
    Blocked,
    /// A gate is somebody else's.
    NotClosed,
    /// The governor went away before anything was stopped.
    Interrupted,
    /// Components could not be stopped, or not be started again.
    NotRestarted,
    /// What was new failed, and what was old serves again.
    RolledBack,
    /// Unsafe work was cut.
    Abandoned,
}

/// What is written in the same commit as the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Join {
    /// The drain's record begins.
    BeginDrain,
    /// The drain's record moves on.
    EndDrain(End),
    /// The sessions' checkpoints.
    Checkpoint(Vec<Draft>),
    /// The sessions are told that it is over.
    Tell,
    /// The time that sessions were held is given back to their leases.
    SettleLeases,
    /// The incident that the operation will name.
    Incident(Trouble),
    /// These are proved dead.
    Dead(Vec<ComponentName>),
    /// The next generation of all that are pending.
    BeginGenerations,
    /// These are in that state now.
    State(Vec<ComponentName>, ComponentState),
    /// Every component is what it was before, or what came of it.
    Restore,
    /// The components are given up.
    Release,
}

/// A step: the operation as it will be, and what is written with it. No joins and an equal operation write nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) joins: Vec<Join>,
}

/// The next step; `None` when the event changes nothing.
pub(crate) fn step(operation: &Operation, event: &Event, now: &Now, stamp: &Stamp) -> Option<Step> {
    let mut next = operation.clone();
    next.stamp = stamp.to_string();
    let joins = match (operation.phase, event) {
        (Phase::Approved, Event::Identified { current, previous, drain }) => {
            next.upgrade.previous.clone_from(previous);
            begin(&mut next, current, drain, now)
        }
        (Phase::Approved, Event::Interrupted) => {
            interrupted(&mut next, now, vec![Join::Incident(Trouble::Interrupted), Join::Release])
        }
        (Phase::Approved, Event::NotClosed(why)) => {
            next.end(Phase::Failed, why.clone(), now);
            vec![Join::Incident(Trouble::NotClosed), Join::Release]
        }
        (Phase::Draining, Event::NotClosed(why)) => {
            next.end(Phase::Failed, why.clone(), now);
            back(Trouble::NotClosed, End::Reopened { reason: why.clone() })
        }
        (Phase::Draining, Event::Drained(verdict)) => drained(&mut next, verdict, now)?,
        (Phase::Draining | Phase::Checkpointing, Event::Interrupted) => {
            let reason = "the governor was interrupted".to_owned();
            interrupted(&mut next, now, back(Trouble::Interrupted, End::Reopened { reason }))
        }
        (Phase::Checkpointing, Event::Blocked(left)) => blocked(&mut next, left, now),
        (Phase::Checkpointing, Event::Gathered(drafts)) => {
            next.phase = Phase::Stopping;
            next.pending = next.scope.iter().cloned().collect();
            next.sessions = drafts.iter().map(|draft| draft.session.clone()).collect();
            let state = Join::State(next.scope.clone(), ComponentState::Stopping);
            if is_planted("stopped-without-checkpoints") {
                return Some(Step { operation: next, joins: vec![Join::SettleLeases, state] });
            }
            vec![Join::Checkpoint(drafts.clone()), Join::SettleLeases, state]
        }
        (Phase::Stopping, Event::Stopped(results)) => stopped(&mut next, results, now),
        (Phase::Starting, Event::Started(results)) => started(&mut next, results),
        (Phase::Verifying, Event::Verified(results)) => verified(&mut next, results, now),
        (Phase::Stopping | Phase::Starting | Phase::Verifying, Event::Interrupted) => carry_on(&mut next),
        (_, Event::Reopened) if operation.is_to_reopen() => {
            next.reopened_at = Some(now.wall);
            vec![Join::Release]
        }
        _ => return None,
    };
    Some(Step { operation: next, joins })
}

/// The way back by somebody's word: nothing was stopped.
pub(crate) fn cancel(operation: &Operation, by: &Caller, now: &Now, stamp: &Stamp) -> Step {
    let mut next = operation.clone();
    next.stamp = stamp.to_string();
    let note = format!("cancelled by {}", by.name());
    next.end(Phase::Cancelled, note.clone(), now);
    let joins = match operation.drain {
        Some(_) => vec![Join::EndDrain(End::Reopened { reason: note }), Join::Restore],
        None => vec![Join::Release],
    };
    Step { operation: next, joins }
}

/// The way back: nothing was stopped.
fn back(trouble: Trouble, end: End) -> Vec<Join> {
    let is_untold = match trouble {
        Trouble::Refused => is_planted("refused-without-an-incident"),
        Trouble::Interrupted => is_planted("interrupted-without-an-incident"),
        Trouble::Blocked
        | Trouble::NotClosed
        | Trouble::NotRestarted
        | Trouble::RolledBack
        | Trouble::Abandoned => false,
    };
    if is_untold {
        return vec![Join::EndDrain(end), Join::Restore];
    }
    vec![Join::Incident(trouble), Join::EndDrain(end), Join::Restore]
}

fn begin(next: &mut Operation, current: &Launches, drain: &DrainId, now: &Now) -> Vec<Join> {
    if next.expires.passed(now) {
        next.end(Phase::Expired, "it was not begun in time".to_owned(), now);
        return vec![Join::Release];
    }
    if let Err(error) = ruling::unchanged(next, current) {
        next.end(Phase::Expired, error.to_string(), now);
        return vec![Join::Release];
    }
    if next.scope.is_empty() {
        next.end(Phase::Completed, String::new(), now);
        return vec![Join::Release];
    }
    next.phase = Phase::Draining;
    next.drain = Some(Drain {
        id: drain.clone(),
        deadline: now.deadline(next.drain_deadline),
        began_ms: now.boot_ms,
        settled_ms: now.boot_ms,
    });
    vec![Join::BeginDrain, Join::State(next.scope.clone(), ComponentState::Draining)]
}

fn drained(next: &mut Operation, verdict: &Verdict, now: &Now) -> Option<Vec<Join>> {
    match verdict {
        Verdict::Wait => None,
        Verdict::Drained { read_only } => {
            next.phase = Phase::Checkpointing;
            next.holders.clear();
            next.interrupted = bounded(read_only);
            Some(vec![Join::EndDrain(End::Drained)])
        }
        Verdict::Refused { holders } if next.abandon_unsafe => {
            let (cut, read_only): (Vec<Holder>, Vec<Holder>) =
                holders.iter().cloned().partition(Holder::blocks);
            next.phase = Phase::Checkpointing;
            next.holders.clear();
            next.interrupted = bounded(&read_only);
            next.abandoned = bounded(&cut);
            Some(vec![Join::Incident(Trouble::Abandoned), Join::EndDrain(End::Drained)])
        }
        Verdict::Refused { holders } => {
            next.holders = bounded(holders);
            let blocking = holders.iter().filter(|holder| holder.blocks()).count();
            let note = format!("the drain's deadline passed with {blocking} unsafe call(s) in flight");
            next.end(Phase::Refused, note, now);
            Some(back(Trouble::Refused, End::Refused { holders: holders.clone() }))
        }
    }
}

/// An old server may be in the middle of an unsafe call, and can't be ended: nothing is stopped, nothing is started beside it.
fn blocked(next: &mut Operation, left: &BTreeMap<ComponentName, String>, now: &Now) -> Vec<Join> {
    let left: Vec<String> = left.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let note = format!("an old server is still there: {}", left.join("; "));
    next.end(Phase::Refused, note.clone(), now);
    back(Trouble::Blocked, End::Reopened { reason: note })
}

/// The holders that an operation names: those that block first.
pub(crate) fn bounded(holders: &[Holder]) -> Vec<Holder> {
    let (blocking, others): (Vec<&Holder>, Vec<&Holder>) = holders.iter().partition(|h| h.blocks());
    blocking.into_iter().chain(others).take(MAX_HOLDERS).cloned().collect()
}

fn interrupted(next: &mut Operation, now: &Now, joins: Vec<Join>) -> Vec<Join> {
    let note = format!("it was interrupted while {}; nothing was stopped", next.phase);
    next.end(Phase::Failed, note, now);
    joins
}

fn stopped(
    next: &mut Operation,
    results: &BTreeMap<ComponentName, Result<(), String>>,
    now: &Now,
) -> Vec<Join> {
    let mut dead = Vec::new();
    for (name, result) in results {
        match result {
            Ok(()) => dead.push(name.clone()),
            Err(why) => {
                next.pending.remove(name);
                next.failing.remove(name);
                next.failures.insert(name.clone(), why.clone());
            }
        }
    }
    let mut joins = vec![Join::Dead(dead)];
    if next.intent.ends_daemon() || next.starts >= MAX_STARTS {
        next.pending.clear();
        next.failures.append(&mut next.failing);
    }
    if next.pending.is_empty() {
        joins.extend(finish(next, now));
        return joins;
    }
    next.phase = Phase::Starting;
    next.starts += 1;
    next.failing.clear();
    joins.push(Join::BeginGenerations);
    joins
}

fn started(next: &mut Operation, results: &BTreeMap<ComponentName, Result<(), String>>) -> Vec<Join> {
    next.failing.extend(results.iter().filter_map(|(name, r)| Some((name.clone(), r.clone().err()?))));
    let running: Vec<ComponentName> =
        next.pending.iter().filter(|name| !next.failing.contains_key(*name)).cloned().collect();
    if running.is_empty() {
        return failed(next);
    }
    next.phase = Phase::Verifying;
    vec![Join::State(running, ComponentState::Verifying)]
}

fn verified(
    next: &mut Operation,
    results: &BTreeMap<ComponentName, Result<Verified, String>>,
    now: &Now,
) -> Vec<Join> {
    for (name, result) in results {
        match result {
            Ok(verified) => {
                next.pending.remove(name);
                next.verified.insert(name.clone(), verified.clone());
            }
            Err(why) => {
                next.failing.insert(name.clone(), why.clone());
            }
        }
    }
    if next.pending.is_empty() { finish(next, now) } else { failed(next) }
}

/// Something did not start, or did not pass its verification. What was is tried once more; what is new is given up, and
/// everything in scope goes back.
fn failed(next: &mut Operation) -> Vec<Join> {
    if next.upgrade.can_roll_back() {
        next.upgrade.rejected = std::mem::take(&mut next.failing);
        next.pending = next.scope.iter().filter(|name| !next.failures.contains_key(*name)).cloned().collect();
        next.verified.clear();
        // The way back is tried once.
        next.starts = MAX_STARTS - 1;
    }
    stop_failing(next)
}

/// What failed is stopped, with proof of death, before it is tried again or given up.
fn stop_failing(next: &mut Operation) -> Vec<Join> {
    next.phase = Phase::Stopping;
    vec![Join::State(next.pending.iter().cloned().collect(), ComponentState::Stopping)]
}

/// Nobody knows what runs: everything that hasn't been given up is stopped again and then started. The attempt that
/// was interrupted doesn't count, and there always is one more.
fn carry_on(next: &mut Operation) -> Vec<Join> {
    let interrupted = u32::from(next.phase != Phase::Stopping);
    next.starts = next.starts.saturating_sub(interrupted).min(MAX_STARTS - 1);
    next.phase = Phase::Stopping;
    // Whoever was told to end has ended. Its successor serves: what was stopped for that is started again.
    next.intent = Intent::Restart;
    next.pending = next.scope.iter().filter(|name| !next.failures.contains_key(*name)).cloned().collect();
    next.verified.clear();
    vec![Join::State(next.pending.iter().cloned().collect(), ComponentState::Stopping)]
}

/// Everything was done that could be.
fn finish(next: &mut Operation, now: &Now) -> Vec<Join> {
    let mut joins = Vec::new();
    let reason = if next.failures.is_empty() && next.upgrade.is_rolling_back() {
        let names: Vec<&str> = next.upgrade.rejected.keys().map(ComponentName::as_str).collect();
        let note = format!("{} failed as asked for; what was before serves again", names.join(", "));
        next.end(Phase::RolledBack, note, now);
        joins.push(Join::Incident(Trouble::RolledBack));
        "the operation was rolled back"
    } else if next.failures.is_empty() {
        let note = next.upgrade.outcome(&next.verified);
        next.end(Phase::Completed, note, now);
        "the operation was completed"
    } else {
        let names: Vec<&str> = next.failures.keys().map(ComponentName::as_str).collect();
        let note = format!(
            "{} of {} could not be brought back: {}",
            names.len(),
            next.scope.len(),
            names.join(", ")
        );
        next.end(Phase::Failed, note, now);
        if !is_planted("failed-without-an-incident") {
            joins.push(Join::Incident(Trouble::NotRestarted));
        }
        "the operation failed"
    };
    joins.extend([Join::EndDrain(End::Reopened { reason: reason.to_owned() }), Join::Restore]);
    joins.extend([Join::SettleLeases, Join::Tell]);
    if next.intent.ends_daemon() {
        // The gates stay closed: the daemon ends.
        next.reopened_at = Some(now.wall);
        joins.push(Join::Release);
    }
    joins
}

#[cfg(test)]
mod tests;
