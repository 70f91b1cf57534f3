//! Renew: whoever holds a lease goes on holding it, by asking or by being active.

use crate::key::PREFIX;
use crate::lease::{Brief, load};
use crate::standing::{Standing, standing};
use crate::{Facts, Lease, LeaseError, LeaseKey, LeaseState, Owner};
use tidegate_core::planted::is_planted;
use tidegate_core::{Deadline, Fence, Now, SessionId};
use tidegate_store::{Decision, ReadError, Scope, Txn, View};

/// A holder's request to go on holding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// What.
    pub key: LeaseKey,
    /// Who holds it: the session, and the process the renewal stands and falls with.
    pub owner: Owner,
    /// The fence it holds it under.
    pub fence: Fence,
}

/// What [`decide_renew`] has to see.
#[must_use]
pub fn renew_scope(renew: &Renew) -> Scope {
    Scope::new().key(renew.key.record())
}

/// Renews for a whole ttl and answers when that ends. A late renewal is fine as long as nobody got the lease since.
///
/// # Errors
/// [`LeaseError`] saying why the lease isn't the caller's any more; a successor's lease is never touched.
pub fn decide_renew(
    view: &View,
    renew: &Renew,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Deadline>, LeaseError> {
    let mut lease = held_under(view, &renew.key, renew.fence)?;
    if lease.owner != renew.owner {
        return Err(LeaseError::NotYours { key: lease.key, by: lease.owner.session });
    }
    if facts.proved_dead(&renew.owner) {
        return Err(LeaseError::OwnerGone { key: lease.key });
    }
    let outlived = |lease: &Lease| lease.max_deadline_on(now).is_some_and(|max| max.passed(now));
    if lease.state == LeaseState::Orphaned || outlived(&lease) {
        return Err(LeaseError::Outlived { key: lease.key });
    }
    lease.extend(now);
    let txn = Txn::new().put(view, lease.key.record(), &lease);
    Ok(Decision::write(txn, lease.deadline))
}

/// The live lease of `key`, provided it is under `fence`.
pub(crate) fn held_under(view: &View, key: &LeaseKey, fence: Fence) -> Result<Lease, LeaseError> {
    let lease = load(view, key)?.ok_or_else(|| LeaseError::NotHeld { key: key.clone(), state: None })?;
    if lease.fence != fence && !is_planted("released-without-its-fence") {
        return Err(LeaseError::Stale { key: lease.key, fence, current: lease.fence });
    }
    if !lease.is_live() {
        return Err(LeaseError::NotHeld { key: lease.key, state: Some(lease.state) });
    }
    Ok(lease)
}

/// What [`decide_touch`] has to see.
#[must_use]
pub fn touch_scope() -> Scope {
    Scope::new().prefix(PREFIX)
}

/// The leases of a session that its activity is to renew: those with less than half a ttl left.
pub(crate) fn due(view: &View, session: &SessionId, now: &Now) -> Result<Vec<Brief>, ReadError> {
    let mut leases: Vec<Brief> = view.read_under(PREFIX)?.into_iter().map(|(_, lease)| lease).collect();
    leases.retain(|lease| {
        let own = lease.owner.session == *session && lease.state == LeaseState::Held;
        own && lease.deadline_on(now).remaining(now) < lease.ttl / 2
    });
    Ok(leases)
}

/// Activity on a session renews its leases. Writes only where less than half a ttl is left, so that a busy session
/// doesn't cost a commit a call; answers which leases were renewed.
///
/// # Errors
/// [`ReadError::Malformed`] when a record isn't a lease.
pub fn decide_touch(
    view: &View,
    session: &SessionId,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Vec<LeaseKey>>, ReadError> {
    let mut decision = Decision::reply(Vec::new());
    for due in due(view, session, now)? {
        let Some(mut lease) = load(view, &due.key)? else { continue };
        if matches!(standing(&lease, facts, now), Standing::Kept(_) | Standing::RunOut) {
            lease.extend(now);
            decision.txn = decision.txn.put(view, lease.key.record(), &lease);
            decision.reply.push(lease.key);
        }
    }
    Ok(decision)
}
