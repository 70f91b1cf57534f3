//! The one place where the benchmark reads a clock: how long something took. It decides nothing.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A point in time that only measures distance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(instant())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// What a row measures against: the cheapest way to read a clock.
#[allow(clippy::disallowed_methods, reason = "measuring is what a benchmark is for")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// How long this process was on a processor: what waits for nothing is measured by that, so that others on the machine
/// don't count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processor(Duration);

impl Processor {
    pub(crate) fn start() -> Self {
        Self(processor_time())
    }

    pub(crate) fn elapsed(self) -> Duration {
        processor_time().saturating_sub(self.0)
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Nanoseconds of a processor that one of `count` passes of `work` took.
pub(crate) fn nanos_each(count: u32, mut work: impl FnMut()) -> f64 {
    let watch = Processor::start();
    for _ in 0..count {
        work();
    }
    watch.elapsed().as_nanos() as f64 / f64::from(count)
}

/// How long `work` took, in microseconds, and what it gave.
pub(crate) fn micros<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let watch = Stopwatch::start();
    let done = work()?;
    Ok((watch.elapsed().as_nanos() as f64 / 1_000.0, done))
}

/// The value in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (_, _) if sorted.is_empty() => f64::NAN,
        (middle, 1) => sorted[middle],
        (middle, _) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_value_in_the_middle() {
        for (values, expected) in [(&[3.0, 1.0, 2.0][..], 2.0), (&[4.0, 1.0], 2.5), (&[7.0], 7.0)] {
            assert_eq!(median(values), expected);
        }
    }
}
