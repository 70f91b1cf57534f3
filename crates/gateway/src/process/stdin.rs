//! A server's standard input: whole lines, or an error; closable from outside while a write is stuck.

use std::io;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::process::ChildStdin;
use tokio::sync::{Mutex, watch};

/// A line that was not written, or not wholly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WriteError {
    /// The input was closed, because the server is being stopped.
    #[error("the server's standard input is closed: it is being stopped")]
    Closed,
    /// An earlier write was given up in the middle of a line; anything more would be read as part of it.
    #[error("an earlier line was written in part: the server has to be restarted")]
    Torn,
    /// The pipe failed: the server is gone.
    #[error("the server does not read any more, {taken} bytes into the line")]
    Pipe {
        /// How much of the line the pipe took. With 0 the server has surely read nothing of it.
        taken: usize,
        /// What the pipe says.
        source: io::Error,
    },
}

impl WriteError {
    /// Whether it is sure that the server has read nothing of the line.
    pub(crate) fn took_nothing(&self) -> bool {
        matches!(self, Self::Pipe { taken: 0, .. })
    }
}

#[derive(Debug)]
struct State {
    pipe: Option<Sender>,
    torn: bool,
}

/// Writes lines. Clones write to the same pipe, one whole line at a time.
#[derive(Debug, Clone)]
pub(crate) struct ServerStdin {
    state: Arc<Mutex<State>>,
    closing: Arc<watch::Sender<bool>>,
}

impl ServerStdin {
    /// Takes a child's input.
    ///
    /// # Errors
    /// When it can't be waited for as a pipe is.
    pub(super) fn new(pipe: ChildStdin) -> io::Result<Self> {
        // As a pipe, it can be written to without being waited for.
        let pipe = Sender::from_owned_fd(pipe.into_owned_fd()?)?;
        let state = Arc::new(Mutex::new(State { pipe: Some(pipe), torn: false }));
        Ok(Self { state, closing: Arc::new(watch::Sender::new(false)) })
    }

    /// Writes what the pipe takes of a line now, and says how many bytes that is. Of a line that it took in part the rest has to
    /// follow by [`Self::write_rest`], before anything else.
    pub(crate) fn try_write(&self, line: &[u8]) -> usize {
        let Ok(mut state) = self.state.try_lock() else { return 0 };
        let State { pipe: Some(pipe), torn: false } = &*state else { return 0 };
        let taken = if *self.closing.borrow() { 0 } else { pipe.try_write(line).unwrap_or(0) };
        state.torn = (1..line.len()).contains(&taken);
        taken
    }

    /// Writes one line; a 0x0A is added where there is none at its end.
    ///
    /// Waits as long as the server doesn't read and [`Self::close`] isn't called.
    ///
    /// # Cancel safety
    /// Not safe once it has begun to write: the pipe then refuses every later line as [`WriteError::Torn`].
    ///
    /// # Errors
    /// [`WriteError`]; unless it says that the pipe took nothing, the server may have read a part of the line.
    pub(crate) async fn write_line(&self, line: &[u8]) -> Result<(), WriteError> {
        self.write_rest(line, 0).await
    }

    /// As [`Self::write_line`], for a line of which the pipe has already `taken` so many bytes.
    ///
    /// # Cancel safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn write_rest(&self, line: &[u8], taken: usize) -> Result<(), WriteError> {
        let mut closing = self.closing.subscribe();
        let mut state = self.state.lock().await;
        let State { pipe, torn } = &mut *state;
        let pipe = pipe.as_mut().ok_or(WriteError::Closed)?;
        if std::mem::replace(torn, true) && taken == 0 {
            return Err(WriteError::Torn);
        }
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return Err(WriteError::Closed),
            written = write(pipe, line, taken) => written?,
        }
        *torn = false;
        Ok(())
    }

    /// Closes the pipe, so that the server sees the end of its input. A write under way is given up.
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        self.state.lock().await.pipe = None;
    }
}

async fn write(pipe: &mut Sender, line: &[u8], mut taken: usize) -> Result<(), WriteError> {
    let end: &[u8] = if line.last() == Some(&b'\n') { b"" } else { b"\n" };
    for mut rest in [line.get(taken..).unwrap_or_default(), end] {
        while !rest.is_empty() {
            let written = match pipe.write(rest).await {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                other => other,
            };
            let written = written.map_err(|source| WriteError::Pipe { taken, source })?;
            taken += written;
            rest = &rest[written..];
        }
    }
    pipe.flush().await.map_err(|source| WriteError::Pipe { taken, source })
}
