//! Notices that the manager itself was away: stopped, swapped out, or suspended with its machine.
//!
//! While it was away nobody could renew with it. Whoever had a ttl shorter than that gets a whole one again before
//! anything is taken from them.

use crate::MIN_TTL;
use std::time::Duration;
use tidegate_core::Now;

/// How often a manager that sweeps has to sweep. Cheap (a read, mostly), and a person doesn't notice a second.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A time in which the manager did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freeze {
    /// How long it was away.
    pub gap: Duration,
    /// When it came back, by the boot-time clock.
    pub ended_ms: u64,
}

/// Watches for gaps between its own observations, which have to be regular to mean anything.
#[derive(Debug, Clone, Default)]
pub struct Vigil {
    last: Option<Now>,
    freeze: Option<Freeze>,
}

impl Vigil {
    /// Notes that the manager runs, and says whether it has been away so lately that it matters.
    ///
    /// A second, shorter freeze inside the grace of a longer one doesn't cut that one short.
    pub fn observe(&mut self, now: &Now) -> Option<Freeze> {
        let last = self.last.replace(*now).filter(|last| last.boot == now.boot);
        if last.is_none() {
            self.freeze = None;
        }
        self.freeze = self.freeze.filter(|f| Duration::from_millis(now.since(f.ended_ms)) <= f.gap);
        let gap = Duration::from_millis(last.map_or(0, |last| now.since(last.boot_ms)));
        if gap >= MIN_TTL {
            let longest = self.freeze.map_or(gap, |f| f.gap.max(gap));
            self.freeze = Some(Freeze { gap: longest, ended_ms: now.boot_ms });
        }
        self.freeze
    }

    /// Notes that there was no manager until now, and for how long there may have been none.
    pub fn begin_after(&mut self, gap: Duration, now: &Now) {
        *self = Self { last: Some(*now), freeze: Some(Freeze { gap, ended_ms: now.boot_ms }) };
    }

    /// As [`Vigil::observe`], for occasions that aren't regular: before the first regular one nothing is known.
    pub fn glance(&mut self, now: &Now) -> Option<Freeze> {
        self.last.and_then(|_| self.observe(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{BootId, WallTime};

    /// Observes at these times (boot, ms) and says what is known of the last.
    #[track_caller]
    fn check(times: &[(u128, u64)], expected: Option<(u64, u64)>) {
        let mut vigil = Vigil::default();
        let mut freeze = None;
        for &(boot, boot_ms) in times {
            freeze = vigil.observe(&Now { boot: BootId(boot), boot_ms, wall: WallTime(0) });
        }
        let expected = expected.map(|(gap, ended_ms)| Freeze { gap: Duration::from_millis(gap), ended_ms });
        assert_eq!(freeze, expected, "{times:?}");
    }

    #[test]
    fn only_a_gap_of_a_whole_ttl_is_a_freeze() {
        check(&[(1, 0)], None);
        check(&[(1, 0), (1, 1_000), (1, 2_000)], None);
        check(&[(1, 0), (1, 2_999)], None);
        check(&[(1, 0), (1, 3_000)], Some((3_000, 3_000)));
        check(&[(1, 0), (1, 60_000), (1, 61_000)], Some((60_000, 60_000)));
    }

    #[test]
    fn a_freeze_matters_for_as_long_as_it_was() {
        let tick = |until: u64| {
            let mut times = vec![(1, 0), (1, 10_000)];
            times.extend((11_000..=until).step_by(1_000).map(|ms| (1, ms)));
            times
        };
        check(&tick(20_000), Some((10_000, 10_000)));
        check(&tick(21_000), None);
    }

    #[test]
    fn a_shorter_freeze_does_not_cut_the_grace_of_a_longer_one_short() {
        check(&[(1, 0), (1, 60_000), (1, 65_000)], Some((60_000, 65_000)));
    }

    #[test]
    fn a_reboot_is_not_a_freeze() {
        check(&[(1, 900_000), (2, 4_000)], None);
    }

    #[test]
    fn a_manager_that_never_sweeps_is_never_taken_for_frozen() {
        let mut vigil = Vigil::default();
        let at = |boot_ms| Now { boot: BootId(1), boot_ms, wall: WallTime(0) };
        assert_eq!((vigil.glance(&at(0)), vigil.glance(&at(900_000))), (None, None));
        assert_eq!(vigil.observe(&at(901_000)), None);
        assert!(vigil.glance(&at(999_000)).is_some());
    }
}
