//! Release: the holder, or an operator, gives a lease back. It never touches a successor's.

use crate::lease::load;
use crate::renew::held_under;
use crate::{Event, LeaseEffect, LeaseError, LeaseKey, LeaseState};
use tidegate_core::planted::is_planted;
use tidegate_core::{Fence, Now, PrincipalName, SessionId};
use tidegate_store::{Decision, Scope, Txn, View};

/// By whose word a lease is given back. Whether they may say so is checked by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// Its own session's.
    Holder(SessionId),
    /// An operator's.
    Operator(PrincipalName),
}

/// A request to give a lease back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// What.
    pub key: LeaseKey,
    /// By whose word.
    pub by: By,
    /// The fence it was held under; for an operator, the one that was looked at.
    pub fence: Fence,
}

/// What [`decide_release`] has to see.
#[must_use]
pub fn release_scope(release: &Release) -> Scope {
    Scope::new().key(release.key.record())
}

/// Gives the lease back. Giving back what is given back already, under the same fence, is fine.
///
/// # Errors
/// [`LeaseError::Stale`] when somebody got the lease since, [`LeaseError::NotHeld`] when it has ended otherwise,
/// [`LeaseError::NotYours`].
pub fn decide_release(
    view: &View,
    release: &Release,
    now: &Now,
) -> Result<Decision<(), LeaseEffect>, LeaseError> {
    let Release { key, by, fence } = release;
    if load(view, key)?.is_some_and(|l| l.state == LeaseState::Released && l.fence == *fence) {
        return Ok(Decision::reply(()));
    }
    let mut lease = held_under(view, key, *fence)?;
    let mut effects = Vec::new();
    let note = match by {
        By::Holder(session) if lease.owner.session != *session && !is_planted("released-by-anybody") => {
            return Err(LeaseError::NotYours { key: lease.key, by: lease.owner.session });
        }
        By::Holder(_) => String::new(),
        By::Operator(operator) => {
            effects.push(LeaseEffect::lost(&lease));
            format!("by the operator {operator}")
        }
    };
    lease.end(now, LeaseState::Released, Event::Released, &note);
    Ok(Decision { txn: Txn::new().put(view, key.record(), &lease), reply: (), effects })
}
