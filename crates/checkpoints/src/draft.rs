//! What a drain found out about the sessions in its scope, and what they are to do about it: many records, one commit.

use crate::bounds::cut;
use crate::change::{change, load};
use crate::pending;
use crate::{CallFact, CallState, Checkpoint, CheckpointError, Clear};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, Generation, LateAnswer, NextAction, Now, SessionId};
use tidegate_store::{Decision, Txn, View};

/// The most unsettled calls kept of one session. An agent with more in flight than this has lost count itself.
pub const MAX_CALLS: usize = 256;

/// The longest tool name or call id that is kept, in bytes.
pub const MAX_TOOL_BYTES: usize = 256;

/// Changes of a session's pending actions: first `clear`, then `add`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    /// What to take out.
    pub clear: Vec<Clear>,
    /// What to queue.
    pub add: Vec<NextAction>,
}

impl Actions {
    /// Queues these.
    #[must_use]
    pub fn add(actions: impl IntoIterator<Item = NextAction>) -> Self {
        Self { clear: Vec::new(), add: actions.into_iter().collect() }
    }

    /// Takes these out.
    #[must_use]
    pub fn clear(clear: impl IntoIterator<Item = Clear>) -> Self {
        Self { clear: clear.into_iter().collect(), add: Vec::new() }
    }
}

/// The facts of one session as a drain of the components in `covers` found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Whose.
    pub session: SessionId,
    /// The components it speaks for: what the record says of their calls is replaced.
    pub covers: BTreeSet<ComponentName>,
    /// The calls to these components that aren't settled.
    pub calls: Vec<CallFact>,
    /// The generations that the session now knows.
    pub generations: BTreeMap<ComponentName, Generation>,
    /// The leases it holds; `None` leaves what is recorded.
    pub leases: Option<BTreeSet<String>>,
    /// What it is to do.
    pub actions: Actions,
}

impl Draft {
    /// A draft that says nothing yet.
    #[must_use]
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            covers: BTreeSet::new(),
            calls: Vec::new(),
            generations: BTreeMap::new(),
            leases: None,
            actions: Actions::default(),
        }
    }
}

/// Writes the checkpoints of all these sessions in one commit. A call that turned `Detached` or `Unknown` queues its
/// `VerifyThenRetry` by itself. Replies with the next action of each.
///
/// A session without a record gets one: what happened to it must not be lost.
///
/// # Errors
/// When a record can't be read, or a session holds more leases than [`MAX_LEASES`](crate::MAX_LEASES).
pub fn decide_checkpoint(
    view: &View,
    drafts: &[Draft],
    now: &Now,
) -> Result<Decision<BTreeMap<SessionId, NextAction>>, CheckpointError> {
    let mut decision = Decision::reply(BTreeMap::new());
    for draft in drafts {
        let txn = write(view, &draft.session, now, &mut decision.reply, |c| apply(c, draft, now))?;
        decision.txn = decision.txn.and(txn);
    }
    Ok(decision)
}

/// Changes the pending actions of many sessions in one commit. Replies with the next action of each.
///
/// # Errors
/// When a record can't be read.
pub fn decide_actions(
    view: &View,
    changes: &BTreeMap<SessionId, Actions>,
    now: &Now,
) -> Result<Decision<BTreeMap<SessionId, NextAction>>, CheckpointError> {
    let mut decision = Decision::reply(BTreeMap::new());
    for (session, actions) in changes {
        let txn = write(view, session, now, &mut decision.reply, |c| {
            pending::change(c, &actions.clear, &actions.add, now);
            Ok(())
        })?;
        decision.txn = decision.txn.and(txn);
    }
    Ok(decision)
}

fn write(
    view: &View,
    session: &SessionId,
    now: &Now,
    next: &mut BTreeMap<SessionId, NextAction>,
    apply: impl FnOnce(&mut Checkpoint) -> Result<(), CheckpointError>,
) -> Result<Txn, CheckpointError> {
    let before = load(view, session)?.unwrap_or_else(|| Checkpoint::new(session.clone(), now));
    change(view, before, now, |c| {
        apply(c)?;
        next.insert(session.clone(), pending::next_action(c));
        Ok(())
    })
}

fn apply(c: &mut Checkpoint, draft: &Draft, now: &Now) -> Result<(), CheckpointError> {
    let news = |call: &&CallFact| !c.calls.iter().any(|old| old.state == call.state && same_call(old, call));
    let untold =
        |call: &&CallFact| call.state == CallState::Detached && is_planted("what-goes-on-is-not-told");
    let lost = draft.calls.iter().filter(|call| call.is_unanswered() && !untold(call)).filter(news);
    let mut add: Vec<NextAction> = lost
        .map(|call| NextAction::VerifyThenRetry {
            component: call.component.clone(),
            tool: cut(&call.tool, MAX_TOOL_BYTES),
            answer: None,
        })
        .collect();
    add.extend(draft.actions.add.iter().cloned());

    let replaced = |call: &CallFact| {
        draft.covers.contains(&call.component) || draft.calls.iter().any(|new| same_call(new, call))
    };
    c.calls.retain(|call| !replaced(call));
    c.calls.extend(draft.calls.iter().map(|call| CallFact {
        id: cut(&call.id, MAX_TOOL_BYTES),
        tool: cut(&call.tool, MAX_TOOL_BYTES),
        ..call.clone()
    }));
    // The most dangerous first, so that what doesn't fit is what matters least.
    c.calls.sort_by_key(|call| Reverse((call.state, call.class)));
    c.calls_dropped += c.calls.len().saturating_sub(MAX_CALLS) as u64;
    c.calls.truncate(MAX_CALLS);
    c.generations.extend(draft.generations.iter().map(|(name, generation)| (name.clone(), *generation)));
    if is_planted("a-checkpoint-forgets-notes") {
        c.notes.clear();
    }
    if let Some(leases) = &draft.leases {
        c.leases = leases.clone();
        crate::fact::room(c)?;
    }
    pending::change(c, &draft.actions.clear, &add, now);
    Ok(())
}

/// Records that a call was answered of which the record says that its caller is gone. The session is told how, once;
/// while there are other calls of that tool whose outcome nobody knows, it is told what is to be done about those.
/// Replies whether there was such a call.
///
/// # Errors
/// When the record can't be read.
pub fn decide_answered_late(
    view: &View,
    session: &SessionId,
    answered: &CallFact,
    answer: LateAnswer,
    now: &Now,
) -> Result<Decision<bool>, CheckpointError> {
    let Some(before) = load(view, session)? else { return Ok(Decision::reply(false)) };
    let known = before.calls.iter().any(|call| call.is_unanswered() && same_call(call, answered));
    let txn = change(view, before, now, |c| {
        c.calls.retain(|call| !same_call(call, answered));
        let is_like = |call: &CallFact| {
            call.is_unanswered() && call.component == answered.component && call.tool == answered.tool
        };
        if known && !c.calls.iter().any(is_like) {
            let (component, tool) = (answered.component.clone(), cut(&answered.tool, MAX_TOOL_BYTES));
            let told = NextAction::VerifyThenRetry { component, tool, answer: Some(answer) };
            pending::change(c, &[], &[told], now);
        }
        Ok(())
    })?;
    Ok(Decision::write(txn, known))
}

fn same_call(a: &CallFact, b: &CallFact) -> bool {
    a.component == b.component && cut(&a.id, MAX_TOOL_BYTES) == cut(&b.id, MAX_TOOL_BYTES)
}
