//! The bullets about operations: who lets them happen, what a failure leaves, what a fresh process knows. 1, 8 and 10.

use super::Found;
use crate::observe::truth::is_failure;
use crate::observe::{Observation, Seen};
use std::collections::BTreeSet;
use tidegate_checkpoints::Resume;
use tidegate_governor::{CallerKind, ComponentState, Operation, Phase};
use tidegate_incidents::WhoIsNext;

/// 1: a server is stopped for an operation only, and for one that was asked for by an operator or a signal, or approved by
/// others who have a credential; and what is started is what was approved.
pub(super) fn no_unilateral_restart(observed: &Observation<'_>) -> Found {
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

/// 8: an operation that fails has one open incident in the commit in which it fails, and no gate opens before.
pub(super) fn failed_drain_leaves_work(observed: &Observation<'_>) -> Found {
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

/// 10: what somebody was told of an operation or a session, a fresh process finds in the store, or more; and that a component
/// isn't started beside its old server.
pub(super) fn no_chat_reconstruction(observed: &Observation<'_>) -> Found {
    let denied =
        || observed.truth.told_nothing.iter().find(|id| observed.durable.operations.contains_key(*id));
    if let Some(id) = observed.changed.then(denied).flatten() {
        return Some(format!("somebody was told that {id} was not taken, and it is there"));
    }
    if let Some(what) = observed.news.iter().find_map(|seen| not_on_record(observed, seen)) {
        return Some(what);
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

/// A component that isn't started, because something of its old server is there, and whose record doesn't say that. What an
/// operation has taken since is recorded by the operation.
fn not_on_record(observed: &Observation<'_>, seen: &Seen) -> Found {
    let Seen::Survived { component } = seen else { return None };
    let owns = |it: &Operation| it.scope.contains(component) && (it.phase.is_running() || it.is_to_reopen());
    if observed.truth.components.get(component)?.state_unrecorded
        || observed.durable.operations.values().any(owns)
    {
        return None;
    }
    let record = observed.durable.components.get(component)?;
    if record.state != ComponentState::Unavailable {
        let state = record.state;
        return Some(format!("{component} is not started beside its old server, and on record as {state:?}"));
    }
    let told = record.incident.as_ref().is_none_or(|id| observed.durable.incidents.contains_key(id));
    (!told).then(|| format!("{component} is unavailable for an incident that is not durable"))
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
