//! The way out to one connection: written at once where the socket takes it, else queued, within bounds.
//!
//! A client that stops reading slows only itself: its backlog is bounded, and its own requests are not read while there is
//! one. Nothing here knows what a line means.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, mpsc, watch};

/// The most bytes that wait for a client that doesn't read. Beyond it the connection is cut: two of the largest
/// messages, far more than any burst of notifications.
const MAX_BACKLOG_BYTES: usize = 2 * crate::lines::MAX_LINE_BYTES;

/// The connection is gone, or its backlog is over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

struct Shared {
    half: OwnedWriteHalf,
    backlog: AtomicUsize,
    drained: Notify,
    cut: watch::Sender<bool>,
}

/// Writes frames to one connection. One task sends; clones may wait for the backlog.
#[derive(Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Vec<u8>>,
}

impl Outbox {
    /// Takes a connection's writing half; a task of its own writes what doesn't go out at once.
    pub(crate) fn new(half: OwnedWriteHalf) -> Self {
        let shared = Arc::new(Shared {
            half,
            backlog: AtomicUsize::new(0),
            drained: Notify::new(),
            cut: watch::Sender::new(false),
        });
        // Bounded by MAX_BACKLOG_BYTES, in bytes, which a bounded channel can't.
        let (queue, waiting) = mpsc::unbounded_channel();
        tokio::spawn(write_backlog(shared.clone(), waiting));
        Self { shared, queue }
    }

    /// Sends a frame, or queues it behind what waits.
    pub(crate) fn send(&self, frame: Vec<u8>) -> Result<(), Cut> {
        let mut rest = frame;
        if self.shared.backlog.load(Ordering::Acquire) == 0 {
            match self.shared.half.try_write(&rest) {
                Ok(written) if written == rest.len() => return Ok(()),
                Ok(written) => drop(rest.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Cut),
            }
        }
        let backlog = self.shared.backlog.fetch_add(rest.len(), Ordering::AcqRel) + rest.len();
        if backlog > MAX_BACKLOG_BYTES {
            return Err(Cut);
        }
        self.queue.send(rest).map_err(|_| Cut)
    }

    /// Ends the connection: what waits is dropped, and both sides see the end.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_replace(true);
    }

    /// Waits until the connection is cut.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub(crate) async fn is_cut(&self) {
        self.shared.is_cut().await;
    }

    /// Waits until everything sent so far is in the kernel's hands, or the connection is gone.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub(crate) async fn drained(&self) {
        loop {
            let told = self.shared.drained.notified();
            if self.is_drained() || self.queue.is_closed() {
                return;
            }
            told.await;
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_drained(&self) -> bool {
        self.shared.backlog.load(Ordering::Acquire) == 0
    }
}

impl Shared {
    async fn is_cut(&self) {
        // An error: the sender is gone, and it is here.
        let _ = self.cut.subscribe().wait_for(|cut| *cut).await;
    }
}

async fn write_backlog(shared: Arc<Shared>, mut waiting: mpsc::UnboundedReceiver<Vec<u8>>) {
    'lines: while let Some(line) = waiting.recv().await {
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match shared.half.try_write(rest) {
                Ok(0) => break 'lines,
                Ok(written) => {
                    rest = &rest[written..];
                    if shared.backlog.fetch_sub(written, Ordering::AcqRel) == written {
                        shared.drained.notify_waiters();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let writable = tokio::select! {
                        writable = shared.half.writable() => writable.is_ok(),
                        () = shared.is_cut() => false,
                    };
                    if !writable {
                        break 'lines;
                    }
                }
                Err(_) => break 'lines,
            }
        }
    }
    waiting.close();
    shared.drained.notify_waiters();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn a_client_that_does_not_read_gets_everything_later_and_in_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(ours.into_split().1);
        let lines: Vec<Vec<u8>> = (0..200u32).map(|n| vec![u8::try_from(n).unwrap(); 8_192]).collect();
        for line in &lines {
            outbox.send(line.clone()).unwrap();
        }
        assert!(!outbox.is_drained());
        let mut read = vec![0; 200 * 8_192];
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(read, lines.concat());
        outbox.drained().await;
        assert!(outbox.is_drained());
    }

    #[tokio::test]
    async fn a_backlog_over_the_limit_cuts_the_connection() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(ours.into_split().1);
        let line = vec![b'x'; 1 << 20];
        let sent = (0..64).take_while(|_| outbox.send(line.clone()).is_ok()).count();
        assert!((30..40).contains(&sent), "{sent}");
    }

    #[tokio::test]
    async fn a_cut_connection_ends_at_both_sides_whatever_waits() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(ours.into_split().1);
        while outbox.is_drained() {
            outbox.send(vec![0; 65_536]).unwrap();
        }
        outbox.cut();
        outbox.is_cut().await;
        outbox.drained().await;
        drop(outbox);
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.unwrap();
    }

    #[tokio::test]
    async fn nobody_waits_for_a_connection_that_is_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(ours.into_split().1);
        while outbox.is_drained() {
            outbox.send(vec![0; 65_536]).unwrap();
        }
        drop(theirs);
        outbox.drained().await;
        assert_eq!(outbox.send(vec![0]), Err(Cut));
    }
}
