//! The queue of pending actions of one session, and the one action that comes first.
//!
//! What is queued is deduplicated by what it is about, bounded, and leaves in one of two ways (see [`Leaves`]).
//! Never decides whether an action is *needed*: whoever knows what happened says so.

use crate::Checkpoint;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tidegate_core::{ComponentName, IncidentId, NextAction, Now, OperationId, WallTime};

/// The most pending actions of one session. One per component, tool and lease that went wrong between two contacts;
/// a session with more has a problem that a longer list doesn't solve.
pub const MAX_PENDING: usize = 64;

/// The most tool names in one `RefreshTools`, for each of its two lists: it has to fit into a prompt.
pub const MAX_TOOL_NAMES: usize = 64;

/// An action and since when it waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingAction {
    /// Its number within the session; only grows.
    pub number: u64,
    /// When it was first queued.
    pub since: WallTime,
    /// What to do.
    pub action: NextAction,
}

/// How an action leaves the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// News: gone once the session has been told (`session_resume` answered it, [`Clear::ToldUpTo`]).
    ///
    /// The order is tell first, clear then, so a crash in between tells it twice rather than never.
    WhenTold,
    /// A condition: stays, however often it is told, until what it waits for has happened and says so.
    WhenOver,
}

impl Leaves {
    /// How `action` leaves the queue.
    #[must_use]
    pub fn of(action: &NextAction) -> Self {
        match action {
            // Without an incident there is nothing that could end it later.
            NextAction::WaitForRestart { .. }
            | NextAction::RequestApproval { .. }
            | NextAction::ContactOperator { incident: Some(_) } => Self::WhenOver,
            _ => Self::WhenTold,
        }
    }
}

/// Which pending actions to take out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clear {
    /// The one about the same thing as this: it was acted upon.
    About(NextAction),
    /// All news with a number up to this: the session has been told.
    ToldUpTo(u64),
    /// Waiting for a restart of this component: it is over.
    Restart(ComponentName),
    /// Waiting for approval of, or for, this operation: it is over.
    Operation(OperationId),
    /// Waiting for an operator because of this incident: it is resolved.
    Incident(IncidentId),
}

impl Clear {
    fn takes(&self, pending: &PendingAction) -> bool {
        match (self, &pending.action) {
            (Self::About(action), queued) => about(action) == about(queued),
            (Self::ToldUpTo(number), queued) => {
                pending.number <= *number && Leaves::of(queued) == Leaves::WhenTold
            }
            (Self::Restart(over), NextAction::WaitForRestart { component, .. }) => over == component,
            (Self::Operation(over), NextAction::WaitForRestart { operation: Some(operation), .. })
            | (Self::Operation(over), NextAction::RequestApproval { operation }) => over == operation,
            (Self::Incident(over), NextAction::ContactOperator { incident: Some(incident) }) => {
                over == incident
            }
            _ => false,
        }
    }
}

/// What an action is about: two with the same subject are one entry of the queue.
fn about(action: &NextAction) -> (&'static str, Option<&str>, Option<&str>) {
    let (first, second) = match action {
        NextAction::RetryCall { component, tool } | NextAction::VerifyThenRetry { component, tool, .. } => {
            (Some(component.as_str()), Some(tool.as_str()))
        }
        NextAction::WaitForRestart { component, .. }
        | NextAction::RefreshTools { component, .. }
        | NextAction::StateReset { component } => (Some(component.as_str()), None),
        NextAction::ReacquireLease { lease, .. } => (Some(lease.as_str()), None),
        NextAction::RequestApproval { operation } => (Some(operation.as_str()), None),
        NextAction::ContactOperator { incident } => (incident.as_ref().map(IncidentId::as_str), None),
        _ => (None, None),
    };
    (action.kind(), first, second)
}

/// The order of precedence: what comes first when several actions are pending. Lower is first.
///
/// 1. `VerifyThenRetry`: only here does doing anything else first destroy something, the evidence of what happened.
/// 2. `ContactOperator`: the session must not go on by itself.
/// 3. `WaitForRestart`: whatever else there is to do there, it would not get through now.
/// 4. `StateReset`: what the server kept has to be there before it is used.
/// 5. `RefreshTools`: the next call may not exist any more.
/// 6. `ReacquireLease`: the next call may be refused.
/// 7. `RetryCall`: everything it needs is there again.
/// 8. `RequestApproval`: waiting for somebody else, the session can go on.
/// 9. `Continue`: nothing is pending.
#[must_use]
pub fn precedence(action: &NextAction) -> u8 {
    match action {
        NextAction::VerifyThenRetry { .. } => 1,
        NextAction::ContactOperator { .. } => 2,
        NextAction::WaitForRestart { .. } => 3,
        NextAction::StateReset { .. } => 4,
        NextAction::RefreshTools { .. } => 5,
        NextAction::ReacquireLease { .. } => 6,
        NextAction::RetryCall { .. } => 7,
        NextAction::RequestApproval { .. } => 8,
        _ => 9,
    }
}

/// The one canonical next action of a session: first by [`precedence`], then by age.
#[must_use]
pub fn next_action(checkpoint: &Checkpoint) -> NextAction {
    checkpoint
        .pending
        .iter()
        .min_by_key(|p| (precedence(&p.action), p.number))
        .map_or(NextAction::Continue, |p| p.action.clone())
}

/// Takes out what any of `clear` names, then queues `add`. `Continue` is never queued: it is the empty queue.
pub(crate) fn change(checkpoint: &mut Checkpoint, clear: &[Clear], add: &[NextAction], now: &Now) {
    checkpoint.pending.retain(|p| !clear.iter().any(|c| c.takes(p)));
    for action in add.iter().filter(|a| **a != NextAction::Continue) {
        // What is to be acquired again isn't held any more.
        if let NextAction::ReacquireLease { lease, .. } = action {
            checkpoint.leases.remove(lease);
        }
        queue(checkpoint, action, now);
    }
}

/// Queues one action. What is about the same thing is one entry; when that is news, it is news again.
fn queue(checkpoint: &mut Checkpoint, action: &NextAction, now: &Now) {
    let number = checkpoint.last_action + 1;
    if let Some(same) = checkpoint.pending.iter_mut().find(|p| about(&p.action) == about(action)) {
        same.action = merge(&same.action, action);
        if Leaves::of(action) == Leaves::WhenTold {
            (same.number, checkpoint.last_action) = (number, number);
        }
        return;
    }
    checkpoint.last_action = number;
    checkpoint.pending.push(PendingAction { number, since: now.wall, action: merge(action, action) });
    if checkpoint.pending.len() > MAX_PENDING {
        let least = checkpoint
            .pending
            .iter()
            .enumerate()
            .max_by_key(|(_, p)| (precedence(&p.action), p.number))
            .map(|(index, _)| index);
        if let Some(index) = least {
            checkpoint.pending.remove(index);
            checkpoint.pending_dropped += 1;
        }
    }
}

/// Two actions about the same thing as one: the newer, with what both say of the tools.
fn merge(older: &NextAction, newer: &NextAction) -> NextAction {
    match (older, newer) {
        (
            NextAction::RefreshTools { added: a, removed: r, .. },
            NextAction::RefreshTools { component, added, removed },
        ) => NextAction::RefreshTools {
            component: component.clone(),
            added: union_without(a, added, removed),
            removed: union_without(r, removed, added),
        },
        _ => newer.clone(),
    }
}

fn union_without(older: &[String], newer: &[String], without: &[String]) -> Vec<String> {
    let all: BTreeSet<&String> = older.iter().filter(|n| !without.contains(n)).chain(newer).collect();
    all.into_iter().take(MAX_TOOL_NAMES).cloned().collect()
}
