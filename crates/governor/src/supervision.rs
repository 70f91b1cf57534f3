//! When a server that ended by itself is started again. Pure: it starts nothing and reads no clock.
//!
//! A start is not health. Only a server that has answered its handshake and then lived for a while is forgiven; one that
//! keeps dying is tried ever more slowly, never given up and never tried in a tight loop.

use tidegate_core::{Entropy, Now};

/// The wait before the first restart: long enough for the old process's ports and locks to be free.
pub const FIRST_DELAY_MS: u64 = 500;
/// The longest wait of the backoff.
pub const MAX_DELAY_MS: u64 = 30_000;
/// After so many failures in a row the component counts as unavailable and is only probed. With the doubling from half
/// a second, that is a minute of trying.
pub const FAILURES_BEFORE_PROBING: u32 = 8;
/// Where the backoff goes on after an operation has given up: at eight seconds or so.
const FAILURES_WHEN_GIVEN_UP: u32 = 4;
/// How often an unavailable component is probed: whoever repairs it needn't tell anybody.
pub const PROBE_EVERY_MS: u64 = 5 * 60_000;
/// How long a server lives, from its verification on, until its earlier failures are forgotten.
pub const HEALTHY_AFTER_MS: u64 = 60_000;

/// What to do about a server that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Start it again after so many milliseconds; calls wait meanwhile.
    Restart {
        /// How long to wait.
        after_ms: u64,
    },
    /// It is unavailable: report it, answer calls so, and try again after so many milliseconds.
    Probe {
        /// How long to wait.
        after_ms: u64,
    },
}

/// What is remembered of one component's failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Supervision {
    failures: u32,
    ready_since_ms: Option<u64>,
}

impl Supervision {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A server was verified.
    #[must_use]
    pub fn ready(self, now: &Now) -> Self {
        Self { ready_since_ms: Some(now.boot_ms), ..self }
    }

    /// An operation has given the component up: what it tried counts, and the next tries are slow.
    #[must_use]
    pub fn given_up(self) -> Self {
        Self { failures: self.failures.max(FAILURES_WHEN_GIVEN_UP), ready_since_ms: None }
    }

    /// A server ended, or could not be started or verified.
    #[must_use]
    pub fn failed(self, now: &Now, entropy: &dyn Entropy) -> (Self, Next) {
        let healthy = self.ready_since_ms.is_some_and(|since| now.since(since) >= HEALTHY_AFTER_MS);
        let failures = if healthy { 1 } else { self.failures.saturating_add(1) };
        (Self { failures, ready_since_ms: None }, decide_crash_restart(failures, entropy.bits()))
    }
}

/// The wait after so many failures in a row: doubled each time, capped, and less up to a half by chance, so that
/// components that died together don't start together.
#[must_use]
pub fn decide_crash_restart(failures: u32, random: u128) -> Next {
    let doublings = failures.saturating_sub(1).min(16);
    let (full, probe) = if failures > FAILURES_BEFORE_PROBING {
        (PROBE_EVERY_MS, true)
    } else {
        ((FIRST_DELAY_MS << doublings).min(MAX_DELAY_MS), false)
    };
    let half = full / 2;
    let share = u64::try_from(random % u128::from(half + 1)).unwrap_or(0);
    let after_ms = half + share;
    if probe { Next::Probe { after_ms } } else { Next::Restart { after_ms } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{BootId, WallTime};

    struct Fixed(u128);
    impl Entropy for Fixed {
        fn bits(&self) -> u128 {
            self.0
        }
    }

    fn at(boot_ms: u64) -> Now {
        Now { boot: BootId(1), boot_ms, wall: WallTime(0) }
    }

    #[test]
    fn the_wait_doubles_is_capped_and_becomes_a_slow_probe() {
        use Next::{Probe, Restart};
        let longest = u128::from(u64::MAX);
        for (failures, shortest_wait, longest_wait) in [
            (1, Restart { after_ms: 250 }, 500),
            (2, Restart { after_ms: 500 }, 1_000),
            (6, Restart { after_ms: 8_000 }, 16_000),
            (7, Restart { after_ms: 15_000 }, 30_000),
            (8, Restart { after_ms: 15_000 }, 30_000),
            (9, Probe { after_ms: 150_000 }, 300_000),
            (u32::MAX, Probe { after_ms: 150_000 }, 300_000),
        ] {
            assert_eq!(decide_crash_restart(failures, 0), shortest_wait, "{failures}");
            let wait = |random| match decide_crash_restart(failures, random) {
                Restart { after_ms } | Probe { after_ms } => after_ms,
            };
            assert_eq!(wait(u128::from(longest_wait / 2)), longest_wait, "{failures}");
            for random in [1, 77, 12_345, longest] {
                let after_ms = wait(random);
                assert!(after_ms * 2 >= longest_wait && after_ms <= longest_wait, "{failures}: {after_ms}");
            }
        }
    }

    #[test]
    fn a_start_alone_forgives_nothing_and_a_healthy_minute_does() {
        let entropy = Fixed(0);
        let mut supervision = Supervision::new();
        for n in 1..=12 {
            supervision = supervision.ready(&at(n * 1_000));
            (supervision, _) = supervision.failed(&at(n * 1_000 + 100), &entropy);
            assert_eq!(u64::from(supervision.failures()), n);
        }
        let (supervision, next) =
            supervision.ready(&at(20_000)).failed(&at(20_000 + HEALTHY_AFTER_MS), &entropy);
        assert_eq!((supervision.failures(), next), (1, Next::Restart { after_ms: 250 }));
    }

    #[test]
    fn what_an_operation_has_given_up_is_tried_slowly_and_nothing_is_forgiven() {
        let entropy = Fixed(0);
        for (failed_before, failures, after_ms) in [(0, 5, 4_000), (6, 7, 15_000)] {
            let before = Supervision { failures: failed_before, ..Supervision::new() };
            let given_up = before.ready(&at(0)).given_up();
            let (supervision, next) = given_up.failed(&at(HEALTHY_AFTER_MS), &entropy);
            assert_eq!((supervision.failures(), next), (failures, Next::Restart { after_ms }));
        }
    }
}
