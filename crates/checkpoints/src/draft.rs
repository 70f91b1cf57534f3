//! What a drain found out about the sessions in its scope, and what they are to do about it: many records, one commit.

use crate::bounds::cut;
use crate::change::{change, load};
use crate::pending;
use crate::{CallFact, CallState, Checkpoint, CheckpointError, Clear};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, Generation, NextAction, Now, SessionId};
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

/// Writes the checkpoints of all these sessions in one commit. A call that turned `Unknown` queues its
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
    let is_unknown = |call: &CallFact| call.state == CallState::Unknown;
    let news = |call: &&CallFact| !c.calls.iter().any(|old| is_unknown(old) && same_call(old, call));
    let lost = draft.calls.iter().filter(|call| is_unknown(call)).filter(news);
    let mut add: Vec<NextAction> = lost
        .map(|call| NextAction::VerifyThenRetry {
            component: call.component.clone(),
            tool: cut(&call.tool, MAX_TOOL_BYTES),
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

fn same_call(a: &CallFact, b: &CallFact) -> bool {
    a.component == b.component && cut(&a.id, MAX_TOOL_BYTES) == cut(&b.id, MAX_TOOL_BYTES)
}
