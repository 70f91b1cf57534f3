//! The clocks of the simulated machine: boot time is the executor's and never goes back, wall time is set by whoever likes.

use crate::executor::Executor;
use std::sync::atomic::{AtomicI64, Ordering};
use tidegate_core::{BootId, BoxFuture, Clock, Now, Timer, WallTime};

/// The machine has been up for a while: 0 is no time that anything special is stored as.
pub(crate) const UP_MS: u64 = 1_000_000;
/// The wall clock at the beginning: 2026-01-01T00:00:00Z.
const START_WALL_MS: i64 = 1_767_225_600_000;
/// The one boot of a run.
pub(crate) const BOOT: BootId = BootId(0x51);

/// Clock and timer in one.
pub(crate) struct SimClock {
    executor: Executor,
    wall_offset_ms: AtomicI64,
}

impl SimClock {
    pub(crate) fn new(executor: Executor) -> Self {
        Self { executor, wall_offset_ms: AtomicI64::new(0) }
    }

    /// Somebody sets the wall clock.
    pub(crate) fn jump_wall(&self, by_ms: i64) {
        self.wall_offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Now {
        let elapsed = self.executor.now_ms();
        let wall = START_WALL_MS
            .saturating_add_unsigned(elapsed)
            .saturating_add(self.wall_offset_ms.load(Ordering::Relaxed));
        Now { boot: BOOT, boot_ms: UP_MS + elapsed, wall: WallTime(wall) }
    }
}

impl Timer for SimClock {
    fn sleep_until(&self, boot_ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(self.executor.sleep_until(boot_ms.saturating_sub(UP_MS)))
    }
}
