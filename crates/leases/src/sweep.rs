//! Sweep: what has run out is written down as such, what has ended long ago is forgotten.
//!
//! A dead holder's lease is left to its ttl: its session may come back, and whoever wants it can have it at once.

use crate::key::PREFIX;
use crate::lease::{Settled, load_all};
use crate::standing::{GRACE, Standing, after, expiry, standing};
use crate::{Facts, Lease, LeaseEffect, Outcome};
use tidegate_core::Now;
use tidegate_store::{Decision, ReadError, Scope, View};

/// How many records one sweep changes: a commit that others don't have to wait for.
pub const SWEEP_BATCH: usize = 64;

/// The note of a lease that ran into its `max_ttl`, and the evidence of its incident.
const OUTLIVED: &str = "its max_ttl ran out and its holder can't be asked";

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Leases that had run out.
    pub expired: usize,
    /// Leases that nobody but an operator can give to anybody.
    pub orphaned: usize,
    /// Records of ended leases that were dropped.
    pub forgotten: usize,
}

impl Swept {
    /// How many records were changed.
    #[must_use]
    pub fn total(&self) -> usize {
        self.expired + self.orphaned + self.forgotten
    }
}

/// What [`decide_sweep`] has to see.
#[must_use]
pub fn sweep_scope() -> Scope {
    Scope::new().prefix(PREFIX)
}

/// Writes down what has run out, at most [`SWEEP_BATCH`] at a time.
///
/// `sweep` is a random number of this sweep: made again after an uncertain commit, it says again what it did. Whoever
/// reports an orphan joins the incident to this transaction, so that a crash leaves both or neither.
///
/// # Errors
/// [`ReadError::Malformed`] when a record isn't a lease.
pub fn decide_sweep(
    view: &View,
    sweep: &str,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Swept, LeaseEffect>, ReadError> {
    let mut decision = Decision::reply(Swept::default());
    for mut lease in load_all(view)? {
        if decision.reply.total() == SWEEP_BATCH {
            break;
        }
        let done_before = lease.settled.as_ref().filter(|s| s.by == sweep).map(|s| s.outcome);
        let Some(outcome) = done_before.or_else(|| sweep_one(&mut lease, facts, now)) else {
            if !lease.is_live() && lease.forget.is_none_or(|at| at.passed(now)) {
                decision.txn = decision.txn.delete(view, lease.key.record());
                decision.reply.forgotten += 1;
            }
            continue;
        };
        if outcome == Outcome::Orphaned {
            decision.effects.push(LeaseEffect::orphaned(&lease, OUTLIVED));
            decision.reply.orphaned += 1;
        } else {
            decision.effects.push(LeaseEffect::lost(&lease));
            decision.reply.expired += 1;
        }
        if done_before.is_none() {
            lease.settled = Some(Settled { by: sweep.to_owned(), outcome });
            decision.txn = decision.txn.put(view, lease.key.record(), &lease);
        }
    }
    Ok(decision)
}

fn sweep_one(lease: &mut Lease, facts: &Facts, now: &Now) -> Option<Outcome> {
    let over = after(expiry(lease, facts, now), GRACE).passed(now);
    match standing(lease, facts, now) {
        Standing::RunOut => Some(lease.expire("its time ran out", now)),
        Standing::HolderDead if over => Some(lease.expire("its holder is proved dead", now)),
        Standing::Outlived => Some(lease.orphan(OUTLIVED, now)),
        Standing::HolderDead | Standing::Ended | Standing::Kept(_) => None,
    }
}
