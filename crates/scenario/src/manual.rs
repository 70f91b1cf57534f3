//! A clock and ids that the test sets by hand.

use std::sync::{Mutex, PoisonError};
use tidegate_core::{BootId, Clock, Entropy, Now, WallTime};

/// The wall clock when a [`ManualClock`] starts: 2026-01-01T00:00:00Z.
const START_WALL_MS: i64 = 1_767_225_600_000;

/// A clock that moves only when told. Starts at boot time 0 of boot 1, on 2026-01-01 by the wall clock.
#[derive(Debug)]
pub struct ManualClock(Mutex<Now>);

impl Default for ManualClock {
    fn default() -> Self {
        Self(Mutex::new(Now { boot: BootId(1), boot_ms: 0, wall: WallTime(START_WALL_MS) }))
    }
}

impl ManualClock {
    /// Moves both clocks forward to `boot_ms`; never back.
    pub fn advance_to(&self, boot_ms: u64) {
        self.change(|now| {
            let by = boot_ms.saturating_sub(now.boot_ms);
            now.boot_ms += by;
            now.wall.0 += i64::try_from(by).unwrap_or(i64::MAX);
        });
    }

    /// Somebody sets the wall clock: it jumps, and nothing else does.
    pub fn jump_wall(&self, by_ms: i64) {
        self.change(|now| now.wall.0 = now.wall.0.saturating_add(by_ms));
    }

    /// The host is started anew: boot time begins at 0.
    pub fn reboot(&self) {
        self.change(|now| (now.boot, now.boot_ms) = (BootId(now.boot.0 + 1), 0));
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ids that count: `lease-1`, `lease-2`, …, so that a transcript is the same every time and can be read.
#[derive(Debug, Default)]
pub struct CountingIds(Mutex<u128>);

impl Entropy for CountingIds {
    fn bits(&self) -> u128 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        *last
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_only_when_told_and_never_back() {
        let clock = ManualClock::default();
        clock.advance_to(1_500);
        clock.advance_to(1_000);
        clock.jump_wall(-86_400_000);
        let now = clock.now();
        assert_eq!((now.boot_ms, now.wall.to_string()), (1_500, "2025-12-31T00:00:01.500Z".to_owned()));
        clock.reboot();
        assert_eq!((clock.now().boot, clock.now().boot_ms), (BootId(2), 0));
    }
}
