//! Sweep: what has run out is written down as such, what has ended long ago is forgotten.
//!
//! A dead holder's lease is left to its ttl: its session may come back, and whoever wants it can have it at once.

use crate::key::PREFIX;
use crate::lease::load_all;
use crate::standing::{GRACE, Standing, after, expiry, standing};
use crate::{Event, Facts, LeaseEffect, LeaseState};
use tidegate_core::Now;
use tidegate_store::{Decision, ReadError, Scope, Txn, View};

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
/// # Errors
/// [`ReadError::Malformed`] when a record isn't a lease.
pub fn decide_sweep(
    view: &View,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Swept, LeaseEffect>, ReadError> {
    let (mut txn, mut swept, mut effects) = (Txn::new(), Swept::default(), Vec::new());
    for mut lease in load_all(view)? {
        if swept.total() == SWEEP_BATCH {
            break;
        }
        let key = lease.key.record().clone();
        let over = || after(expiry(&lease, facts, now), GRACE).passed(now);
        let dead = "its holder is proved dead";
        let note = match standing(&lease, facts, now) {
            Standing::Ended if lease.forget.is_none_or(|at| at.passed(now)) => {
                txn = txn.delete(view, &key);
                swept.forgotten += 1;
                continue;
            }
            Standing::Outlived => {
                effects.push(LeaseEffect::orphaned(&lease, OUTLIVED));
                lease.log(now, Event::Orphaned, OUTLIVED);
                lease.state = LeaseState::Orphaned;
                txn = txn.put(view, &key, &lease);
                swept.orphaned += 1;
                continue;
            }
            Standing::RunOut => "its time ran out",
            Standing::HolderDead if over() => dead,
            Standing::HolderDead | Standing::Ended | Standing::Kept(_) => continue,
        };
        effects.push(LeaseEffect::lost(&lease));
        lease.end(now, LeaseState::Expired, Event::Expired, note);
        txn = txn.put(view, &key, &lease);
        swept.expired += 1;
    }
    Ok(Decision { txn, reply: swept, effects })
}
