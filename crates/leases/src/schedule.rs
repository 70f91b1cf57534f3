//! When a holder renews next. Pure; the thread that drives it is in `renewer`.

use std::time::Duration;
use tidegate_core::{Liveness, Now};

/// A renewal is due after this part of the ttl, a third: two more can fail before freshness ends.
pub const RENEW_AFTER: u32 = 3;

/// A failed renewal is tried again after this part of the ttl, a tenth.
pub const RETRY_AFTER: u32 = 10;

/// What a renewer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    ttl: Duration,
    due_ms: u64,
}

/// What a renewer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Wait until this boot time.
    Wait {
        /// Milliseconds since boot.
        until_ms: u64,
    },
    /// Send a renewal now.
    Renew,
    /// The owner is dead: stop.
    Stop,
}

impl Schedule {
    /// The schedule of a lease whose last acknowledged request was sent at `sent`, and lasts for `lasts` from there: a ttl,
    /// or what was left of one.
    #[must_use]
    pub fn new(ttl: Duration, lasts: Duration, sent: &Now) -> Self {
        Self { ttl, due_ms: sent.deadline(lasts / RENEW_AFTER).at_ms }
    }

    /// A renewal failed at `now` for a reason that may go away.
    #[must_use]
    pub fn failed(self, now: &Now) -> Self {
        Self { due_ms: now.deadline(self.ttl / RETRY_AFTER).at_ms, ..self }
    }
}

/// The next step. A renewer lives as long as its owner and no longer; an owner that can't be told dead counts as alive.
#[must_use]
pub fn next(schedule: &Schedule, owner: Liveness, now: &Now) -> Step {
    if owner.is_proved_dead() {
        Step::Stop
    } else if now.boot_ms >= schedule.due_ms {
        Step::Renew
    } else {
        Step::Wait { until_ms: schedule.due_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{BootId, WallTime};

    fn at(boot_ms: u64) -> Now {
        Now { boot: BootId(1), boot_ms, wall: WallTime(0) }
    }

    const TTL: Duration = Duration::from_secs(30);

    #[track_caller]
    fn check(schedule: &Schedule, owner: Liveness, now_ms: u64, expected: Step) {
        assert_eq!(next(schedule, owner, &at(now_ms)), expected);
    }

    #[test]
    fn a_renewal_is_due_after_a_third_of_the_ttl_and_a_failed_one_after_a_tenth() {
        let schedule = Schedule::new(TTL, TTL, &at(1_000));
        check(&schedule, Liveness::Alive, 1_000, Step::Wait { until_ms: 11_000 });
        check(&schedule, Liveness::Alive, 11_000, Step::Renew);
        check(&schedule.failed(&at(11_200)), Liveness::Alive, 11_200, Step::Wait { until_ms: 14_200 });
        let granted_before = Schedule::new(TTL, Duration::from_secs(6), &at(1_000));
        check(&granted_before, Liveness::Alive, 3_000, Step::Renew);
        check(&granted_before.failed(&at(3_000)), Liveness::Alive, 3_000, Step::Wait { until_ms: 6_000 });
    }

    #[test]
    fn it_stops_with_its_owner_and_only_on_proof() {
        let schedule = Schedule::new(TTL, TTL, &at(1_000));
        check(&schedule, Liveness::Dead, 2_000, Step::Stop);
        check(&schedule, Liveness::Dead, 99_000, Step::Stop);
        check(&schedule, Liveness::Unknown, 99_000, Step::Renew);
    }
}
