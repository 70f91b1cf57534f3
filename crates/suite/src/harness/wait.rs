//! Waiting for conditions, and the time that tests measure. Nothing here waits for time alone.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How long a condition may take to come true on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
pub const GLANCE: Duration = Duration::from_millis(2);

/// Measures how long something takes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Duration,
}

impl Stopwatch {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        Self { started: monotonic() }
    }

    /// The time since.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.started)
    }
}

fn monotonic() -> Duration {
    let t = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// Waits until the condition holds.
///
/// # Panics
/// After [`PATIENCE`], with `what` never came true.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    until(what, || condition().then_some(()));
}

/// Waits until there is something, and gives it.
///
/// # Panics
/// After [`PATIENCE`], with `what` never came true.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(watch.elapsed() < PATIENCE, "never came true within {PATIENCE:?}: {what}");
        std::thread::park_timeout(GLANCE);
    }
}
