//! A queue from several senders to one receiver: a pipe, a mailbox, an answer. What was sent before the last sender went
//! is still received, as from a pipe.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

struct Pipe<T> {
    queue: VecDeque<T>,
    senders: usize,
    receiver: bool,
    waker: Option<Waker>,
}

type Shared<T> = Arc<Mutex<Pipe<T>>>;

fn lock<T>(pipe: &Shared<T>) -> MutexGuard<'_, Pipe<T>> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end that is written to.
pub(crate) struct Sender<T>(Shared<T>);

/// The end that is read.
pub(crate) struct Receiver<T>(Shared<T>);

/// A fresh queue.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let pipe = Arc::new(Mutex::new(Pipe { queue: VecDeque::new(), senders: 1, receiver: true, waker: None }));
    (Sender(pipe.clone()), Receiver(pipe))
}

impl<T> Sender<T> {
    /// Puts one in; `false` when nobody will ever read it.
    pub(crate) fn send(&self, item: T) -> bool {
        let mut pipe = lock(&self.0);
        if !pipe.receiver {
            drop(pipe);
            drop(item); // outside the lock: it may own an end of another queue
            return false;
        }
        pipe.queue.push_back(item);
        let waker = pipe.waker.take();
        drop(pipe);
        waker.into_iter().for_each(Waker::wake);
        true
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.0).senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.senders -= 1;
        let waker = if pipe.senders == 0 { pipe.waker.take() } else { None };
        drop(pipe);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` when there is none and nobody is left to send one.
    ///
    /// # Cancel safety
    /// Dropping the future takes nothing out.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| {
            let mut pipe = lock(&self.0);
            match pipe.queue.pop_front() {
                Some(item) => Poll::Ready(Some(item)),
                None if pipe.senders == 0 => Poll::Ready(None),
                None => {
                    pipe.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.receiver = false;
        let unread = std::mem::take(&mut pipe.queue);
        drop(pipe);
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollster::block_on;

    #[test]
    fn what_was_sent_is_received_after_the_last_sender_has_gone_and_then_the_end() {
        let (sender, mut receiver) = channel();
        let second = sender.clone();
        assert!(sender.send(1) && second.send(2));
        drop((sender, second));
        assert_eq!(block_on(receiver.recv()), Some(1));
        assert_eq!(block_on(receiver.recv()), Some(2));
        assert_eq!(block_on(receiver.recv()), None);
    }

    #[test]
    fn nothing_is_sent_to_nobody() {
        let (sender, receiver) = channel();
        drop(receiver);
        assert!(!sender.send(1));
    }
}
