//! The right to be executing, held by whoever runs the work. It follows the work, not the caller who asked for it.

use crate::{Gate, PermitId};
use tidegate_core::WorkClass;

/// One admitted piece of work. End it with [`Permit::finish`].
///
/// Dropped without that (a panic, a cancelled task) it counts as *abandoned*: read-only work ends there, everything
/// else becomes detached and stays a holder until [`Gate::settle`] or [`Gate::settle_all_dead`].
#[must_use = "dropping a permit abandons its work; end it with finish()"]
#[derive(Debug)]
pub struct Permit {
    gate: Gate,
    id: PermitId,
    class: WorkClass,
    finished: bool,
}

impl Permit {
    #[inline]
    pub(crate) fn new(gate: Gate, id: PermitId, class: WorkClass) -> Self {
        Self { gate, id, class, finished: false }
    }

    /// Which admission this is.
    #[must_use]
    pub fn id(&self) -> PermitId {
        self.id
    }

    /// The work has ended: it was answered, or whoever executes it is proved dead.
    #[inline(always)]
    pub fn finish(mut self) {
        self.end();
    }

    /// Nobody waits for the answer any more. Read-only work ends with that; everything else stays a holder, because it
    /// may still be executing.
    pub fn detach(&mut self) {
        if self.class.is_unsafe() {
            self.gate.detach(self.id);
        } else {
            self.end();
        }
    }

    #[cold]
    fn abandon(&mut self) {
        if self.class.is_unsafe() {
            self.gate.abandon(self.id);
        } else {
            self.end();
        }
    }

    #[inline(always)]
    fn end(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.gate.finish(self.id);
        }
    }
}

impl Drop for Permit {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.finished {
            self.abandon();
        }
    }
}
