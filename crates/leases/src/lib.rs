//! Who may act: durable leases with fencing tokens.
//!
//! A lease is a time-bounded exclusive claim of a session on a resource. A holder's death is proved, never assumed:
//!
//! - *Read-only* and *idempotent* leases run out: a ttl and a grace after the last renewal anybody may have them.
//! - *Mutating* leases don't. They change hands only when the holder gives them back, when its process is proved dead
//!   (another boot, no such pid, another start time), when the same session comes back, or by an operator's word. An
//!   owner without a process has to name a `max_ttl`, after which the lease is orphaned and somebody is told.
//! - Nothing is taken while the session has calls that may still be executing. "Cannot tell" counts as alive.
//! - Every change of hands is a commit, recorded in the lease's history, and that commit's number is the new *fence*.
//!   Fences only grow; a renewal or release under an old one is told so and changes nothing.
//! - Expiry counts boot time, suspend included. The wall clock is for people.
//!
//! A holder asks its [`Freshness`] before it acts, kept alive by a [`Renewer`]; a resource asks its [`FenceGuard`],
//! which remembers the highest fence it has seen beside the resource itself. Only the second is a guarantee: a holder
//! can be stopped between its check and its write.
//!
//! Every rule is a pure `decide_*` function of what the store showed, a command, [`Facts`] and the time; [`Leases`]
//! runs them. Decisions of other crates made from the same view can share their commit.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tidegate_core::{Liveness, Probe, ProcessIdentity, WorkClass};
//! use tidegate_leases::{Acquire, By, LeaseError, Leases, Owner, Release};
//! use tidegate_scenario::{CountingIds, ManualClock}; // a program takes them from tidegate_host
//! use tidegate_store::MemoryStore;
//!
//! struct NoProof;
//! impl Probe for NoProof {
//!     fn liveness(&self, _: &ProcessIdentity) -> Liveness { Liveness::Unknown }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(ManualClock::default());
//! let ids = Arc::new(CountingIds::default());
//! let leases = Leases::new(Arc::new(MemoryStore::new()), clock.clone(), ids, Arc::new(NoProof));
//! let request = |session: &str, nonce: &str| -> Result<Acquire, Box<dyn std::error::Error>> {
//!     Ok(Acquire {
//!         key: "index/docs".parse()?,
//!         owner: Owner { session: session.parse()?, process: None },
//!         class: WorkClass::Idempotent,
//!         ttl: Duration::from_secs(30),
//!         max_ttl: None,
//!         nonce: nonce.to_owned(),
//!     })
//! };
//!
//! let first = pollster::block_on(leases.acquire(request("local/s1", "n-1")?))?;
//! let refused = pollster::block_on(leases.acquire(request("local/s2", "n-2")?)).unwrap_err();
//! assert!(refused.to_string().starts_with("index/docs is held by local/s1 for another 31000 ms"));
//!
//! clock.advance_to(31_000); // the ttl and the grace
//! let second = pollster::block_on(leases.acquire(request("local/s2", "n-3")?))?;
//! assert!(second.fence > first.fence);
//! assert!(!first.freshness().is_fresh(&tidegate_core::Clock::now(&*clock)));
//!
//! let late = Release { key: first.key, by: By::Holder("local/s1".parse()?), fence: first.fence };
//! assert!(matches!(pollster::block_on(leases.release(&late)), Err(LeaseError::Stale { .. })));
//! # Ok(()) }
//! ```

mod acquire;
mod adopt;
mod effect;
mod error;
mod facts;
mod freeze;
mod freshness;
mod guard;
mod key;
mod lease;
mod release;
mod renew;
mod renewer;
mod schedule;
mod settle;
mod shell;
mod standing;
mod sweep;

pub use acquire::{Acquire, Grant, Granted, MAX_LEASES, acquire_scope, decide_acquire};
pub use adopt::{Adopt, Adopted, adopt_scope, decide_adopt, decide_reattach, reattach_scope};
pub use effect::LeaseEffect;
pub use error::LeaseError;
pub use facts::{Facts, SessionFacts, Sessions};
pub use freeze::{Freeze, SWEEP_EVERY, Vigil};
pub use freshness::{Freshness, MARGIN};
pub use guard::{Entered, FenceGuard, GuardError};
pub use key::{LeaseKey, LeaseKeyError, MAX_LEASE_KEY_BYTES, PREFIX};
pub use lease::{
    Event, FORGET_AFTER, HistoryEntry, Lease, LeaseState, MAX_HISTORY, MAX_NOTE_BYTES, MAX_TTL, MIN_TTL,
    Owner, load, load_all,
};
pub use release::{By, Release, decide_release, release_scope};
pub use renew::{Renew, decide_renew, decide_touch, renew_scope, touch_scope};
pub use renewer::Renewer;
pub use schedule::{RENEW_AFTER, RETRY_AFTER, Schedule, Step, next};
pub use settle::{LeaseOutcome, Outcome, Settle, decide_settle, settle_scope};
pub use shell::{Acquired, Leases, NoSessions};
pub use standing::{GRACE, Kept};
pub use sweep::{SWEEP_BATCH, Swept, decide_sweep, sweep_scope};

/// For a program without an async runtime: runs one of this crate's futures to its end.
pub use pollster::block_on;
/// The crates whose types a caller of this one needs, so that it's the only one to add.
#[doc(no_inline)]
pub use {tidegate_core as core, tidegate_host as host, tidegate_store as store};
