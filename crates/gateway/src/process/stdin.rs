//! A server's standard input: whole lines, or an error; closable from outside while a write is stuck.

use std::io;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
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
    pipe: Option<ChildStdin>,
    torn: bool,
}

/// Writes lines. Clones write to the same pipe, one whole line at a time.
#[derive(Debug, Clone)]
pub(crate) struct ServerStdin {
    state: Arc<Mutex<State>>,
    closing: Arc<watch::Sender<bool>>,
}

impl ServerStdin {
    pub(super) fn new(pipe: ChildStdin) -> Self {
        let state = Arc::new(Mutex::new(State { pipe: Some(pipe), torn: false }));
        Self { state, closing: Arc::new(watch::Sender::new(false)) }
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
        let mut closing = self.closing.subscribe();
        let mut state = self.state.lock().await;
        let State { pipe, torn } = &mut *state;
        let pipe = pipe.as_mut().ok_or(WriteError::Closed)?;
        if std::mem::replace(torn, true) {
            return Err(WriteError::Torn);
        }
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => return Err(WriteError::Closed),
            written = write(pipe, line) => written?,
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

async fn write(pipe: &mut ChildStdin, line: &[u8]) -> Result<(), WriteError> {
    let end: &[u8] = if line.last() == Some(&b'\n') { b"" } else { b"\n" };
    let mut taken = 0;
    for mut rest in [line, end] {
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
