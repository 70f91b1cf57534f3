//! The queue of requests that wait for an open gate and a server: bounded, in order. Holds numbers, not requests.

use std::collections::VecDeque;
use std::time::Duration;

/// The most requests held for one component. Sessions make a handful of calls at a time; a thousand waiting is an
/// outage that callers should hear of.
pub const MAX_HELD: usize = 1_024;

/// The most bytes of requests held for one component.
pub const MAX_HELD_BYTES: usize = 32 << 20;

/// How long a call is held by default: below the 60 s after which the SDKs' clients give up by themselves.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(45);

#[derive(Default)]
pub(crate) struct HoldQueue {
    queue: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl HoldQueue {
    /// Puts a request at the end; `false` when there is no room for it.
    pub(crate) fn push(&mut self, number: u64, bytes: usize) -> bool {
        let room = self.queue.len() < MAX_HELD && self.bytes + bytes <= MAX_HELD_BYTES;
        if room {
            self.queue.push_back((number, bytes));
            self.bytes += bytes;
        }
        room
    }

    /// Puts a request that was in flight before all others. Always: it had a place already, in the gate's count.
    pub(crate) fn push_first(&mut self, number: u64, bytes: usize) {
        self.queue.push_front((number, bytes));
        self.bytes += bytes;
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.queue.front().map(|(number, _)| *number)
    }

    pub(crate) fn remove(&mut self, number: u64) {
        if let Some(at) = self.queue.iter().position(|(held, _)| *held == number)
            && let Some((_, bytes)) = self.queue.remove(at)
        {
            self.bytes -= bytes;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
