//! The admission gate of one component: open or closed and how many are inside, in one atomic word.
//!
//! Closing and counting are one read-modify-write, as are checking and entering; so every admission is either in the
//! count that [`Gate::close`] returns, or refused. The gate never waits and never decides how a drain ends.

use crate::permit::Permit;
use crate::slab::Slab;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError, yield_now};
use crate::{Holder, PermitId, WorkInfo};
use event_listener::{Event, EventListener};
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, DrainId, Now};

const CLOSED: u64 = 1 << 63;
const COUNT: u64 = !CLOSED;

/// The largest capacity: a slot is small, and nothing behind one server does a million things at a time.
pub const MAX_CAPACITY: usize = 1 << 20;

/// Why work was not admitted. Nothing is in flight for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The gate is closed.
    #[error("{component} is draining ({drain}): hold the work until the gate reopens, or come back later")]
    Closed {
        /// The gate's component.
        component: ComponentName,
        /// The drain that closed it.
        drain: DrainId,
    },
    /// As much is in flight as the gate has room for.
    #[error("{component} has {capacity} calls in flight and takes no more: wait for one of them to end")]
    Full {
        /// The gate's component.
        component: ComponentName,
        /// How many it takes.
        capacity: usize,
    },
}

/// The gate was closed before, by another drain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component} is already draining, for {by}: wait for that drain to end")]
pub struct AlreadyClosed {
    /// The gate's component.
    pub component: ComponentName,
    /// The drain that closed it.
    pub by: DrainId,
}

/// The gate isn't closed by the drain that wants to open it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component} was not closed by {drain}, which must leave it alone")]
pub struct NotYours {
    /// The gate's component.
    pub component: ComponentName,
    /// The drain that asked.
    pub drain: DrainId,
}

/// The admission gate of one component. Cheap to clone: all clones are the same gate.
///
/// # Examples
/// ```
/// # use tidegate_core::{BootId, Now, WallTime, WorkClass};
/// # use tidegate_drain::{Gate, WorkInfo};
/// # use std::sync::Arc;
/// # let now = Now { boot: BootId(1), boot_ms: 0, wall: WallTime(0) };
/// let gate = Gate::new("files".parse()?, 16);
/// let write = Arc::new(WorkInfo {
///     session: "local/s1".parse()?,
///     component: "files".parse()?,
///     tool: "write_file".into(),
///     class: WorkClass::Mutating,
/// });
/// let permit = gate.admit(&write, &now)?;
/// assert_eq!(gate.close("d1".parse()?)?, 1);       // one inside, nobody after it
/// assert!(gate.admit(&write, &now).is_err());
/// permit.finish();
/// assert_eq!(gate.in_flight(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    component: ComponentName,
    /// [`CLOSED`] and the number in flight.
    state: AtomicU64,
    slab: Slab,
    /// Who closed it. Locked by close and reopen and by a refusal, which has to name the drain; never by an admission.
    closed_by: Mutex<Option<DrainId>>,
    changed: Event,
}

impl Inner {
    /// Counts one more, unless the gate is closed or full. A closed one is above every capacity.
    #[inline]
    fn enter(&self) -> bool {
        let room = self.slab.capacity() as u64;
        let enter = |state: u64| (state < room).then_some(state + 1);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_ok()
    }
}

impl Gate {
    /// An open gate with room for `capacity` pieces of work (at least 1, at most [`MAX_CAPACITY`]).
    #[must_use]
    pub fn new(component: ComponentName, capacity: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                component,
                state: AtomicU64::new(0),
                slab: Slab::new(capacity.clamp(1, MAX_CAPACITY)),
                closed_by: Mutex::new(None),
                changed: Event::new(),
            }),
        }
    }

    /// The component it stands before.
    #[must_use]
    pub fn component(&self) -> &ComponentName {
        &self.inner.component
    }

    /// Lets work in, or says why not. The hot path: one read-modify-write and a slot, no lock.
    ///
    /// # Errors
    /// [`Refusal::Closed`] names the drain, [`Refusal::Full`] the capacity.
    #[inline(always)]
    pub fn admit(&self, work: &Arc<WorkInfo>, now: &Now) -> Result<Permit, Refusal> {
        if self.inner.enter() { Ok(self.permit(work, now)) } else { self.admit_or_refuse(work, now) }
    }

    /// For work that has been counted.
    #[inline]
    fn permit(&self, work: &Arc<WorkInfo>, now: &Now) -> Permit {
        Permit::new(self.clone(), self.inner.slab.claim(work, now), work.class)
    }

    /// As [`Gate::admit`], for work that wasn't let in at once. Apart from it, so that whoever calls that gets its few
    /// instructions in place, and the permit without a way through memory.
    #[cold]
    fn admit_or_refuse(&self, work: &Arc<WorkInfo>, now: &Now) -> Result<Permit, Refusal> {
        loop {
            if let Some(refusal) = self.refusal() {
                return Err(refusal);
            }
            if self.inner.enter() {
                return Ok(self.permit(work, now));
            }
        }
    }

    /// Why nobody is let in; `None` when that has changed meanwhile.
    fn refusal(&self) -> Option<Refusal> {
        let (component, capacity) = (self.inner.component.clone(), self.inner.slab.capacity());
        if self.is_open() {
            return (self.in_flight() >= capacity).then_some(Refusal::Full { component, capacity });
        }
        self.closed_by().map(|drain| Refusal::Closed { component, drain })
    }

    /// Closes the gate and counts what is inside, in one step. Closing again for the same drain counts again.
    ///
    /// # Errors
    /// [`AlreadyClosed`] says which drain was first.
    pub fn close(&self, drain: DrainId) -> Result<usize, AlreadyClosed> {
        let mut closed_by = self.lock_closer();
        match &*closed_by {
            Some(by) if *by != drain => {
                return Err(AlreadyClosed { component: self.inner.component.clone(), by: by.clone() });
            }
            _ => *closed_by = Some(drain),
        }
        let bit = if is_planted("closing-does-not-close") { 0 } else { CLOSED };
        let inside = self.inner.state.fetch_or(bit, Ordering::AcqRel) & COUNT;
        drop(closed_by);
        self.tell();
        Ok(usize::try_from(inside).unwrap_or(usize::MAX))
    }

    /// Opens the gate that `drain` closed.
    ///
    /// # Errors
    /// [`NotYours`] when the gate is open, or closed by another drain: a late timer leaves its successor alone.
    pub fn reopen(&self, drain: &DrainId) -> Result<(), NotYours> {
        let mut closed_by = self.lock_closer();
        if closed_by.as_ref() != Some(drain) {
            return Err(NotYours { component: self.inner.component.clone(), drain: drain.clone() });
        }
        *closed_by = None;
        self.inner.state.fetch_and(COUNT, Ordering::AcqRel);
        drop(closed_by);
        self.tell();
        Ok(())
    }

    /// Whether work is let in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.state.load(Ordering::Acquire) & CLOSED == 0
    }

    /// The drain that keeps it closed.
    #[must_use]
    pub fn closed_by(&self) -> Option<DrainId> {
        self.lock_closer().clone()
    }

    /// How many pieces of work are inside.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        usize::try_from(self.inner.state.load(Ordering::Acquire) & COUNT).unwrap_or(usize::MAX)
    }

    /// What is inside, oldest first. At a closed gate everything that was counted is named; at an open one it's a
    /// moving picture.
    #[must_use]
    pub fn holders(&self, now: &Now) -> Vec<Holder> {
        loop {
            let counted = self.in_flight();
            let holders = self.inner.slab.holders(now);
            if holders.len() >= counted || self.is_open() {
                return holders;
            }
            // Somebody has been counted and is a few instructions from writing its name down, or from leaving.
            yield_now();
        }
    }

    /// Completes at the next change that matters to a drain: the gate closes or opens, or, while it is closed, work
    /// ends or changes its state. Listen first, look then, and wait last: no change is missed.
    #[must_use]
    pub fn changed(&self) -> EventListener {
        self.inner.changed.listen()
    }

    /// Ends abandoned work of which it is known that it doesn't execute any more. `false` when that permit isn't
    /// abandoned, or was settled before.
    pub fn settle(&self, id: PermitId) -> bool {
        let settled = self.inner.slab.settle(id);
        if settled {
            self.leave();
        }
        settled
    }

    /// The server is proved dead: ends all abandoned work, and says how much that was.
    pub fn settle_all_dead(&self) -> usize {
        self.inner.slab.abandoned().into_iter().filter(|id| self.settle(*id)).count()
    }

    #[inline]
    pub(crate) fn finish(&self, id: PermitId) {
        self.inner.slab.free(id);
        self.leave();
    }

    pub(crate) fn detach(&self, id: PermitId) {
        self.inner.slab.detach(id);
        self.tell_if_closed();
    }

    pub(crate) fn abandon(&self, id: PermitId) {
        self.inner.slab.abandon(id);
        self.tell_if_closed();
    }

    #[inline]
    fn leave(&self) {
        if self.inner.state.fetch_sub(1, Ordering::AcqRel) & CLOSED != 0 {
            self.tell();
        }
    }

    fn tell_if_closed(&self) {
        if !self.is_open() {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        self.inner.changed.notify(usize::MAX);
    }

    fn lock_closer(&self) -> MutexGuard<'_, Option<DrainId>> {
        self.inner.closed_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("component", &self.inner.component)
            .field("closed_by", &self.closed_by())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}
