//! The ten bullets as functions of what was observed, one each, and the two rules that stand above them: a call takes
//! effect once, and everything settles. Pure: each looks at one observation and names what is wrong with it.

use super::truth::is_failure;
use super::{Call, CallId, Fact, Observation, Outcome, Seen};
use crate::world::UP_MS;
use std::collections::BTreeSet;
use std::fmt;
use tidegate_checkpoints::{CallState, Checkpoint, Resume};
use tidegate_core::{NextAction, SessionId, WorkClass};
use tidegate_governor::{CallerKind, Operation, Phase};
use tidegate_incidents::{IncidentKind, WhoIsNext};
use tidegate_leases::{Event, Lease, LeaseState};

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// One of the ten bullets.
    Bullet(u8),
    /// A call takes effect at most once and is answered at most once, and an answer is the server's.
    Once,
    /// When nothing goes wrong any more, everything comes to an end.
    Settles,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bullet(number) => {
                write!(f, "bullet {number} ({})", NAMES.get(usize::from(*number) - 1).unwrap_or(&"?"))
            }
            Self::Once => f.write_str("every call once"),
            Self::Settles => f.write_str("everything settles"),
        }
    }
}

const NAMES: [&str; 10] = [
    "no unilateral restart",
    "new work stops during drain",
    "active safe work finishes",
    "unsafe mutation blocks restart",
    "durable checkpoints",
    "no silent orphans",
    "resume or next action",
    "failed drain leaves work",
    "scoped",
    "no chat reconstruction",
];

/// A broken rule, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What a check finds.
type Found = Option<String>;

type Check = fn(&Observation<'_>) -> Found;

/// All of them, in order.
const CHECKS: [(Rule, Check); 11] = [
    (Rule::Bullet(1), no_unilateral_restart),
    (Rule::Bullet(2), new_work_stops_during_drain),
    (Rule::Bullet(3), active_safe_work_finishes),
    (Rule::Bullet(4), unsafe_mutation_blocks_restart),
    (Rule::Bullet(5), durable_checkpoints),
    (Rule::Bullet(6), no_silent_orphans),
    (Rule::Bullet(7), resume_or_next_action),
    (Rule::Bullet(8), failed_drain_leaves_work),
    (Rule::Bullet(9), scoped),
    (Rule::Bullet(10), no_chat_reconstruction),
    (Rule::Once, every_call_once),
];

/// Checks everything after a step.
pub(crate) fn check(observed: &Observation<'_>) -> Result<(), Violation> {
    for (rule, check) in CHECKS {
        if let Some(what) = check(observed) {
            return Err(Violation { rule, what });
        }
    }
    Ok(())
}

/// 1: a server is stopped for an operation only, and for one that was asked for by an operator or a signal, or approved by
/// others who have a credential; and what is started is what was approved.
pub(crate) fn no_unilateral_restart(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| match seen {
        Seen::Stopping { component, governed: true, .. } => match observed.durable.stopping(component) {
            None => Some(format!("{component} is stopped, and no operation is stopping it")),
            Some(operation) => unapproved(observed, operation),
        },
        Seen::Started { component, generation, launch, .. } => {
            let starting = observed.durable.operations.values().find(|o| {
                o.phase == Phase::Starting
                    && o.generations.get(component).is_some_and(|it| it.after == Some(*generation))
            })?;
            let taken = observed.truth.taken.get(&starting.id).and_then(|launches| launches.get(component));
            let upgrade = &starting.upgrade;
            let goes_back = upgrade.is_rolling_back() && upgrade.previous.get(component) == Some(launch);
            (taken != Some(launch) && !goes_back)
                .then(|| format!("{} starts {component} as something else than was asked for", starting.id))
        }
        _ => None,
    })
}

fn unapproved(observed: &Observation<'_>, operation: &Operation) -> Found {
    let id = &operation.id;
    let Some(requester) = observed.truth.asked.get(id) else {
        return Some(format!("{id} stops servers, and nobody asked for it"));
    };
    let policy = &observed.truth.policy;
    let needed = match requester.kind() {
        CallerKind::Signal => 0,
        CallerKind::Operator if operation.break_glass => 0,
        CallerKind::Operator => policy.operator_approvals,
        _ => policy.approvals,
    };
    let said_yes = observed.truth.approving.get(id).into_iter().flatten();
    let count = said_yes
        .filter(|by| policy.is_approver(by) && by.name() != requester.name())
        .map(|by| by.name().clone())
        .collect::<BTreeSet<_>>()
        .len();
    (count < needed as usize)
        .then(|| format!("{id} of {} stops servers with {count} of {needed} approvals", requester.name()))
}

/// 2: what a server reads while its gate is closed was admitted before the gate was closed; and it is closed when the
/// server is stopped.
pub(crate) fn new_work_stops_during_drain(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| {
        if let Seen::Stopping { component, governed: true, .. } = seen {
            let open = observed.truth.components.get(component)?.closed_in.is_none();
            return open.then(|| format!("{component} is stopped behind an open gate"));
        }
        let (what, component, decided) = match seen {
            Seen::Received { call, component, decided, .. } => (call.to_string(), component, decided),
            Seen::ReadOwn { component, decided } => ("a request".to_owned(), component, decided),
            _ => return None,
        };
        let closed_in = observed.truth.components.get(component)?.closed_in?;
        (*decided > closed_in).then(|| {
            format!("{component} reads {what}, admitted in step {decided}, behind a gate closed in step {closed_in}")
        })
    })
}

/// 3: nobody but its client cancels a call; a server is stopped before the deadline only when nothing is in flight; what a
/// server has answered reaches its client, and nothing else does.
pub(crate) fn active_safe_work_finishes(observed: &Observation<'_>) -> Found {
    let truth = observed.truth;
    observed.news.iter().find_map(|seen| match seen {
        Seen::CancelReceived { call } => {
            let it = truth.calls.get(call)?;
            let times_out = truth.components.get(&it.component).is_some_and(|c| c.times_out);
            (!it.given_up && !times_out)
                .then(|| format!("{call} is cancelled, and its client did not do that"))
        }
        Seen::Stopping { component, executing, governed: true, orphaned: false, .. } => {
            let drain = observed.durable.stopping(component)?.drain.as_ref()?;
            let left = drain.deadline.at_ms.saturating_sub(UP_MS + truth.now_ms);
            let waits =
                |it: &&crate::world::Executing| truth.calls.get(&it.call).is_some_and(Call::is_wanted);
            let cut_off = executing.iter().find(waits).filter(|_| left > 0)?;
            Some(format!(
                "{component} is stopped under {}, {left} ms before the drain's deadline",
                cut_off.call
            ))
        }
        Seen::Delivered { call, outcome, .. } => {
            let it = truth.calls.get(call)?;
            let times_out = truth.components.get(&it.component).is_some_and(|c| c.times_out);
            let lost = it.owed && !times_out && !matches!(outcome, Outcome::Answered(_));
            lost.then(|| format!("the server has answered {call}, and its client reads: {outcome}"))
        }
        _ => None,
    })
}

/// 4: no server is stopped while an unsafe call executes in it, unless an operator has said so.
pub(crate) fn unsafe_mutation_blocks_restart(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| {
        let Seen::Stopping { component, generation, executing, .. } = seen else { return None };
        let cut = |o: &Operation| o.abandon_unsafe && o.break_glass && o.requester == CallerKind::Operator;
        if observed.durable.stopping(component).is_some_and(cut) {
            return None;
        }
        let it = executing.iter().find(|it| it.class.is_unsafe())?;
        Some(format!(
            "generation {generation} of {component} is stopped while it executes {} ({})",
            it.call, it.class
        ))
    })
}

/// 5: what a session was told is kept is durable, always; and before a server is stopped every session concerned has a
/// checkpoint with the calls that are cut off.
pub(crate) fn durable_checkpoints(observed: &Observation<'_>) -> Found {
    let died = observed.news.iter().any(|seen| matches!(seen, Seen::DaemonDied | Seen::Kept { .. }));
    let lost = || {
        observed.truth.kept.iter().find_map(|(session, facts)| {
            let checkpoint = observed.durable.checkpoints.get(session);
            let excused = |fact: &Fact| match fact {
                Fact::Subscription(..) => observed.truth.unrecorded.contains(session),
                Fact::Lease(key) => observed.durable.leases.get(key).is_some_and(|it| was_lost(it, session)),
                Fact::Attached | Fact::Note(_) => false,
            };
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
pub(crate) fn no_silent_orphans(observed: &Observation<'_>) -> Found {
    let (truth, durable) = (observed.truth, observed.durable);
    if let Some(key) = &durable.fallen_fence {
        return Some(format!("the fence of {key} has fallen"));
    }
    let two_holders = observed.news.iter().find_map(|seen| {
        let Seen::LeaseHeld { session, key, fence, until_ms, granted, .. } = seen else { return None };
        if *granted && *fence <= truth.floor {
            return Some(format!(
                "{session} is given {key} under {fence}, and before the restore {} was given",
                truth.floor
            ));
        }
        let others = truth.holders.iter().filter(|((of, by), _)| of == key && by != session);
        let mut fresh = others.filter(|(_, it)| it.until_ms > truth.now_ms && !truth.dead.contains(&it.pid));
        if let Some((_, other)) = fresh.next() {
            let other = other.fence;
            return Some(format!(
                "{session} holds {key} under {fence}, and another one still does under {other}"
            ));
        }
        let highest = truth.highest.get(key).filter(|highest| *highest > fence)?;
        (*until_ms > truth.now_ms)
            .then(|| format!("{session} is given {key} under {fence}, after {highest} has been given"))
    });
    let two_holders = two_holders.or_else(|| {
        observed.news.iter().find_map(|seen| {
            let Seen::Released { key, fence } = seen else { return None };
            let lease = durable.leases.get(key).filter(|lease| lease.state == LeaseState::Released)?;
            (lease.fence != *fence)
                .then(|| format!("{key} under {} was released by a word about {fence}", lease.fence))
        })
    });
    if two_holders.is_some() || !observed.changed {
        return two_holders;
    }
    let kept = truth.kept.values().flatten();
    let vanished = kept.filter_map(|fact| match fact {
        Fact::Lease(key) if !durable.leases.contains_key(key) => Some(format!("the record of {key} is gone")),
        _ => None,
    });
    let silent = durable.leases.iter().filter_map(|(key, lease)| match lease.state {
        LeaseState::Held => None,
        LeaseState::Released => {
            (!truth.given.contains(key)).then(|| format!("{key} is released, and nobody gave it back"))
        }
        LeaseState::Expired => {
            let recorded = lease.history.iter().any(|entry| entry.event == Event::Expired);
            let alive =
                |lease: &&Lease| lease.owner.process.as_ref().is_some_and(|p| !truth.dead.contains(&p.pid));
            let taken = Some(lease)
                .filter(|it| it.class == WorkClass::Mutating && it.max_deadline.is_none())
                .filter(alive)
                .map(|it| {
                    format!("{key} is taken from {}, which may be changing something", it.owner.session)
                });
            taken.or_else(|| (!recorded).then(|| format!("{key} has expired without a record")))
        }
        LeaseState::Orphaned => {
            let told = durable
                .incidents
                .values()
                .any(|incident| incident.kind == IncidentKind::LeaseOrphaned && incident.dedup == *key);
            (!told).then(|| format!("{key} is orphaned without an incident"))
        }
    });
    vanished.chain(silent).next()
}

/// 7: whoever is refused, or comes back, is told exactly one thing to do; and a call whose outcome its client was told to
/// be unknown is on record.
pub(crate) fn resume_or_next_action(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| match seen {
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
        Seen::Resumed { session, action, prompt } => (action.is_empty() || prompt.is_empty())
            .then(|| format!("{session} comes back and is told nothing")),
        _ => None,
    })
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

/// 8: an operation that fails has one open incident in the commit in which it fails, and no gate opens before.
pub(crate) fn failed_drain_leaves_work(observed: &Observation<'_>) -> Found {
    let durable = observed.durable;
    let opened = observed.news.iter().find_map(|seen| {
        let Seen::GateOpened { component, drain } = seen else { return None };
        match durable.of_drain(drain) {
            None => Some(format!("the gate of {component} opens, and no operation had closed it")),
            Some(o) if !o.phase.is_end() => {
                Some(format!("the gate of {component} opens while {} is {}", o.id, o.phase))
            }
            Some(o)
                if is_failure(o.phase)
                    && !o.incident.as_ref().is_some_and(|id| durable.incidents.contains_key(id)) =>
            {
                Some(format!(
                    "the gate of {component} opens, {} is {}, and there is no incident",
                    o.id, o.phase
                ))
            }
            Some(_) => None,
        }
    });
    if opened.is_some() || !observed.changed {
        return opened;
    }
    let failed_now =
        durable.operations.values().filter(|o| is_failure(o.phase) && !observed.truth.failed.contains(&o.id));
    failed_now.into_iter().find_map(|operation| {
        let (id, phase) = (&operation.id, operation.phase);
        let Some(incident) = operation.incident.as_ref().and_then(|id| durable.incidents.get(id)) else {
            return Some(format!("{id} is {phase} without an incident"));
        };
        let same = |other: &&tidegate_incidents::Incident| {
            other.is_open() && other.kind == incident.kind && other.dedup == incident.dedup
        };
        let open = durable.incidents.values().filter(same).count();
        if open != 1 {
            return Some(format!("{id} is {phase}, and {open} incidents are open about it"));
        }
        (incident.next_prompt.is_empty() || incident.who_is_next == WhoIsNext::Nobody)
            .then(|| format!("{id} is {phase}, and its incident says nothing to do"))
    })
}

/// 9: a call to a component with which nothing is the matter is answered by its server; a new generation replaces one that
/// was restarted, or is gone.
pub(crate) fn scoped(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| match seen {
        Seen::Delivered { call, outcome: Outcome::Refused(refused), .. } => {
            let it = observed.truth.calls.get(call)?;
            let times_out = observed.truth.components.get(&it.component).is_some_and(|c| c.times_out);
            let about_tools = refused.kind == "tool_changed" && it.tool == "extra";
            (!it.disturbed && !about_tools && !times_out).then(|| {
                format!(
                    "{call} is refused ({}), and nothing was the matter with {}",
                    refused.kind, it.component
                )
            })
        }
        Seen::GateClosed { component, drain } => {
            let operation = observed.durable.of_drain(drain)?;
            (!operation.scope.contains(component)).then(|| {
                format!("{} closes the gate of {component}, which is outside its scope", operation.id)
            })
        }
        Seen::Started { component, generation, .. } => {
            let began =
                |o: &&Operation| o.generations.get(component).is_some_and(|it| it.after == Some(*generation));
            let operation = observed.durable.operations.values().find(began)?;
            (!operation.scope.contains(component))
                .then(|| format!("{} starts {component}, which is outside its scope", operation.id))
        }
        _ => None,
    })
}

/// 10: what somebody was told of an operation or a session, a fresh process finds in the store, or more.
pub(crate) fn no_chat_reconstruction(observed: &Observation<'_>) -> Found {
    let denied =
        || observed.truth.told_nothing.iter().find(|id| observed.durable.operations.contains_key(*id));
    if let Some(id) = observed.changed.then(denied).flatten() {
        return Some(format!("somebody was told that {id} was not taken, and it is there"));
    }
    let look = |seen: &Seen| matches!(seen, Seen::DaemonDied | Seen::Told { .. } | Seen::Kept { .. });
    if !observed.news.iter().any(look) {
        return None;
    }
    let behind =
        observed.truth.told.iter().find_map(|(id, told)| match observed.durable.operations.get(id) {
            None => Some(format!("somebody was told of {id}, and it is not durable")),
            Some(operation) => (rank(operation.phase) < rank(*told))
                .then(|| format!("somebody was told that {id} is {told}, and it is {}", operation.phase)),
        });
    behind.or_else(|| {
        observed.truth.kept.keys().find_map(|session| {
            let Some(checkpoint) = observed.durable.checkpoints.get(session) else {
                return Some(format!("{session} was attached, and there is no record of it"));
            };
            let resume = Resume::of(checkpoint.clone());
            (resume.next_action.prompt().is_empty()).then(|| format!("{session} can't be told what to do"))
        })
    })
}

/// Phases in the order in which they are reached. Between stopping and verifying an operation may go round.
fn rank(phase: Phase) -> u8 {
    match phase {
        Phase::Requested => 0,
        Phase::Approved => 1,
        Phase::Draining => 2,
        Phase::Checkpointing => 3,
        phase if phase.is_past_return() => 4,
        _ => 5,
    }
}

/// A call takes effect once (twice where the operator lets an idempotent one be repeated), is answered once, and an answer
/// of the server's is really the server's, to that very call; what was refused before it reached the server never does.
pub(crate) fn every_call_once(observed: &Observation<'_>) -> Found {
    let truth = observed.truth;
    observed.news.iter().find_map(|seen| match seen {
        Seen::Committed { call } => {
            let it = truth.calls.get(call)?;
            let most = if it.replay { 2 } else { 1 };
            (it.committed > most).then(|| format!("{call} takes effect {} times", it.committed))
        }
        Seen::Received { call, .. } => {
            let it = truth.calls.get(call)?;
            let refused = it.class.is_unsafe() && it.outcome.as_ref().is_some_and(never_arrived);
            refused.then(|| format!("{call} was refused before it reached the server, and reaches it"))
        }
        Seen::Delivered { call, outcome, .. } => delivered(call, truth.calls.get(call)?, outcome),
        Seen::Started { component, generation, .. } => {
            let running = &truth.components.get(component)?.running;
            (running.len() > 1)
                .then(|| format!("generation {generation} of {component} runs beside an older one"))
        }
        _ => None,
    })
}

fn delivered(call: &CallId, it: &Call, outcome: &Outcome) -> Found {
    if it.answers > 1 {
        return Some(format!("{call} is answered {} times, now: {outcome}", it.answers));
    }
    match outcome {
        Outcome::Answered(text) if !text.is_empty() => {
            if text.split(' ').next() != Some(&call.to_string()) {
                return Some(format!("{call} is answered with what belongs to another: {text}"));
            }
            let made_up = it.class != WorkClass::ReadOnly && it.committed == 0;
            made_up.then(|| format!("{call} is answered, and no server has carried it out"))
        }
        outcome if never_arrived(outcome) && it.class.is_unsafe() && it.received > 0 => {
            Some(format!("{call} is refused as if it had not reached the server, and it had: {outcome}"))
        }
        _ => None,
    }
}

/// Whether a client that reads this may take it that its call has not reached the server.
fn never_arrived(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(refused) if ["draining", "unavailable", "tool_changed"].contains(&refused.kind.as_str()))
}

#[cfg(test)]
mod tests;
