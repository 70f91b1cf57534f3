//! Adopt: a lease goes to another holder under a new fence, with a record of by whose word.

use crate::acquire::check_ttl;
use crate::key::PREFIX;
use crate::lease::{load, load_all};
use crate::renew::held_under;
use crate::{Facts, LeaseEffect, LeaseError, LeaseKey, MAX_TTL, Owner};
use std::time::Duration;
use tidegate_core::{Deadline, Fence, Now, PrincipalName, WorkClass};
use tidegate_store::{Decision, ReadError, Scope, Txn, View};

/// An operator's order. Whether they are one is checked by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopt {
    /// What.
    pub key: LeaseKey,
    /// The fence that the operator looked at: what came after it isn't adopted by mistake.
    pub fence: Fence,
    /// Who orders it.
    pub by: PrincipalName,
    /// Why.
    pub why: String,
    /// Who gets it.
    pub to: Owner,
    /// How long it may last at most; where left out, as long as before.
    pub max_ttl: Option<Duration>,
    /// A random number of this order. The same again is the same order.
    pub nonce: String,
}

/// The answer to an adoption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Its fence, where this very order was carried out before; else it is that of the commit.
    pub already: Option<Fence>,
    /// When it runs out unless renewed.
    pub expires: Deadline,
}

/// What [`decide_adopt`] has to see.
#[must_use]
pub fn adopt_scope(adopt: &Adopt) -> Scope {
    Scope::new().key(adopt.key.record())
}

/// Hands a lease over by an operator's word, whatever is known of its holder: the new fence is what keeps the former
/// one out. What was known is part of the record.
///
/// # Errors
/// [`LeaseError::Stale`] when it isn't what the operator looked at, [`LeaseError::NotHeld`] when anybody may acquire it.
pub fn decide_adopt(
    view: &View,
    adopt: &Adopt,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Adopted, LeaseEffect>, LeaseError> {
    if let Some(lease) = load(view, &adopt.key)?
        && lease.is_live()
        && lease.nonce == adopt.nonce
        && lease.owner == adopt.to
    {
        let expires = lease.deadline_on(now);
        return Ok(Decision::reply(Adopted { already: Some(lease.fence), expires }));
    }
    let mut lease = held_under(view, &adopt.key, adopt.fence)?;
    lease.max_ttl = adopt.max_ttl.or(lease.max_ttl);
    check_ttl(&lease.key, &adopt.to, lease.class, lease.ttl, lease.max_ttl)?;
    let (from, lost) = (&lease.owner, LeaseEffect::lost(&lease));
    let known = match (facts.proved_dead(from), facts.session(&from.session).unsettled_calls) {
        (_, true) => "has calls whose outcome is not known",
        (true, false) => "is proved dead",
        (false, false) => "is not proved dead",
    };
    let note = format!("by the operator {}, from {}, which {known}: {}", adopt.by, from.session, adopt.why);
    lease.hand_to(&adopt.to, &adopt.nonce, now, &note);
    let reply = Adopted { already: None, expires: lease.deadline };
    Ok(Decision { txn: Txn::new().put(view, lease.key.record(), &lease), reply, effects: vec![lost] })
}

/// What [`decide_reattach`] has to see.
#[must_use]
pub fn reattach_scope() -> Scope {
    Scope::new().prefix(PREFIX)
}

/// A session's new client takes over the leases of its former one: each gets a new fence. Answers which leases the
/// session has.
///
/// Those that are this process's already stay as they are, so doing it twice is doing it once.
///
/// # Errors
/// [`ReadError::Malformed`] when a record isn't a lease.
pub fn decide_reattach(view: &View, owner: &Owner, now: &Now) -> Result<Decision<Vec<LeaseKey>>, ReadError> {
    let mut decision = Decision::reply(Vec::new());
    for mut lease in load_all(view)? {
        if !lease.is_live() || lease.owner.session != owner.session {
            continue;
        }
        if lease.owner.process != owner.process {
            reattach(&mut lease, owner, now);
            decision.txn = decision.txn.put(view, lease.key.record(), &lease);
        }
        decision.reply.push(lease.key);
    }
    Ok(decision)
}

/// The same session, another client: a new fence.
pub(crate) fn reattach(lease: &mut crate::Lease, owner: &Owner, now: &Now) {
    if lease.class == WorkClass::Mutating && owner.process.is_none() {
        lease.max_ttl.get_or_insert(MAX_TTL);
    }
    let nonce = lease.nonce.clone();
    lease.hand_to(owner, &nonce, now, "the session came back with another client");
}
