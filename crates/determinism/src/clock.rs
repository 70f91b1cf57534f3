//! The one place where this crate looks at a clock: for deadlines, progress and cost, never for a decision.

use std::time::{Duration, Instant};

/// Anything longer than this is reported as it goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Time that only goes forward.
#[expect(clippy::disallowed_methods, reason = "this crate stands alone; this is its one clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Tells what goes on, at most every two seconds.
pub(crate) struct Progress<'a> {
    sink: &'a mut dyn FnMut(&str),
    started: Instant,
    told: Instant,
    step: String,
    /// When the present series of runs began, how many there are and how many have ended.
    series: (Instant, u32, u32),
}

impl<'a> Progress<'a> {
    pub(crate) fn new(sink: &'a mut dyn FnMut(&str)) -> Self {
        let started = now();
        Self { sink, started, told: started, step: String::new(), series: (started, 0, 0) }
    }

    /// Names what goes on from here.
    pub(crate) fn step(&mut self, step: String) {
        self.step = step;
        self.tick();
    }

    /// From here on this many runs follow.
    pub(crate) fn expect(&mut self, runs: u32) {
        self.series = (now(), runs, 0);
    }

    /// One of them has ended.
    pub(crate) fn done(&mut self) {
        self.series.2 += 1;
    }

    /// Tells the step if nothing was told for a while.
    pub(crate) fn tick(&mut self) {
        let now = now();
        if now.duration_since(self.told) >= PROGRESS_EVERY {
            self.told = now;
            let seconds = now.duration_since(self.started).as_secs();
            let left =
                self.left(now).map_or(String::new(), |left| format!(", about {} s left", left.as_secs()));
            (self.sink)(&format!("determinism: {} ({seconds} s{left})", self.step));
        }
    }

    /// How long the rest of the series takes if it goes on as it did.
    fn left(&self, now: Instant) -> Option<Duration> {
        let (began, runs, done) = self.series;
        (done > 0).then(|| now.duration_since(began) / done * runs.saturating_sub(done))
    }

    /// How long a caller may wait before it should tick again.
    pub(crate) fn pause(&self) -> Duration {
        PROGRESS_EVERY
    }
}
