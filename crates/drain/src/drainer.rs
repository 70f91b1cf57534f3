//! Waits at closed gates for the verdict. Runtime-agnostic: time and waiting come in; it writes and reopens nothing.

use crate::{Gate, Holder, Verdict, verdict};
use event_listener::EventListener;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use tidegate_core::planted::is_planted;
use tidegate_core::{BoxFuture, Clock, Deadline, Timer};

/// How often progress is told while nothing changes: often enough that a person sees the ages grow.
pub const PROGRESS_EVERY_MS: u64 = 1_000;

/// A drain under way: closed gates and a recorded deadline.
pub struct Drainer<'a> {
    /// The gates of every component in the scope, closed.
    pub gates: &'a [Gate],
    /// The deadline recorded when the drain began, whatever the configuration says since.
    pub deadline: Deadline,
    /// Reads the time.
    pub clock: &'a dyn Clock,
    /// Waits.
    pub timer: &'a dyn Timer,
}

impl Drainer<'_> {
    /// Waits until the drain is decided; never returns [`Verdict::Wait`]. `progress` is told the holders at the
    /// beginning, at every change and every [`PROGRESS_EVERY_MS`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the waiting and leaves the gates as they are.
    pub async fn run(&self, mut progress: impl FnMut(&[Holder])) -> Verdict {
        loop {
            let changes: Vec<EventListener> = self.gates.iter().map(Gate::changed).collect();
            let now = self.clock.now();
            let holders: Vec<Holder> = self.gates.iter().flat_map(|gate| gate.holders(&now)).collect();
            let early = is_planted("every-look-is-the-deadline")
                && holders.iter().any(|h| h.age_ms >= PROGRESS_EVERY_MS);
            match verdict(&holders, early || self.deadline.passed(&now)) {
                Verdict::Wait => progress(&holders),
                decided => return decided,
            }
            let wake_ms = self.deadline.at_ms.min(now.boot_ms.saturating_add(PROGRESS_EVERY_MS));
            first(changes, self.timer.sleep_until(wake_ms)).await;
        }
    }
}

/// Completes with the first of the changes or the alarm.
async fn first(mut changes: Vec<EventListener>, mut alarm: BoxFuture<'static, ()>) {
    poll_fn(|context| {
        let changed = changes.iter_mut().any(|change| Pin::new(change).poll(context).is_ready());
        if changed || alarm.as_mut().poll(context).is_ready() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
