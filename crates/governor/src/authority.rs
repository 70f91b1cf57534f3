//! Who may do what to an operation. Plain rules on plain data; nothing else in this crate looks at a caller's kind.

use crate::{Caller, CallerKind, GovernorError, Operation, Policy};
use tidegate_core::planted::is_planted;

/// How many approvals a request by `caller` needs.
///
/// # Errors
/// [`GovernorError::BreakGlass`] for anyone but an operator, [`GovernorError::NotEnoughApprovers`] when the policy
/// could never be satisfied.
pub fn approvals_needed(policy: &Policy, caller: &Caller, break_glass: bool) -> Result<u32, GovernorError> {
    if is_planted("glass-broken-by-anybody") && break_glass {
        return Ok(0);
    }
    if break_glass && !caller.is_operator() {
        return Err(GovernorError::BreakGlass { principal: caller.name().clone() });
    }
    let needed = match caller.kind() {
        CallerKind::Signal => 0,
        CallerKind::Operator if break_glass => 0,
        CallerKind::Operator => policy.operator_approvals,
        CallerKind::Principal | CallerKind::Local => policy.approvals.max(1),
    };
    let possible = policy.possible_approvers(caller.name()).len();
    if possible < needed as usize {
        return Err(GovernorError::NotEnoughApprovers { requester: caller.name().clone(), needed, possible });
    }
    Ok(needed)
}

/// Whether `caller` may approve `operation`.
///
/// # Errors
/// [`GovernorError::OwnRequest`], [`GovernorError::NoCredential`] or [`GovernorError::NotAnApprover`].
pub fn may_approve(policy: &Policy, caller: &Caller, operation: &Operation) -> Result<(), GovernorError> {
    let credentialed = matches!(caller.kind(), CallerKind::Operator | CallerKind::Principal);
    let own = *caller.name() == operation.requested_by && !is_planted("own-request-approved");
    if credentialed && own {
        return Err(GovernorError::OwnRequest {
            operation: operation.id.clone(),
            principal: caller.name().clone(),
        });
    }
    may_rule(policy, caller, operation, "approve")
}

/// Whether `caller` may deny `operation`: the approvers may, the requester's own no included.
///
/// # Errors
/// [`GovernorError::NoCredential`] or [`GovernorError::NotAnApprover`].
pub fn may_deny(policy: &Policy, caller: &Caller, operation: &Operation) -> Result<(), GovernorError> {
    may_rule(policy, caller, operation, "deny")
}

/// Whether `caller` may cancel `operation`: the requester and any operator may.
///
/// # Errors
/// [`GovernorError::NotYours`].
pub fn may_cancel(caller: &Caller, operation: &Operation) -> Result<(), GovernorError> {
    if caller.is_operator() || *caller.name() == operation.requested_by {
        return Ok(());
    }
    Err(GovernorError::NotYours {
        operation: operation.id.clone(),
        principal: caller.name().clone(),
        requester: operation.requested_by.clone(),
    })
}

fn may_rule(
    policy: &Policy,
    caller: &Caller,
    operation: &Operation,
    verb: &'static str,
) -> Result<(), GovernorError> {
    let operation = operation.id.clone();
    let needs_none = match caller.kind() {
        CallerKind::Local => is_planted("approved-without-a-credential"),
        CallerKind::Signal | CallerKind::Operator | CallerKind::Principal => false,
    };
    if needs_none {
        return Ok(());
    }
    if !matches!(caller.kind(), CallerKind::Operator | CallerKind::Principal) {
        return Err(GovernorError::NoCredential { operation, verb });
    }
    if policy.is_approver(caller) || is_planted("approved-by-one-who-is-not-listed") {
        return Ok(());
    }
    Err(GovernorError::NotAnApprover { operation, principal: caller.name().clone(), verb })
}
