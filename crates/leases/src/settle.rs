//! Settle: after a restart each lease of the sessions in scope is exactly one of five things. None is forgotten.

use crate::adopt::reattach;
use crate::key::PREFIX;
use crate::lease::{Settled, load_all};
use crate::standing::{Standing, after, standing};
use crate::{Event, Facts, Kept, Lease, LeaseEffect, LeaseKey, LeaseState, Owner};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::planted::is_planted;
use tidegate_core::{Fence, Now, SessionId, WorkClass};
use tidegate_store::{Decision, ReadError, Scope, Txn, View};

/// A restart, as far as leases are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// Its id: settling the same restart again changes nothing.
    pub restart: String,
    /// The sessions in its scope.
    pub sessions: BTreeSet<SessionId>,
    /// How long they were held up. It doesn't count towards expiry.
    pub held: Duration,
}

/// What became of a lease in a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The session still has it, with the time it was held up added.
    CarriedOver,
    /// It had been given back.
    Released,
    /// The session has lost it, and there is a record of why.
    Expired,
    /// The session's new client has it, under a new fence.
    Adopted,
    /// Its holder can't be asked: there has to be an incident.
    Orphaned,
}

/// What became of one lease in a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOutcome {
    /// The resource.
    pub key: LeaseKey,
    /// Whose it is, or was.
    pub session: SessionId,
    /// What became of it.
    pub outcome: Outcome,
    /// Its fence; `None` when it is that of the commit being decided.
    pub fence: Option<Fence>,
}

/// What [`decide_settle`] has to see.
#[must_use]
pub fn settle_scope() -> Scope {
    Scope::new().prefix(PREFIX)
}

/// Settles every lease of the sessions in scope, ended ones of which there still is a record included.
///
/// # Errors
/// [`ReadError::Malformed`] when a record isn't a lease.
pub fn decide_settle(
    view: &View,
    settle: &Settle,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Vec<LeaseOutcome>, LeaseEffect>, ReadError> {
    let mut decision = Decision { txn: Txn::new(), reply: Vec::new(), effects: Vec::new() };
    for mut lease in load_all(view)?.into_iter().filter(|l| settle.sessions.contains(&l.owner.session)) {
        let before = lease.clone();
        let earlier = lease.settled.as_ref().filter(|s| s.by == settle.restart).map(|s| s.outcome);
        let outcome = earlier.unwrap_or_else(|| settle_one(&mut lease, settle.held, facts, now));
        match outcome {
            Outcome::Orphaned => decision.effects.push(LeaseEffect::orphaned(&before, ORPHANED)),
            Outcome::Expired if before.is_live() || earlier.is_some() => {
                decision.effects.push(LeaseEffect::lost(&before));
            }
            _ => {}
        }
        if lease != before {
            lease.settled = Some(Settled { by: settle.restart.clone(), outcome });
            decision.txn = decision.txn.put(view, lease.key.record(), &lease);
        }
        decision.reply.push(LeaseOutcome {
            fence: (lease.fence != Fence::default()).then_some(lease.fence),
            session: lease.owner.session,
            key: lease.key,
            outcome,
        });
    }
    Ok(decision)
}

/// The note of a lease that a restart orphans, and the evidence of its incident.
const ORPHANED: &str = "its holder can't be asked, and what it did last is not known";

fn settle_one(lease: &mut Lease, held: Duration, facts: &Facts, now: &Now) -> Outcome {
    if !lease.is_live() {
        return if lease.state == LeaseState::Released { Outcome::Released } else { Outcome::Expired };
    }
    let session = facts.session(&lease.owner.session);
    if session.attached && session.process.is_some() && session.process != lease.owner.process {
        reattach(lease, &Owner { process: session.process, ..lease.owner.clone() }, now);
        return Outcome::Adopted;
    }
    lease.deadline = after(lease.deadline_on(now), held);
    lease.max_deadline = lease.max_deadline_on(now).map(|max| after(max, held));
    let unasked = facts.proved_dead(&lease.owner) && lease.class == WorkClass::Mutating;
    match standing(lease, facts, now) {
        Standing::HolderDead => lease.expire("its holder is proved dead", now),
        Standing::RunOut => lease.expire("its time ran out", now),
        Standing::Kept(Kept::Orphaned) => Outcome::Orphaned,
        Standing::Outlived => lease.orphan(ORPHANED, now),
        Standing::Kept(_) if unasked => lease.orphan(ORPHANED, now),
        Standing::Kept(_) | Standing::Ended => {
            if is_planted("a-restart-releases-leases") {
                lease.end(now, LeaseState::Released, Event::Released, "");
                return Outcome::Released;
            }
            lease.log(now, Event::CarriedOver, "");
            Outcome::CarriedOver
        }
    }
}
