//! The bullets about calls: what reaches a server, what is stopped under it, what comes back. 2, 3, 4, 9, and every call
//! once.

use super::Found;
use crate::observe::{Call, CallId, Observation, Outcome, Seen};
use crate::world::UP_MS;
use tidegate_core::WorkClass;
use tidegate_governor::{CallerKind, Operation};

/// 2: what a server reads while its gate is closed was admitted before the gate was closed; and it is closed when the
/// server is stopped.
pub(super) fn new_work_stops_during_drain(observed: &Observation<'_>) -> Found {
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
/// server has answered, to its daemon or while that is dead to its keeper, reaches its client, and nothing else does. A
/// connection is closed only once it is no longer its session's: what is read for it after that is late.
pub(super) fn active_safe_work_finishes(observed: &Observation<'_>) -> Found {
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
        Seen::Cut { id, session, component } => {
            let checkpoint = observed.durable.checkpoints.get(session)?;
            checkpoint.has_stream(id).then(|| {
                format!("a connection of {session} to {component} is closed, and it is still that session's")
            })
        }
        Seen::LateAnswerLost { call } => {
            Some(format!("the server has answered {call} to its keeper, and that answer is not kept"))
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
pub(super) fn unsafe_mutation_blocks_restart(observed: &Observation<'_>) -> Found {
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

/// 9: a call to a component with which nothing is the matter is answered by its server; a new generation replaces one that
/// was restarted, or is gone.
pub(super) fn scoped(observed: &Observation<'_>) -> Found {
    observed.news.iter().find_map(|seen| match seen {
        Seen::Delivered { call, outcome: Outcome::Refused(refused), .. } => {
            let it = observed.truth.calls.get(call)?;
            let times_out = observed.truth.components.get(&it.component).is_some_and(|c| c.times_out);
            // Whether a refusal for want of a tool or of a lease is right is for others to say.
            let about_tools = refused.kind == "tool_changed" && it.tool == "extra";
            let about_leases = refused.kind == "lease_required" && it.lease.is_some();
            (!it.disturbed && !about_tools && !about_leases && !times_out).then(|| {
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

/// A call takes effect once (twice where the operator lets an idempotent one be repeated), is answered once, and an answer
/// of the server's is really the server's, to that very call; what was refused before it reached the server never does.
pub(super) fn every_call_once(observed: &Observation<'_>) -> Found {
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
    matches!(outcome, Outcome::Refused(refused) if ["draining", "unavailable", "tool_changed", "lease_required"].contains(&refused.kind.as_str()))
}
