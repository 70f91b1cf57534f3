//! What principals do to an operation: approve, deny, cancel; and what time does: expire.

use crate::{
    Approval, AskDigest, Caller, Event, GovernorError, Launches, Operation, Phase, Policy, Stamp, authority,
    compose, lock, step,
};
use tidegate_core::planted::is_planted;
use tidegate_core::{Now, OperationId};
use tidegate_leases::Facts;
use tidegate_store::{Decision, Scope, Txn, View};

/// Whether an approval was counted now or had been before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// By this call.
    Now,
    /// By an earlier one: each principal counts once.
    Before,
}

/// The answer to an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The operation. When it is [`Phase::Approved`], run it.
    pub operation: Operation,
    /// Whether this call counted.
    pub counted: Counted,
}

/// What the decisions here read.
#[must_use]
pub fn ruling_scope(operation: &Operation) -> Scope {
    compose::step_scope(operation, &Event::Changed)
}

/// The operation as `view` shows it.
///
/// # Errors
/// [`GovernorError::UnknownOperation`].
pub fn find(view: &View, id: &OperationId) -> Result<Operation, GovernorError> {
    view.read(&Operation::key(id))?.ok_or_else(|| GovernorError::UnknownOperation { operation: id.clone() })
}

/// Counts one approval; the last one makes the operation `Approved` and the owner of its components.
///
/// `current` is what its components would be started as now: an approval is for exactly what was asked.
///
/// # Errors
/// [`GovernorError`], with nothing written.
pub fn decide_approve(
    view: &View,
    policy: &Policy,
    caller: &Caller,
    id: &OperationId,
    current: &Launches,
    now: &Now,
    stamp: &Stamp,
) -> Result<Decision<Approved>, GovernorError> {
    let mut operation = find(view, id)?;
    if operation.stamp == *stamp {
        return Ok(Decision::reply(Approved { operation, counted: Counted::Now }));
    }
    authority::may_approve(policy, caller, &operation)?;
    if operation.has_approved(caller.name()) && !is_planted("one-approver-counts-twice") {
        return Ok(Decision::reply(Approved { operation, counted: Counted::Before }));
    }
    waiting(&operation, now, "approve")?;
    unchanged(&operation, current)?;
    operation.approvals.push(Approval { principal: caller.name().clone(), at: now.wall });
    operation.stamp = stamp.to_string();
    let mut txn = Txn::new();
    if operation.is_approved() {
        operation.phase = Phase::Approved;
        txn = lock::claim(view, &operation)?.and(compose::answered(view, &operation, now)?);
    }
    let txn = txn.put(view, &Operation::key(id), &operation);
    Ok(Decision::write(txn, Approved { operation, counted: Counted::Now }))
}

/// Ends a waiting operation by an approver's no.
///
/// # Errors
/// [`GovernorError`], with nothing written.
pub fn decide_deny(
    view: &View,
    policy: &Policy,
    caller: &Caller,
    id: &OperationId,
    now: &Now,
    stamp: &Stamp,
) -> Result<Decision<Operation>, GovernorError> {
    let mut operation = find(view, id)?;
    if operation.stamp == *stamp {
        return Ok(Decision::reply(operation));
    }
    authority::may_deny(policy, caller, &operation)?;
    waiting(&operation, now, "deny")?;
    operation.stamp = stamp.to_string();
    operation.end(Phase::Denied, format!("denied by {}", caller.name()), now);
    let txn = compose::answered(view, &operation, now)?.put(view, &Operation::key(id), &operation);
    Ok(Decision::write(txn, operation))
}

/// Ends an operation whose servers have not been touched yet. Whoever drives it then reopens its gates.
///
/// # Errors
/// [`GovernorError`], with nothing written.
pub fn decide_cancel(
    view: &View,
    caller: &Caller,
    id: &OperationId,
    now: &Now,
    stamp: &Stamp,
) -> Result<Decision<Operation>, GovernorError> {
    let operation = find(view, id)?;
    if operation.stamp == *stamp {
        return Ok(Decision::reply(operation));
    }
    authority::may_cancel(caller, &operation)?;
    if operation.phase.is_end() {
        let phase = operation.phase;
        return Err(GovernorError::NotWaiting { operation: id.clone(), phase, verb: "cancel" });
    }
    if operation.phase.is_past_return() {
        return Err(GovernorError::TooLate { operation: id.clone(), phase: operation.phase });
    }
    let step = step::cancel(&operation, caller, now, stamp);
    let (txn, operation) = compose::compose(view, step, &Facts::none(), now, stamp)?;
    Ok(Decision::write(txn, operation))
}

/// Ends an operation that has waited for too long; leaves any other as it is.
///
/// # Errors
/// [`GovernorError`], with nothing written.
pub fn decide_expire(
    view: &View,
    id: &OperationId,
    now: &Now,
    stamp: &Stamp,
) -> Result<Decision<Operation>, GovernorError> {
    let mut operation = find(view, id)?;
    if operation.phase != Phase::Requested || !operation.expires.passed(now) {
        return Ok(Decision::reply(operation));
    }
    operation.stamp = stamp.to_string();
    operation.end(Phase::Expired, "nobody approved it in time".to_owned(), now);
    let txn = compose::answered(view, &operation, now)?.put(view, &Operation::key(id), &operation);
    Ok(Decision::write(txn, operation))
}

/// Whether what would be started now is what was asked for.
pub(crate) fn unchanged(operation: &Operation, current: &Launches) -> Result<(), GovernorError> {
    if AskDigest::of(current, &operation.reason) == operation.digest {
        return Ok(());
    }
    let changed: Vec<String> = operation
        .launches
        .iter()
        .filter(|(name, launch)| current.get(*name) != Some(*launch))
        .map(|(name, _)| format!("how {name} is started"))
        .collect();
    Err(GovernorError::Changed { operation: operation.id.clone(), what: changed.join(", ") })
}

fn waiting(operation: &Operation, now: &Now, verb: &'static str) -> Result<(), GovernorError> {
    let id = || operation.id.clone();
    match operation.phase {
        Phase::Requested if operation.expires.passed(now) => Err(GovernorError::Expired { operation: id() }),
        Phase::Requested => Ok(()),
        Phase::Expired => Err(GovernorError::Expired { operation: id() }),
        phase => Err(GovernorError::NotWaiting { operation: id(), phase, verb }),
    }
}
