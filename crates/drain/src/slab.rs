//! The slots that name work in flight. Knows nothing of open and closed: whoever claims a slot has been counted before.
//!
//! A slot is free when its `live` word is 0. Only the claimer of a slot writes its details, under the slot's own lock,
//! which nobody else wants unless holders are being listed; the owner frees it with one store.

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError, TryLockError};
use crate::{Holder, WorkInfo};
use std::cell::Cell;
use tidegate_core::Now;

/// Flags in the low bits of a slot's `live` word; the turn is above them.
const LIVE: u64 = 1;
const DETACHED: u64 = 2;
const ABANDONED: u64 = 4;
const TURN_SHIFT: u32 = 3;

/// One admission, told apart from every other one of the same gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitId {
    slot: usize,
    /// Which use of the slot, so that a late settlement never touches a successor.
    turn: u64,
}

#[derive(Default)]
struct Details {
    turn: u64,
    admitted_ms: u64,
    work: Option<Arc<WorkInfo>>,
}

/// Alone on its cache line, so that threads that use neighbours don't slow each other down.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    live: AtomicU64,
    details: Mutex<Details>,
}

impl Slot {
    fn details(&self) -> MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// A slot for work that has been counted. There is a free one: no more than `capacity` are counted, and a slot is
    /// freed before its work is taken off the count.
    pub(crate) fn claim(&self, work: &Arc<WorkInfo>, now: &Now) -> PermitId {
        let mut index = START.get() % self.slots.len();
        loop {
            let slot = &self.slots[index];
            if slot.live.load(Ordering::Acquire) == 0 {
                let details = match slot.details.try_lock() {
                    Ok(details) => Some(details),
                    Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) => None,
                };
                if let Some(mut details) = details
                    && slot.live.load(Ordering::Acquire) == 0
                {
                    details.turn += 1;
                    details.admitted_ms = now.boot_ms;
                    // Whoever calls the same tool again finds its own name there, and pays nothing for it.
                    if !details.work.as_ref().is_some_and(|last| Arc::ptr_eq(last, work)) {
                        details.work = Some(work.clone());
                    }
                    slot.live.store((details.turn << TURN_SHIFT) | LIVE, Ordering::Release);
                    return PermitId { slot: index, turn: details.turn };
                }
            }
            index = (index + 1) % self.slots.len();
        }
    }

    /// Frees the slot of a permit that its owner ends.
    pub(crate) fn free(&self, id: PermitId) {
        self.slots[id.slot].live.store(0, Ordering::Release);
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
            slot.live.compare_exchange(abandoned(id.turn), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
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
        let mut holders = Vec::new();
        for slot in &self.slots {
            if slot.live.load(Ordering::Acquire) == 0 {
                continue;
            }
            let details = slot.details();
            let live = slot.live.load(Ordering::Acquire);
            if live == 0 {
                continue;
            }
            let Some(work) = &details.work else { continue };
            holders.push(Holder {
                session: work.session.clone(),
                component: work.component.clone(),
                tool: work.tool.clone(),
                class: work.class,
                age_ms: now.since(details.admitted_ms),
                detached: live & DETACHED != 0,
                abandoned: live & ABANDONED != 0,
            });
        }
        holders.sort_by(|a, b| {
            b.age_ms.cmp(&a.age_ms).then_with(|| (&a.session, &a.tool).cmp(&(&b.session, &b.tool)))
        });
        holders
    }
}

fn abandoned(turn: u64) -> u64 {
    (turn << TURN_SHIFT) | LIVE | DETACHED | ABANDONED
}
