//! Acquire: a free lease is granted, one's own is adopted, another's is taken only where that is proved right.

use crate::key::PREFIX;
use crate::lease::{Brief, load};
use crate::standing::{GRACE, Standing, after, expiry, standing};
use crate::{Event, Facts, Lease, LeaseEffect, LeaseError, LeaseKey, LeaseState, MAX_TTL, MIN_TTL, Owner};
use std::time::Duration;
use tidegate_core::{Deadline, Fence, Now, WorkClass};
use tidegate_store::{Decision, Scope, Txn, View};

/// How many leases may be held at a time: a restart settles all of them in one commit, which has room for 4 MiB.
pub const MAX_LEASES: usize = 512;

/// A request for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// What.
    pub key: LeaseKey,
    /// For whom.
    pub owner: Owner,
    /// What is going to be done under it.
    pub class: WorkClass,
    /// How long a renewal is to last: [`MIN_TTL`] to [`MAX_TTL`].
    pub ttl: Duration,
    /// How long it may last at most; required for a mutating lease of an owner without a process.
    pub max_ttl: Option<Duration>,
    /// A random number of this request. The same again, by the same owner, is the same request; another process of its
    /// session has to ask for itself, and takes the lease over.
    pub nonce: String,
}

/// How a lease was got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// It was free.
    Fresh,
    /// It was got by this very request before.
    Already {
        /// Its fence.
        fence: Fence,
    },
    /// The caller's session had it; it has a new fence now.
    Adopted,
    /// It was taken from another session, whose time had run out.
    RunOut {
        /// The lease as it was.
        from: Owner,
    },
    /// It was taken from another session, whose holder is proved dead.
    HolderDead {
        /// The lease as it was.
        from: Owner,
    },
}

/// The answer to an acquisition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// How it was got. Unless [`Granted::Already`], the fence is that of the commit.
    pub how: Granted,
    /// When it runs out unless renewed.
    pub expires: Deadline,
}

/// What [`decide_acquire`] has to see.
#[must_use]
pub fn acquire_scope() -> Scope {
    Scope::new().prefix(PREFIX)
}

/// Grants the lease, or says who has it and why it is kept.
///
/// The session is the owner and its process only evidence, so a session always gets its own lease, an orphaned one too,
/// under a new fence that ends whatever another of its processes may still hold.
///
/// # Errors
/// [`LeaseError::Held`] and the errors of a request that can't be granted to anybody.
pub fn decide_acquire(
    view: &View,
    acquire: &Acquire,
    facts: &Facts,
    now: &Now,
) -> Result<Decision<Grant, LeaseEffect>, LeaseError> {
    let Acquire { key, owner, class, ttl, max_ttl, nonce } = acquire;
    check_ttl(key, owner, *class, *ttl, *max_ttl)?;
    let Some(mut lease) = load(view, key)? else {
        return grant(view, acquire, Vec::new(), Granted::Fresh, Vec::new(), now);
    };
    let own = lease.owner.session == owner.session;
    if lease.owner == *owner && lease.nonce == *nonce && lease.state == LeaseState::Held {
        let how = Granted::Already { fence: lease.fence };
        return Ok(Decision::reply(Grant { how, expires: lease.deadline_on(now) }));
    }
    let (how, event, note) = match standing(&lease, facts, now) {
        Standing::Ended => return grant(view, acquire, lease.history, Granted::Fresh, Vec::new(), now),
        _ if own => (Granted::Adopted, Event::Adopted, "the session acquired it again"),
        Standing::RunOut => {
            (Granted::RunOut { from: lease.owner.clone() }, Event::Expired, "its time had run out")
        }
        Standing::HolderDead => {
            (Granted::HolderDead { from: lease.owner.clone() }, Event::Expired, "its holder is proved dead")
        }
        Standing::Kept(kept) => return Err(held(&lease, kept, facts, now)),
        Standing::Outlived => return Err(held(&lease, crate::Kept::Orphaned, facts, now)),
    };
    lease.log(now, event, note);
    let lost = if own { Vec::new() } else { vec![LeaseEffect::lost(&lease)] };
    grant(view, acquire, lease.history, how, lost, now)
}

fn grant(
    view: &View,
    acquire: &Acquire,
    history: Vec<crate::HistoryEntry>,
    how: Granted,
    effects: Vec<LeaseEffect>,
    now: &Now,
) -> Result<Decision<Grant, LeaseEffect>, LeaseError> {
    if matches!(how, Granted::Fresh) && is_full(view) {
        return Err(LeaseError::TooMany);
    }
    let Acquire { key, owner, class, ttl, max_ttl, nonce } = acquire.clone();
    let mut lease = Lease {
        key,
        owner,
        class,
        ttl,
        max_ttl,
        deadline: now.deadline(ttl),
        max_deadline: max_ttl.map(|max| now.deadline(max)),
        state: LeaseState::Held,
        fence: Fence::default(),
        nonce,
        forget: None,
        settled: None,
        history,
        extra: serde_json::Map::new(),
    };
    lease.extend(now);
    lease.log(now, Event::Granted, "");
    let txn = Txn::new().put(view, lease.key.record(), &lease);
    Ok(Decision { txn, reply: Grant { how, expires: lease.deadline }, effects })
}

pub(crate) fn held(lease: &Lease, kept: crate::Kept, facts: &Facts, now: &Now) -> LeaseError {
    LeaseError::Held {
        key: lease.key.clone(),
        by: lease.owner.session.clone(),
        fence: lease.fence,
        free_in: after(expiry(lease, facts, now), GRACE).remaining(now),
        kept,
    }
}

pub(crate) fn check_ttl(
    key: &LeaseKey,
    owner: &Owner,
    class: WorkClass,
    ttl: Duration,
    max_ttl: Option<Duration>,
) -> Result<(), LeaseError> {
    if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Err(LeaseError::TtlOutOfRange { given: ttl });
    }
    match max_ttl {
        Some(given) if !(ttl..=MAX_TTL).contains(&given) => Err(LeaseError::TtlOutOfRange { given }),
        None if class == WorkClass::Mutating && owner.process.is_none() => {
            Err(LeaseError::MaxTtlRequired { key: key.clone() })
        }
        _ => Ok(()),
    }
}

/// Whether as many leases are held as may be. A record that can't be read counts: it may be one.
fn is_full(view: &View) -> bool {
    let ended = |value: &[u8]| serde_json::from_slice(value).is_ok_and(|brief: Brief| !brief.state.is_live());
    // Records are looked into only where there are that many at all.
    view.under(PREFIX).nth(MAX_LEASES - 1).is_some()
        && view.under(PREFIX).filter(|record| !ended(&record.value)).count() >= MAX_LEASES
}
