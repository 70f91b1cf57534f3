//! The shell: reads, lets the pure decisions decide, commits. It decides nothing itself and drives nothing.

use crate::request::{decide_request, request_scope};
use crate::ruling::{self, decide_approve, decide_cancel, decide_deny, decide_expire, ruling_scope};
use crate::{
    Actuator, Approved, Ask, Caller, Changes, Components, GovernorError, Intent, Launches, Operation, Phase,
    Policy, PolicyError, Stamp, operation,
};
use event_listener::{Event, EventListener};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_core::{Clock, ComponentName, Entropy, Now, OperationId, Probe};
use tidegate_drain::Holder;
use tidegate_leases::Sessions;
use tidegate_store::{Decision, Scope, Store, View, transact};

/// What a governor works with. Everything it knows of the world comes from here.
#[derive(Clone)]
pub struct Parts {
    /// Where everything durable is.
    pub store: Arc<dyn Store>,
    /// Reads the time.
    pub clock: Arc<dyn Clock>,
    /// Makes stamps.
    pub entropy: Arc<dyn Entropy>,
    /// Tells whether the owners of leases are alive.
    pub probe: Arc<dyn Probe>,
    /// Tells whether sessions are attached and have calls.
    pub sessions: Arc<dyn Sessions>,
    /// Who may do what, for how long.
    pub policy: Policy,
}

/// Restart operations, from the request to the end. Cheap to clone; clones are one governor.
#[derive(Clone)]
pub struct Governor {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) components: Components,
    memory: Mutex<Memory>,
    changed: Event,
}

/// What is known while it lasts, and of no consequence when it is lost.
#[derive(Default)]
struct Memory {
    /// Nothing of an earlier process is left to be settled.
    recovered: bool,
    /// The operations that a task of this governor drives.
    driven: BTreeSet<OperationId>,
    /// What the drains under way are waiting for.
    holders: BTreeMap<OperationId, Vec<Holder>>,
}

impl Governor {
    /// A governor of the operations in `parts.store`.
    ///
    /// # Errors
    /// [`PolicyError`] when the policy can't be served.
    pub fn new(parts: Parts) -> Result<Self, PolicyError> {
        parts.policy.check()?;
        let components = Components::new(parts.store.clone(), parts.entropy.clone());
        let shared = Shared { parts, components, memory: Mutex::default(), changed: Event::new() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Asks for an operation. An answer that is [`Phase::Approved`] is to be [run](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the request was taken; asking again with the same id answers it.
    ///
    /// # Errors
    /// As [`decide_request`], and the store's.
    pub async fn request(
        &self,
        caller: &Caller,
        ask: &Ask,
        actuator: &dyn Actuator,
    ) -> Result<Operation, GovernorError> {
        let launches = self.launches(&ask.scope, &ask.changes, actuator).await;
        let (parts, stamp) = (&self.shared.parts, self.stamp());
        self.decide(&request_scope(ask), |view, now| {
            decide_request(view, &parts.policy, caller, ask, &launches, now, &stamp)
        })
        .await
    }

    /// Counts an approval. When the operation in the answer is [`Phase::Approved`], it is to be [run](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the approval was counted; approving again counts it at most once.
    ///
    /// # Errors
    /// As [`decide_approve`], and the store's.
    pub async fn approve(
        &self,
        caller: &Caller,
        id: &OperationId,
        actuator: &dyn Actuator,
    ) -> Result<Approved, GovernorError> {
        let operation = self.get(id).await?;
        let current = self.launches(&operation.scope, &operation.upgrade.changes, actuator).await;
        let (parts, stamp) = (&self.shared.parts, self.stamp());
        self.decide(&ruling_scope(&operation), |view, now| {
            decide_approve(view, &parts.policy, caller, id, &current, now, &stamp)
        })
        .await
    }

    /// Why nobody can approve a waiting operation any more, and what approvals it has are void: what would be started now
    /// is not what was asked for. `None` while it may be approved, and once it no longer waits.
    pub async fn void(&self, operation: &Operation, actuator: &dyn Actuator) -> Option<GovernorError> {
        if operation.phase != Phase::Requested {
            return None;
        }
        let current = self.launches(&operation.scope, &operation.upgrade.changes, actuator).await;
        ruling::unchanged(operation, &current).err()
    }

    /// Ends a waiting operation by an approver's no.
    ///
    /// # Errors
    /// As [`decide_deny`], and the store's.
    pub async fn deny(&self, caller: &Caller, id: &OperationId) -> Result<Operation, GovernorError> {
        let operation = self.get(id).await?;
        let (parts, stamp) = (&self.shared.parts, self.stamp());
        self.decide(&ruling_scope(&operation), |view, now| {
            decide_deny(view, &parts.policy, caller, id, now, &stamp)
        })
        .await
    }

    /// Ends an operation before anything is stopped. A drain under way is ended too: whoever drives the operation
    /// opens its gates.
    ///
    /// # Errors
    /// As [`decide_cancel`], and the store's.
    pub async fn cancel(&self, caller: &Caller, id: &OperationId) -> Result<Operation, GovernorError> {
        let operation = self.get(id).await?;
        let stamp = self.stamp();
        self.decide(&ruling_scope(&operation), |view, now| decide_cancel(view, caller, id, now, &stamp)).await
    }

    /// Ends the requests that nobody approved in time; answers those. Call it now and then.
    ///
    /// # Errors
    /// The store's.
    pub async fn expire_due(&self) -> Result<Vec<Operation>, GovernorError> {
        let now = self.now();
        let due = |o: &Operation| o.phase == Phase::Requested && o.expires.passed(&now);
        let mut expired = Vec::new();
        for operation in self.list().await?.into_iter().filter(due) {
            let stamp = self.stamp();
            let decide = |view: &View, now: &Now| decide_expire(view, &operation.id, now, &stamp);
            let operation = self.decide(&ruling_scope(&operation), decide).await?;
            expired.extend((operation.phase == Phase::Expired).then_some(operation));
        }
        Ok(expired)
    }

    /// One operation. While it drains, its holders are those of this moment.
    ///
    /// # Errors
    /// [`GovernorError::UnknownOperation`], and the store's.
    pub async fn get(&self, id: &OperationId) -> Result<Operation, GovernorError> {
        let record = self.shared.parts.store.get(&Operation::key(id)).await?;
        let view = View::new(Default::default(), Default::default(), record);
        Ok(self.with_holders(ruling::find(&view, id)?))
    }

    /// All operations that are kept, in the order in which they were asked for.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<Operation>, GovernorError> {
        let operations = list_operations(&*self.shared.parts.store).await?;
        Ok(operations.into_iter().map(|operation| self.with_holders(operation)).collect())
    }

    /// What was approved and nobody drives: whoever approved it has lost the answer. Nothing until
    /// [`recover`](Self::recover) has succeeded: what an earlier process was to do, its own end among it, is settled by
    /// that and never begun. Nor is what a signal asked for, which is driven by whoever got it.
    ///
    /// # Errors
    /// The store's.
    pub async fn undriven(&self) -> Result<Vec<OperationId>, GovernorError> {
        if !self.memory().recovered {
            return Ok(Vec::new());
        }
        let approved = list_operations(&*self.shared.parts.store).await?.into_iter();
        let approved = approved.filter(|it| it.phase == Phase::Approved && it.intent != Intent::Shutdown);
        Ok(approved.map(|it| it.id).filter(|id| !self.is_driven(id)).collect())
    }

    /// Everything that an earlier process has left is settled.
    pub(crate) fn mark_recovered(&self) {
        self.memory().recovered = true;
    }

    /// Completes when an operation has moved on or a drain has told its progress. Listen first, then look.
    pub fn changed(&self) -> EventListener {
        self.shared.changed.listen()
    }

    /// The components' records.
    #[must_use]
    pub fn components(&self) -> &Components {
        &self.shared.components
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.shared.parts.policy
    }

    pub(crate) async fn launches(
        &self,
        scope: &[ComponentName],
        changes: &Changes,
        actuator: &dyn Actuator,
    ) -> Launches {
        let mut launches = Launches::new();
        for name in scope {
            let launch = match changes.get(name) {
                Some(change) => actuator.launch_as(name, change).await,
                None => actuator.launch(name).await,
            };
            launches.extend(launch.map(|launch| (name.clone(), launch)));
        }
        launches
    }

    pub(crate) fn now(&self) -> Now {
        self.shared.parts.clock.now()
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::fresh(&*self.shared.parts.entropy)
    }

    async fn decide<T>(
        &self,
        scope: &Scope,
        mut decide: impl FnMut(&View, &Now) -> Result<Decision<T>, GovernorError>,
    ) -> Result<T, GovernorError> {
        let decide = |view: &View| decide(view, &self.now());
        let reply = transact(&*self.shared.parts.store, scope, decide).await?.reply;
        self.tell();
        Ok(reply)
    }

    pub(crate) fn tell(&self) {
        self.shared.changed.notify(usize::MAX);
    }

    fn with_holders(&self, mut operation: Operation) -> Operation {
        if operation.phase == Phase::Draining {
            operation.holders = self.memory().holders.get(&operation.id).cloned().unwrap_or_default();
        }
        operation
    }

    pub(crate) fn progress(&self, id: &OperationId, holders: Vec<Holder>) {
        self.memory().holders.insert(id.clone(), holders);
        self.tell();
    }

    /// Makes the caller the only one that drives the operation, for as long as it keeps what it gets.
    pub(crate) fn take(&self, id: &OperationId) -> Result<Driving, GovernorError> {
        if self.memory().driven.insert(id.clone()) {
            Ok(Driving { governor: self.clone(), id: id.clone() })
        } else {
            Err(GovernorError::AlreadyDriven { operation: id.clone() })
        }
    }

    pub(crate) fn is_driven(&self, id: &OperationId) -> bool {
        self.memory().driven.contains(id)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All operations in a store, in the order in which they were asked for. Needs nothing but the store.
///
/// # Errors
/// The store's.
pub async fn list_operations(store: &dyn Store) -> Result<Vec<Operation>, GovernorError> {
    let listing = store.list(operation::PREFIX).await?;
    let view = View::new(listing.epoch, listing.revision, listing.records);
    let records = view.read_under::<Operation>(operation::PREFIX)?;
    let mut operations: Vec<Operation> = records.into_iter().map(|(_, operation)| operation).collect();
    operations.sort_by(|a, b| (a.requested_at, &a.id).cmp(&(b.requested_at, &b.id)));
    Ok(operations)
}

/// The right to drive one operation. Given up when dropped, whatever drops it.
pub(crate) struct Driving {
    governor: Governor,
    id: OperationId,
}

impl Drop for Driving {
    fn drop(&mut self) {
        let mut memory = self.governor.memory();
        memory.driven.remove(&self.id);
        memory.holders.remove(&self.id);
    }
}
