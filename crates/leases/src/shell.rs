//! The shell: reads from the store, gathers facts, lets the decision decide, commits. It decides nothing itself.

use crate::acquire::{acquire_scope, decide_acquire};
use crate::adopt::{adopt_scope, decide_adopt, decide_reattach, reattach_scope};
use crate::lease::{Brief, load, load_all};
use crate::release::{decide_release, release_scope};
use crate::renew::{decide_renew, decide_touch, due, renew_scope, touch_scope};
use crate::settle::{decide_settle, settle_scope};
use crate::sweep::{decide_sweep, sweep_scope};
use crate::{
    Acquire, Adopt, Facts, Freeze, Freshness, Granted, Lease, LeaseEffect, LeaseError, LeaseKey,
    LeaseOutcome, Owner, PREFIX, Release, Renew, SessionFacts, Sessions, Settle, Swept, Vigil,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_core::{Clock, Deadline, Entropy, Fence, HeldLease, Liveness, Now, Probe, SessionId};
use tidegate_store::{Done, Scope, Store, View, transact};

/// For a program whose holders are processes and nothing else: no session is attached or has calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSessions;

impl Sessions for NoSessions {
    fn facts(&self, _: &SessionId) -> SessionFacts {
        SessionFacts::default()
    }
}

/// The leases of a store. Cheap to clone; clones share what they know of the manager's own absences.
///
/// Effects are handed back with each answer: they are durable, and the caller tells whom they concern.
#[derive(Clone)]
pub struct Leases {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    probe: Arc<dyn Probe>,
    sessions: Arc<dyn Sessions>,
    vigil: Arc<Mutex<Vigil>>,
}

/// A lease that was got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquired {
    /// What.
    pub key: LeaseKey,
    /// By whom.
    pub owner: Owner,
    /// Its fencing token: show it to the resource.
    pub fence: Fence,
    /// How it was got.
    pub how: Granted,
    /// How long a renewal lasts.
    pub ttl: Duration,
    /// When it runs out unless renewed.
    pub expires: Deadline,
    /// When the request was sent, which is what the holder's freshness counts from.
    pub sent: Now,
    /// What others have to be told.
    pub effects: Vec<LeaseEffect>,
}

impl Acquired {
    /// The holder's freshness, from the sending of the request.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        Freshness::new(self.fence, &self.sent, self.lasts())
    }

    /// How long it lasts from the sending of the request: a ttl, or what is left of one where the same request had been
    /// granted before.
    pub(crate) fn lasts(&self) -> Duration {
        self.ttl.min(self.expires.remaining(&self.sent))
    }

    /// The request that renews it.
    #[must_use]
    pub fn renewal(&self) -> Renew {
        Renew { key: self.key.clone(), owner: self.owner.clone(), fence: self.fence }
    }
}

impl Leases {
    /// The leases in `store`, for holders that are processes and no sessions of a gateway.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        probe: Arc<dyn Probe>,
    ) -> Self {
        Self { store, clock, entropy, probe, sessions: Arc::new(NoSessions), vigil: Arc::default() }
    }

    /// Asks `sessions` about holders' sessions from now on.
    #[must_use]
    pub fn with_sessions(mut self, sessions: Arc<dyn Sessions>) -> Self {
        self.sessions = sessions;
        self
    }

    /// Owes every holder a whole ttl from now: for a manager that starts over leases of a former one, with which nobody
    /// could renew meanwhile. `gap` is how long there was none; [`MAX_TTL`](crate::MAX_TTL) where that isn't known.
    pub fn begin_after(&self, gap: Duration) {
        self.vigil().begin_after(gap, &self.clock.now());
    }

    /// Notes that the manager runs: for one that composes [`decide_sweep`](crate::decide_sweep) itself, every
    /// [`SWEEP_EVERY`](crate::SWEEP_EVERY).
    pub fn observe(&self) {
        self.vigil().observe(&self.clock.now());
    }

    /// Gets a lease, or says who has it and why it is kept.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the lease was got; the same request (same nonce) says.
    ///
    /// # Errors
    /// [`LeaseError::Held`], and those of a request that nobody could be granted.
    pub async fn acquire(&self, acquire: Acquire) -> Result<Acquired, LeaseError> {
        let sent = self.clock.now();
        let done = self
            .run(&acquire_scope(), |view, now| {
                decide_acquire(view, &acquire, &self.facts_of(view, &acquire.key, now)?, now)
            })
            .await?;
        let already = match done.reply.how {
            Granted::Already { fence } => Some(fence),
            _ => None,
        };
        let fence = granted(already, done.committed);
        let Acquire { key, owner, ttl, .. } = acquire;
        let (how, expires, effects) = (done.reply.how, done.reply.expires, done.effects);
        Ok(Acquired { key, owner, fence, how, ttl, expires, sent, effects })
    }

    /// Goes on holding a lease; answers until when.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the lease was renewed, which harms nobody.
    ///
    /// # Errors
    /// [`LeaseError`]; where [`LeaseError::is_lost`], the caller has to stop acting.
    pub async fn renew(&self, renew: &Renew) -> Result<Deadline, LeaseError> {
        let scope = renew_scope(renew);
        let decide = |view: &View, now: &Now| {
            let facts = Facts::none().ask(&renew.owner, &*self.probe, &*self.sessions);
            decide_renew(view, renew, &facts, now)
        };
        Ok(self.run(&scope, decide).await?.reply)
    }

    /// Gives a lease back.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the lease was given back; giving it back again is fine.
    ///
    /// # Errors
    /// [`LeaseError`]; a successor's lease is never touched.
    pub async fn release(&self, release: &Release) -> Result<Vec<LeaseEffect>, LeaseError> {
        let done = self.run(&release_scope(release), |view, now| decide_release(view, release, now)).await?;
        Ok(done.effects)
    }

    /// Hands a lease over by an operator's word; answers its new fence.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it was handed over; the same order (same nonce) says.
    ///
    /// # Errors
    /// [`LeaseError::Stale`] when it isn't what the operator looked at.
    pub async fn adopt(&self, adopt: &Adopt) -> Result<(Fence, Vec<LeaseEffect>), LeaseError> {
        let decide =
            |view: &View, now: &Now| decide_adopt(view, adopt, &self.facts_of(view, &adopt.key, now)?, now);
        let done = self.run(&adopt_scope(adopt), decide).await?;
        Ok((granted(done.reply.already, done.committed), done.effects))
    }

    /// A session came back with another client: its leases get new fences. Answers which leases it has.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it happened, to all of them or to none.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn reattach(&self, owner: &Owner) -> Result<Vec<LeaseKey>, LeaseError> {
        let decide = |view: &View, now: &Now| Ok(decide_reattach(view, owner, now)?);
        Ok(self.run(&reattach_scope(), decide).await?.reply)
    }

    /// Activity on a session renews its leases; answers which were due.
    ///
    /// # Cancel safety
    /// As [`Leases::renew`].
    ///
    /// # Errors
    /// Those of the store.
    pub async fn touch(&self, session: &SessionId) -> Result<Vec<LeaseKey>, LeaseError> {
        let decide = |view: &View, now: &Now| {
            let ask = |facts: Facts, lease: Brief| facts.ask(&lease.owner, &*self.probe, &*self.sessions);
            let facts = due(view, session, now)?.into_iter().fold(Facts::none(), ask);
            Ok(decide_touch(view, session, &facts, now)?)
        };
        Ok(self.run(&touch_scope(), decide).await?.reply)
    }

    /// Writes down what has run out and forgets what ended long ago. Whoever begins to sweep goes on, every
    /// [`SWEEP_EVERY`](crate::SWEEP_EVERY): a longer gap is taken for the manager's own absence.
    ///
    /// # Cancel safety
    /// Dropping the future loses the effects of what was done: [`Leases::list`] still shows what is orphaned.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn sweep(&self) -> Result<(Swept, Vec<LeaseEffect>), LeaseError> {
        self.observe();
        let id = self.entropy.id("sweep");
        let decide = |view: &View, now: &Now| Ok(decide_sweep(view, &id, &self.facts(view, now)?, now)?);
        let done = self.run(&sweep_scope(), decide).await?;
        Ok((done.reply, done.effects))
    }

    /// Settles the leases of a restart's sessions in a commit of its own. Where the restart has other things to
    /// commit, compose [`decide_settle`] instead.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether they are settled, all or none; settling again says.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn settle(&self, settle: &Settle) -> Result<(Vec<LeaseOutcome>, Vec<LeaseEffect>), LeaseError> {
        let decide = |view: &View, now: &Now| Ok(decide_settle(view, settle, &self.facts(view, now)?, now)?);
        let done = self.run(&settle_scope(), decide).await?;
        Ok((done.reply, done.effects))
    }

    /// The lease of a resource, where there is a record of one.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn get(&self, key: &LeaseKey) -> Result<Option<Lease>, LeaseError> {
        let record = self.store.get(key.record()).await?;
        let view = View::new(Default::default(), Default::default(), record);
        Ok(load(&view, key)?)
    }

    /// All leases of which there is a record, by key.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self) -> Result<Vec<Lease>, LeaseError> {
        let listing = self.store.list(PREFIX).await?;
        Ok(load_all(&View::new(listing.epoch, listing.revision, listing.records))?)
    }

    /// Who holds which lease now, by its name: what whoever admits work under leases has to know.
    ///
    /// # Errors
    /// The store's. Then nobody can be taken for a holder.
    pub async fn held(&self) -> Result<BTreeMap<String, HeldLease>, LeaseError> {
        let (leases, now) = (self.list().await?, self.clock.now());
        Ok(leases.iter().filter_map(|lease| Some((lease.key.to_string(), lease.held(&now)?))).collect())
    }

    /// Everything known about the holders in a view, for decisions that are composed elsewhere.
    ///
    /// # Errors
    /// [`ReadError::Malformed`](tidegate_store::ReadError::Malformed) when a record isn't a lease.
    pub fn facts(&self, view: &View, now: &Now) -> Result<Facts, tidegate_store::ReadError> {
        Ok(Facts::gather(view, &*self.probe, &*self.sessions)?.with_freeze(self.freeze(now)))
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn owner_liveness(&self, owner: &Owner) -> Liveness {
        owner.process.as_ref().map_or(Liveness::Unknown, |process| self.probe.liveness(process))
    }

    /// What is known about the holder of one lease, without asking about all.
    fn facts_of(&self, view: &View, key: &LeaseKey, now: &Now) -> Result<Facts, LeaseError> {
        let facts = Facts::none().with_freeze(self.freeze(now));
        Ok(match view.read::<Brief>(key.record())? {
            Some(lease) if lease.state.is_live() => facts.ask(&lease.owner, &*self.probe, &*self.sessions),
            _ => facts,
        })
    }

    fn freeze(&self, now: &Now) -> Option<Freeze> {
        self.vigil().glance(now)
    }

    fn vigil(&self) -> std::sync::MutexGuard<'_, Vigil> {
        self.vigil.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<R, E>(
        &self,
        scope: &Scope,
        mut decide: impl FnMut(&View, &Now) -> Result<tidegate_store::Decision<R, E>, LeaseError>,
    ) -> Result<Done<R, E>, LeaseError> {
        transact(&*self.store, scope, |view| decide(view, &self.clock.now())).await
    }
}

/// The fence of a grant: what it got before, or the commit that has just been made.
fn granted(already: Option<Fence>, committed: Option<Fence>) -> Fence {
    match already.or(committed) {
        Some(fence) => fence,
        None => unreachable!("a grant is made by a commit, now or before"),
    }
}
