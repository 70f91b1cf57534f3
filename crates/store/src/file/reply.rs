//! One answer from the writer thread to one future, whatever executor polls it.

use crate::sync::{Arc, Mutex, PoisonError};
use event_listener::Event;

/// The side that answers. Dropped without an answer, it says so.
#[derive(Debug)]
pub(super) struct Reply<T>(Arc<Slot<T>>);

/// The side that waits.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Slot<T>>);

#[derive(Debug)]
struct Slot<T> {
    state: Mutex<State<T>>,
    told: Event,
}

#[derive(Debug)]
enum State<T> {
    Waiting,
    Answered(T),
    Gone,
}

pub(super) fn reply<T>() -> (Reply<T>, Answer<T>) {
    let slot = Arc::new(Slot { state: Mutex::new(State::Waiting), told: Event::new() });
    (Reply(slot.clone()), Answer(slot))
}

impl<T> Reply<T> {
    pub(super) fn send(self, value: T) {
        self.0.set(State::Answered(value));
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.0.set(State::Gone);
    }
}

impl<T> Answer<T> {
    /// The answer, or `None` when none will come.
    pub(super) async fn wait(self) -> Option<T> {
        loop {
            let listener = self.0.told.listen();
            match self.0.take() {
                State::Waiting => listener.await,
                State::Answered(value) => return Some(value),
                State::Gone => return None,
            }
        }
    }
}

impl<T> Slot<T> {
    /// The first state set counts.
    fn set(&self, next: State<T>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Waiting) {
            *state = next;
            self.told.notify(usize::MAX);
        }
    }

    fn take(&self) -> State<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Waiting => State::Waiting,
            _ => std::mem::replace(&mut *state, State::Gone),
        }
    }
}
