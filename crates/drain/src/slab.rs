//! The slots that name work in flight. Knows nothing of open and closed: whoever claims a slot has been counted before.
//!
//! A slot is free when its `live` word has no flag, and belongs to whoever sets [`CLAIMED`] there. Only the claimer writes
//! its details. A reader takes what it finds for the work whose turn it sees in `live` before and after.

use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError};
use crate::{Holder, WorkInfo};
use std::cell::Cell;
use tidegate_core::Now;

/// Flags in the low bits of a slot's `live` word; above them is the turn, which stays when the slot is freed.
const LIVE: u64 = 1;
const DETACHED: u64 = 2;
const ABANDONED: u64 = 4;
/// Somebody is writing the details: nothing is in flight here yet.
const CLAIMED: u64 = 8;
const FLAGS: u64 = LIVE | DETACHED | ABANDONED | CLAIMED;
const TURN_SHIFT: u32 = 4;

/// One admission, told apart from every other one of the same gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitId {
    slot: usize,
    /// Which use of the slot, so that a late settlement never touches a successor.
    turn: u64,
}

/// Alone on its cache line, so that threads that use neighbours don't slow each other down.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    live: AtomicU64,
    admitted_ms: AtomicU64,
    /// Where the work lies that `work` holds. Nothing else can lie there as long as it does.
    address: AtomicUsize,
    /// Stays when the slot is freed: whoever calls the same tool again finds its own name there, and needs no lock.
    work: Mutex<Option<Arc<WorkInfo>>>,
}

impl Slot {
    fn work(&self) -> MutexGuard<'_, Option<Arc<WorkInfo>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a free slot the caller's; answers which turn that is.
    #[inline]
    fn claim(&self) -> Option<u64> {
        let free = self.live.load(Ordering::Relaxed);
        let turn = (free >> TURN_SHIFT) + 1;
        let claimed = (turn << TURN_SHIFT) | CLAIMED;
        let is_mine = free & FLAGS == 0
            && self.live.compare_exchange(free, claimed, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_mine.then_some(turn)
    }

    /// Names what the claimer admits.
    #[inline]
    fn fill(&self, turn: u64, work: &Arc<WorkInfo>, now: &Now) {
        // Whoever sees this sees the slot claimed when it looks again.
        self.admitted_ms.store(now.boot_ms, Ordering::Release);
        let address = Arc::as_ptr(work).addr();
        if self.address.load(Ordering::Relaxed) != address {
            self.rename(work);
            self.address.store(address, Ordering::Relaxed);
        }
        self.live.store((turn << TURN_SHIFT) | LIVE, Ordering::Release);
    }

    #[cold]
    fn rename(&self, work: &Arc<WorkInfo>) {
        let before = self.work().replace(work.clone());
        drop(before); // outside the lock
    }

    /// What is in flight here.
    fn holder(&self, now: &Now) -> Option<Holder> {
        loop {
            let seen = self.live.load(Ordering::Acquire);
            if seen & LIVE == 0 {
                return None;
            }
            let admitted_ms = self.admitted_ms.load(Ordering::Acquire);
            let work = self.work().clone()?;
            let live = self.live.load(Ordering::Acquire);
            // Otherwise that work has ended, and what was read may be of its successor.
            if live & LIVE != 0 && live >> TURN_SHIFT == seen >> TURN_SHIFT {
                return Some(Holder {
                    session: work.session.clone(),
                    component: work.component.clone(),
                    tool: work.tool.clone(),
                    class: work.class,
                    age_ms: now.since(admitted_ms),
                    detached: live & DETACHED != 0,
                    abandoned: live & ABANDONED != 0,
                });
            }
        }
    }
}

thread_local! {
    /// The slot this thread freed last, of whichever gate: a place to start looking that no other thread starts from.
    static START: Cell<usize> = const { Cell::new(0) };
}

pub(crate) struct Slab {
    slots: Box<[Slot]>,
}

impl Slab {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { slots: std::iter::repeat_with(Slot::default).take(capacity).collect() }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// A slot for work that has been counted. There is a free one: no more than `capacity` are counted, and a slot is
    /// freed before its work is taken off the count.
    #[inline]
    pub(crate) fn claim(&self, work: &Arc<WorkInfo>, now: &Now) -> PermitId {
        let start = START.get();
        self.take(start, work, now).unwrap_or_else(|| self.take_another(start, work, now))
    }

    /// This slot, where it is free.
    #[inline]
    fn take(&self, slot: usize, work: &Arc<WorkInfo>, now: &Now) -> Option<PermitId> {
        let free = self.slots.get(slot)?;
        let turn = free.claim()?;
        free.fill(turn, work, now);
        Some(PermitId { slot, turn })
    }

    /// The next free slot behind `start`, and round, until it meets one.
    #[cold]
    fn take_another(&self, start: usize, work: &Arc<WorkInfo>, now: &Now) -> PermitId {
        let mut slot = start;
        loop {
            slot = if slot + 1 < self.capacity() { slot + 1 } else { 0 };
            if let Some(id) = self.take(slot, work, now) {
                return id;
            }
        }
    }

    /// Frees the slot of a permit that its owner ends.
    #[inline]
    pub(crate) fn free(&self, id: PermitId) {
        self.slots[id.slot].live.store(id.turn << TURN_SHIFT, Ordering::Release);
        START.set(id.slot);
    }

    /// Marks the work as wanted by nobody.
    pub(crate) fn detach(&self, id: PermitId) {
        self.slots[id.slot].live.store((id.turn << TURN_SHIFT) | LIVE | DETACHED, Ordering::Release);
    }

    /// Marks the work as dropped by its owner: from here on only a settlement frees it.
    pub(crate) fn abandon(&self, id: PermitId) {
        self.slots[id.slot].live.store(abandoned(id.turn), Ordering::Release);
    }

    /// Frees an abandoned slot; `false` when it isn't one, or not any more.
    pub(crate) fn settle(&self, id: PermitId) -> bool {
        self.slots.get(id.slot).is_some_and(|slot| {
            let free = id.turn << TURN_SHIFT;
            slot.live.compare_exchange(abandoned(id.turn), free, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// The abandoned work.
    pub(crate) fn abandoned(&self) -> Vec<PermitId> {
        let of = |(slot, live): (usize, u64)| {
            (live & ABANDONED != 0).then_some(PermitId { slot, turn: live >> TURN_SHIFT })
        };
        self.slots.iter().map(|s| s.live.load(Ordering::Acquire)).enumerate().filter_map(of).collect()
    }

    /// Everything in flight, oldest first.
    pub(crate) fn holders(&self, now: &Now) -> Vec<Holder> {
        let mut holders: Vec<_> = self.slots.iter().filter_map(|slot| slot.holder(now)).collect();
        holders.sort_by(|a, b| {
            b.age_ms.cmp(&a.age_ms).then_with(|| (&a.session, &a.tool).cmp(&(&b.session, &b.tool)))
        });
        holders
    }
}

fn abandoned(turn: u64) -> u64 {
    (turn << TURN_SHIFT) | LIVE | DETACHED | ABANDONED
}
