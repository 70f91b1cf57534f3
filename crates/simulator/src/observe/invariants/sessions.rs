//! The bullets about sessions: what is kept of them, what they hold, what they are told. 5, 6 and 7.

use super::Found;
use crate::observe::{Call, Fact, Observation, Outcome, Seen};
use tidegate_checkpoints::{CallState, Checkpoint};
use tidegate_core::{NextAction, SessionId, WorkClass};
use tidegate_incidents::IncidentKind;
use tidegate_leases::{Event, Lease, LeaseState};

/// 5: what a session was told is kept is durable, always; and before a server is stopped every session concerned has a
/// checkpoint with the calls that are cut off.
pub(super) fn durable_checkpoints(observed: &Observation<'_>) -> Found {
    let died = observed.news.iter().any(|seen| matches!(seen, Seen::DaemonDied | Seen::Kept { .. }));
    let lost = || {
        observed.truth.kept.iter().find_map(|(session, facts)| {
            let checkpoint = observed.durable.checkpoints.get(session);
            let excused = |fact: &Fact| match fact {
                Fact::Subscription(..) => observed.truth.unrecorded.contains(session),
                Fact::Lease(key) => observed.durable.leases.get(key).is_some_and(|it| was_lost(it, session)),
                Fact::Attached | Fact::Note(_) => false,
            } || observed.truth.ending.contains_key(session);
            let fact =
                facts.iter().find(|fact| !excused(fact) && !checkpoint.is_some_and(|c| covers(c, fact)))?;
            Some(format!("{session} was told that {fact:?} is kept, and it is not durable"))
        })
    };
    let stopped = |seen: &Seen| {
        let Seen::Stopping { component, executing, governed: true, orphaned, .. } = seen else { return None };
        let unknown = observed
            .truth
            .connected
            .iter()
            .find(|(session, to)| to == component && !observed.durable.checkpoints.contains_key(session));
        if let Some((session, _)) = unknown {
            return Some(format!("{component} is stopped, and {session} has no checkpoint"));
        }
        executing.iter().filter(|_| !orphaned).find_map(|it| {
            let call = observed.truth.calls.get(&it.call).filter(|call| call.is_wanted())?;
            let checkpoint = observed.durable.checkpoints.get(&call.session);
            let noted = checkpoint.is_some_and(|c| c.calls.iter().any(|noted| noted.component == *component));
            (!noted).then(|| format!("{component} is stopped under {}, which is in no checkpoint", it.call))
        })
    };
    if observed.changed || died { lost() } else { None }.or_else(|| observed.news.iter().find_map(stopped))
}

/// Whether the session has lost the lease since, on record: then it is told to acquire it again, and holds it no more.
fn was_lost(lease: &Lease, session: &SessionId) -> bool {
    let ends = |event: Event| matches!(event, Event::Expired | Event::Orphaned);
    lease.state != LeaseState::Held
        || lease.owner.session != *session
        || lease.history.iter().any(|entry| ends(entry.event))
}

fn covers(checkpoint: &Checkpoint, fact: &Fact) -> bool {
    match fact {
        Fact::Attached => true,
        Fact::Note(id) => checkpoint.notes.iter().any(|note| note.id == *id),
        Fact::Lease(key) => checkpoint.leases.contains(key),
        Fact::Subscription(component, uri) => {
            checkpoint.subscriptions.iter().any(|s| s.component == *component && s.uri == *uri)
        }
    }
}

/// 6: a lease that was held is held, released by somebody who may, or its end is on record, an orphan's with an incident;
/// fences only grow, and no two sessions ever take themselves for the holder.
pub(super) fn no_silent_orphans(observed: &Observation<'_>) -> Found {
    if let Some(key) = &observed.durable.fallen_fence {
        return Some(format!("the fence of {key} has fallen"));
    }
    let told = observed.news.iter().find_map(|seen| given_wrongly(observed, seen));
    if told.is_some() || !observed.changed {
        return told;
    }
    let kept = observed.truth.kept.values().flatten();
    let mut vanished = kept.filter_map(|fact| match fact {
        Fact::Lease(key) if !observed.durable.leases.contains_key(key) => {
            Some(format!("the record of {key} is gone"))
        }
        _ => None,
    });
    vanished.next().or_else(|| {
        observed.durable.leases.iter().find_map(|(key, lease)| ended_silently(observed, key, lease))
    })
}

/// What somebody was just told of a lease, and should not have been.
fn given_wrongly(observed: &Observation<'_>, seen: &Seen) -> Found {
    let truth = observed.truth;
    match seen {
        Seen::LeaseHeld { session, key, fence, granted: true, .. } if *fence <= truth.floor => {
            let floor = truth.floor;
            Some(format!("{session} is given {key} under {fence}, and before the restore {floor} was given"))
        }
        Seen::LeaseHeld { session, key, fence, until_ms, .. } => {
            let mut others = truth.holders.iter().filter(|((of, by), _)| of == key && by != session);
            let fresh = others.find(|(_, it)| it.until_ms > truth.now_ms && !truth.dead.contains(&it.pid));
            if let Some((_, other)) = fresh {
                let other = other.fence;
                return Some(format!(
                    "{session} holds {key} under {fence}, and another one still does under {other}"
                ));
            }
            let highest = truth.highest.get(key).filter(|highest| *highest > fence)?;
            (*until_ms > truth.now_ms)
                .then(|| format!("{session} is given {key} under {fence}, after {highest} has been given"))
        }
        Seen::Released { key, fence } => {
            let lease = observed.durable.leases.get(key).filter(|it| it.state == LeaseState::Released)?;
            // Its later holder may have given it back itself before this word was heard of.
            let is_held = truth.holders.contains_key(&(key.clone(), lease.owner.session.clone()));
            (lease.fence != *fence && is_held)
                .then(|| format!("{key} under {} was released by a word about {fence}", lease.fence))
        }
        _ => None,
    }
}

/// A lease that has ended, by what is durable, as none may.
fn ended_silently(observed: &Observation<'_>, key: &str, lease: &Lease) -> Found {
    let truth = observed.truth;
    match lease.state {
        LeaseState::Held => None,
        LeaseState::Released => {
            (!truth.given.contains(key)).then(|| format!("{key} is released, and nobody gave it back"))
        }
        LeaseState::Expired => {
            let alive = lease.owner.process.as_ref().is_some_and(|it| !truth.dead.contains(&it.pid));
            if alive && lease.class == WorkClass::Mutating && lease.max_deadline.is_none() {
                let owner = &lease.owner.session;
                return Some(format!("{key} is taken from {owner}, which may be changing something"));
            }
            let recorded = lease.history.iter().any(|entry| entry.event == Event::Expired);
            (!recorded).then(|| format!("{key} has expired without a record"))
        }
        LeaseState::Orphaned => {
            let mut incidents = observed.durable.incidents.values();
            let told = incidents.any(|it| it.kind == IncidentKind::LeaseOrphaned && it.dedup == *key);
            (!told).then(|| format!("{key} is orphaned without an incident"))
        }
    }
}

/// 7: whoever is refused, or comes back, is told exactly one thing to do; and a call whose outcome its client was told to
/// be unknown is on record.
pub(super) fn resume_or_next_action(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| match seen {
        Seen::Ended { session } => left_behind(observed, session),
        Seen::Delivered { call, outcome: Outcome::Refused(refused), local } => {
            if refused.action.is_empty() || refused.prompt.is_empty() {
                return Some(format!("{call} is refused ({}) without a next action", refused.kind));
            }
            let it = observed.truth.calls.get(call)?;
            if !is_answer_to(&refused.kind, &refused.action) {
                return Some(format!("{call} is refused ({}), and told {}", refused.kind, refused.action));
            }
            if refused.action == "RetryCall" && it.class.is_unsafe() && it.received > 0 {
                return Some(format!(
                    "{call} may have happened, and {} is told to make it again",
                    it.session
                ));
            }
            let to_verify = refused.action == "VerifyThenRetry" && !local;
            let excused = observed.truth.unrecorded.contains(&it.session)
                || observed.truth.warned.contains(&it.session);
            (to_verify && !excused && !is_unknown(observed, it)).then(|| {
                format!(
                    "{} is told that the outcome of {call} is unknown, and that is not on record",
                    it.session
                )
            })
        }
        Seen::Resumed { session, action, prompt } => {
            if action.is_empty() || prompt.is_empty() {
                return Some(format!("{session} comes back and is told nothing"));
            }
            let truth = observed.truth;
            let told = action == "VerifyThenRetry" || truth.warned.contains(session);
            if told || truth.unrecorded.contains(session) {
                return None;
            }
            // Of what a session was at that was ended since, its operator was told.
            let ending = truth.ending.get(session);
            let its = |it: &Call| it.session == *session && ending.is_none_or(|ending| it.sent_in > *ending);
            let is_left = |it: &Call| it.left && it.class.is_unsafe() && it.received > 0;
            let (call, _) = truth.calls.iter().find(|(_, it)| its(it) && is_left(it))?;
            Some(format!("{session} is told {action}, and {call} of a client of it that died may be running"))
        }
        _ => None,
    })
}

/// A call that a session was in when it was ended, and of which nothing tells an operator.
fn left_behind(observed: &Observation<'_>, session: &SessionId) -> Found {
    let truth = observed.truth;
    let ending = truth.ending.get(session)?;
    let began = |it: &Call| it.executing_since.is_some_and(|since| since < *ending);
    let mut calls = truth.calls.iter().filter(|(_, it)| it.session == *session && began(it));
    let untold = |it: &Call| {
        let of_it = format!("{}/{session}/", it.component);
        let mut incidents = observed.durable.incidents.values();
        !incidents.any(|it| it.kind == IncidentKind::OutcomeUnknown && it.dedup.starts_with(&of_it))
    };
    let (call, _) = calls.find(|(_, it)| truth.is_running(it) && untold(it))?;
    Some(format!("{session} was ended in the middle of {call}, and no operator is told"))
}

/// Whether the next action is one that a refusal of this kind has.
fn is_answer_to(kind: &str, action: &str) -> bool {
    match kind {
        "draining" => action == "WaitForRestart",
        "unavailable" => ["ContactOperator", "WaitForRestart"].contains(&action),
        "outcome_unknown" => ["VerifyThenRetry", "RetryCall"].contains(&action),
        "tool_changed" => action == "RefreshTools",
        "lease_required" => action == "ReacquireLease",
        _ => false,
    }
}

fn is_unknown(observed: &Observation<'_>, call: &Call) -> bool {
    let Some(checkpoint) = observed.durable.checkpoints.get(&call.session) else { return false };
    let pending = checkpoint.pending.iter().any(|p| {
        matches!(&p.action, NextAction::VerifyThenRetry { component, .. } if *component == call.component)
    });
    let noted =
        |c: &tidegate_checkpoints::CallFact| c.state == CallState::Unknown && c.component == call.component;
    pending || checkpoint.calls.iter().any(noted)
}
