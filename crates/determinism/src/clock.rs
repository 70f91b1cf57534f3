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
}

impl<'a> Progress<'a> {
    pub(crate) fn new(sink: &'a mut dyn FnMut(&str)) -> Self {
        let started = now();
        Self { sink, started, told: started, step: String::new() }
    }

    /// Names what goes on from here.
    pub(crate) fn step(&mut self, step: String) {
        self.step = step;
        self.tick();
    }

    /// Tells the step if nothing was told for a while.
    pub(crate) fn tick(&mut self) {
        let now = now();
        if now.duration_since(self.told) >= PROGRESS_EVERY {
            self.told = now;
            let seconds = now.duration_since(self.started).as_secs();
            (self.sink)(&format!("determinism: {} ({seconds} s)", self.step));
        }
    }

    /// How long a caller may wait before it should tick again.
    pub(crate) fn pause(&self) -> Duration {
        PROGRESS_EVERY
    }

    /// Since the check began.
    pub(crate) fn elapsed(&self) -> Duration {
        now().duration_since(self.started)
    }
}
