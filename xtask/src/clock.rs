//! The one place where xtask reads a clock: how long a step has taken. It decides nothing.

use std::time::{Duration, Instant};

/// A point in time that only measures distance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is xtask's clock; everything else is given durations"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
