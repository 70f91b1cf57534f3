//! Asking for an operation: checked, idempotent by id, counted against a bound, and approved at once where nobody has to.

use crate::operation::{self, Intent, MAX_REASON_BYTES, MAX_SCOPE};
use crate::{
    AskDigest, Caller, CallerKind, Change, Changes, Component, Generations, GovernorError, Launches,
    Operation, Phase, Policy, Stamp, Upgrade, authority, compose, incident, lock,
};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_checkpoints::{Actions, decide_actions};
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, NextAction, Now, OperationId, SessionId};
use tidegate_store::{Decision, Scope, Txn, View};

/// The most requests that wait for approval at the same time. A person approves them one by one; more than this is a
/// runaway agent. Requests that arrive in several processes in the same moment may overshoot it by their number.
pub const MAX_REQUESTED: usize = 64;

/// The most ended operations that are kept: weeks of restarts on a busy machine, a few hundred kilobytes.
pub const MAX_ENDED: usize = 256;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The operation's id: the same id with the same content is the same operation.
    pub id: OperationId,
    /// The components.
    pub scope: Vec<ComponentName>,
    /// Why.
    pub reason: String,
    /// What is to become of the servers.
    pub intent: Intent,
    /// Whether an operator skips the approvals.
    pub break_glass: bool,
    /// Whether an operator has unsafe calls cut that outlive the drain's deadline. Only together with `break_glass`.
    pub abandon_unsafe: bool,
    /// What is to be started other than now.
    pub changes: Changes,
    /// The session that asks, where one does.
    pub session: Option<SessionId>,
}

impl Ask {
    /// A restart of these components.
    #[must_use]
    pub fn restart(id: OperationId, scope: Vec<ComponentName>, reason: impl Into<String>) -> Self {
        Self::new(id, scope, reason.into(), Intent::Restart)
    }

    /// The restart of one component as something else.
    #[must_use]
    pub fn upgrade(
        id: OperationId,
        component: ComponentName,
        change: Change,
        reason: impl Into<String>,
    ) -> Self {
        let changes = Changes::from([(component.clone(), change)]);
        Self { changes, ..Self::restart(id, vec![component], reason) }
    }

    /// The end of the daemon for another one, with the approvals that a restart of everything needs.
    #[must_use]
    pub fn takeover(id: OperationId, scope: Vec<ComponentName>, reason: impl Into<String>) -> Self {
        Self::new(id, scope, reason.into(), Intent::Takeover)
    }

    /// The end of the daemon, asked for by a signal. Refused, as any other, while an operation owns one of the
    /// components: wait until that one has ended, then ask again with the same id.
    #[must_use]
    pub fn shutdown(id: OperationId, scope: Vec<ComponentName>) -> Self {
        Self::new(id, scope, "the daemon was told to end".to_owned(), Intent::Shutdown)
    }

    fn new(id: OperationId, scope: Vec<ComponentName>, reason: String, intent: Intent) -> Self {
        Self {
            id,
            scope,
            reason,
            intent,
            break_glass: false,
            abandon_unsafe: false,
            changes: Changes::new(),
            session: None,
        }
    }
}

/// What [`decide_request`] reads.
#[must_use]
pub fn request_scope(ask: &Ask) -> Scope {
    let scope = tidegate_incidents::scope().prefix(operation::PREFIX);
    let scope = ask.scope.iter().fold(scope, |scope, name| scope.key(&Component::key(name)));
    compose::with_requester(lock::scope(scope, &ask.scope), ask.session.as_ref())
}

/// Takes a request. The reply is the operation: `Requested`, or `Approved` where no approval is needed.
///
/// `launches` is what each component would be started as now; `fresh` is the stamp of this write, from which a retry
/// after an uncertain commit knows its own.
///
/// # Errors
/// [`GovernorError`], with nothing written.
pub fn decide_request(
    view: &View,
    policy: &Policy,
    caller: &Caller,
    ask: &Ask,
    launches: &Launches,
    now: &Now,
    stamp: &Stamp,
) -> Result<Decision<Operation>, GovernorError> {
    let scope = checked_scope(caller, ask, launches)?;
    let digest = AskDigest::of(launches, &ask.reason);
    if let Some(known) = view.read::<Operation>(&Operation::key(&ask.id))? {
        return same_content(&known, caller, ask, &scope, &digest).map(|()| Decision::reply(known));
    }
    let approvals_needed = authority::approvals_needed(policy, caller, ask.break_glass)?;
    let mut generations = BTreeMap::new();
    for name in &scope {
        let before = Component::read(view, name)?.generation;
        generations.insert(name.clone(), Generations { before, after: None });
    }
    let mut operation = Operation {
        id: ask.id.clone(),
        phase: Phase::Requested,
        intent: ask.intent,
        scope,
        reason: ask.reason.clone(),
        requested_by: caller.name().clone(),
        requester: caller.kind(),
        session: ask.session.clone(),
        requested_at: now.wall,
        expires: now.deadline(policy.request_ttl),
        digest,
        launches: launches.clone(),
        approvals_needed,
        approvals: Vec::new(),
        break_glass: ask.break_glass,
        abandon_unsafe: ask.abandon_unsafe,
        abandoned: Vec::new(),
        upgrade: Upgrade { changes: ask.changes.clone(), ..Upgrade::default() },
        drain_deadline: policy.drain_deadline,
        drain: None,
        holders: Vec::new(),
        interrupted: Vec::new(),
        generations,
        sessions: BTreeSet::new(),
        pending: BTreeSet::new(),
        starts: 0,
        failing: BTreeMap::new(),
        failures: BTreeMap::new(),
        verified: BTreeMap::new(),
        incident: None,
        ended_at: None,
        reopened_at: None,
        note: String::new(),
        stamp: stamp.to_string(),
        extra: serde_json::Map::new(),
    };
    let mut txn = make_room(view)?;
    if operation.is_approved() {
        operation.phase = Phase::Approved;
        txn = txn.and(lock::claim(view, &operation)?);
    }
    if operation.phase == Phase::Requested {
        txn = txn.and(waits(view, &operation, now)?);
    }
    if operation.break_glass {
        txn = txn.and(incident::report(view, &incident::of_broken_glass(&operation), stamp, 0, now)?.0);
    }
    let txn = txn.put(view, &Operation::key(&operation.id), &operation);
    Ok(Decision::write(txn, operation))
}

/// The session that asks is to find somebody who approves: told in the same commit, so that no approval comes before it.
fn waits(view: &View, operation: &Operation, now: &Now) -> Result<Txn, GovernorError> {
    let known = |session: &&SessionId| view.record(&tidegate_checkpoints::key(session)).is_some();
    let waits = Actions::add([NextAction::RequestApproval { operation: operation.id.clone() }]);
    let told = operation.session.iter().filter(known).map(|it| (it.clone(), waits.clone())).collect();
    Ok(decide_actions(view, &told, now)?.txn)
}

fn checked_scope(
    caller: &Caller,
    ask: &Ask,
    launches: &Launches,
) -> Result<Vec<ComponentName>, GovernorError> {
    let by_signal = caller.kind() == CallerKind::Signal;
    if by_signal != (ask.intent == Intent::Shutdown) {
        return Err(GovernorError::NotASignal);
    }
    if ask.abandon_unsafe && !ask.break_glass {
        return Err(GovernorError::AbandonNeedsBreakGlass);
    }
    let scope: BTreeSet<ComponentName> = ask.scope.iter().cloned().collect();
    // A daemon may end without a component; a restart of nothing is a mistake.
    if scope.is_empty() && !ask.intent.ends_daemon() {
        return Err(GovernorError::NoComponent);
    }
    if scope.len() > MAX_SCOPE {
        return Err(GovernorError::TooManyComponents { given: scope.len(), limit: MAX_SCOPE });
    }
    let bytes = ask.reason.trim().len();
    if bytes == 0 || ask.reason.len() > MAX_REASON_BYTES {
        return Err(GovernorError::Reason { bytes: ask.reason.len(), limit: MAX_REASON_BYTES });
    }
    if let Some(component) = scope.iter().find(|name| !launches.contains_key(*name)) {
        return Err(GovernorError::UnknownComponent { component: component.clone() });
    }
    Ok(scope.into_iter().collect())
}

fn same_content(
    known: &Operation,
    caller: &Caller,
    ask: &Ask,
    scope: &[ComponentName],
    digest: &AskDigest,
) -> Result<(), GovernorError> {
    let what = if known.requested_by != *caller.name() {
        "requester"
    } else if known.scope != scope {
        "scope"
    } else if known.reason != ask.reason {
        "reason"
    } else if known.break_glass != ask.break_glass {
        "--break-glass"
    } else if known.abandon_unsafe != ask.abandon_unsafe {
        "--abandon-unsafe"
    } else if known.intent != ask.intent {
        "intent"
    } else if known.digest != *digest {
        "launch identity of its components"
    } else {
        return Ok(());
    };
    Err(GovernorError::OtherContent { operation: known.id.clone(), what })
}

/// Refuses when too many requests wait; forgets the oldest ended operations when too many are kept.
fn make_room(view: &View) -> Result<Txn, GovernorError> {
    let all: Vec<Operation> =
        view.read_under(operation::PREFIX)?.into_iter().map(|(_, operation)| operation).collect();
    if all.iter().filter(|o| o.phase == Phase::Requested).count() >= MAX_REQUESTED {
        return Err(GovernorError::TooManyRequests { limit: MAX_REQUESTED });
    }
    let mut ended: Vec<&Operation> = all.iter().filter(|o| o.phase.is_end() && !o.is_to_reopen()).collect();
    ended.sort_by(|a, b| (a.ended_at, &a.id).cmp(&(b.ended_at, &b.id)));
    let kept = if is_planted("ended-operations-are-forgotten") { 1 } else { MAX_ENDED };
    let surplus = (ended.len() + 1).saturating_sub(kept);
    Ok(ended[..surplus].iter().fold(Txn::new(), |txn, o| txn.delete(view, &Operation::key(&o.id))))
}
