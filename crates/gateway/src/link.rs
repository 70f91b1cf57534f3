//! A connection to the daemon's socket, as commands and shims have it: hello, welcome, then lines either way.

use crate::api::{Failure, Reply, Request};
use crate::lines::{Line, Lines};
use crate::wire::{Hello, Welcome, json_line};
use serde_json::Value;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// A daemon that doesn't answer a hello for this long is stopped or stuck: a busy one answers in far less.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// A daemon that says nothing to a request for this long is stopped or stuck: what takes longest is a large program that is
/// hashed or a large journal that is rewritten, and who waits for an operation is told of it every few seconds.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection on which the daemon has answered the hello.
pub(crate) struct Link {
    pub(crate) lines: Lines<OwnedReadHalf>,
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) welcome: Welcome,
}

impl Link {
    /// Connects and says hello.
    ///
    /// # Errors
    /// The socket's error; [`io::ErrorKind::UnexpectedEof`] when the daemon ends instead of answering,
    /// [`io::ErrorKind::TimedOut`] when it says nothing for [`HELLO_TIMEOUT`].
    pub(crate) async fn connect(socket: &Path, hello: &Hello) -> io::Result<Self> {
        Self::connect_within(HELLO_TIMEOUT, socket, hello).await
    }

    async fn connect_within(limit: Duration, socket: &Path, hello: &Hello) -> io::Result<Self> {
        within(limit, Self::greet(socket, hello)).await
    }

    async fn greet(socket: &Path, hello: &Hello) -> io::Result<Self> {
        let (reader, mut writer) = UnixStream::connect(socket).await?.into_split();
        writer.write_all(&json_line(hello)).await?;
        let mut lines = Lines::new(reader);
        let welcome = serde_json::from_slice(&whole(&mut lines).await?).map_err(io::Error::other)?;
        Ok(Self { lines, writer, welcome })
    }

    /// Asks, shows progress, and returns the answer.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the request was carried out; the connection can't be used again.
    ///
    /// # Errors
    /// The connection's error, [`io::ErrorKind::TimedOut`] when the daemon says nothing for [`ANSWER_TIMEOUT`]: what was
    /// asked may or may not have been done.
    pub(crate) async fn ask(
        &mut self,
        request: &Request,
        progress: impl FnMut(&Value),
    ) -> io::Result<Result<Value, Failure>> {
        self.ask_within(ANSWER_TIMEOUT, request, progress).await
    }

    async fn ask_within(
        &mut self,
        limit: Duration,
        request: &Request,
        mut progress: impl FnMut(&Value),
    ) -> io::Result<Result<Value, Failure>> {
        within(limit, self.writer.write_all(&json_line(request))).await?;
        loop {
            let line = within(limit, whole(&mut self.lines)).await?;
            match serde_json::from_slice(&line).map_err(io::Error::other)? {
                Reply::Progress(value) => progress(&value),
                Reply::Done(document) => return Ok(Ok(document)),
                Reply::Failed(failure) => return Ok(Err(failure)),
            }
        }
    }

    /// Whether the daemon has closed an idle connection.
    pub(crate) fn is_closed(&self) -> bool {
        match self.lines.get_ref().try_read(&mut [0u8; 1]) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(_) => true, // the end, or something that nobody asked for
        }
    }
}

async fn within<T>(limit: Duration, it: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, it).await.unwrap_or_else(|_| {
        let said = format!("it has said nothing for {} s", limit.as_secs_f32());
        Err(io::Error::new(io::ErrorKind::TimedOut, said))
    })
}

async fn whole(lines: &mut Lines<OwnedReadHalf>) -> io::Result<Vec<u8>> {
    match lines.next().await? {
        Some(Line::Whole(line)) => Ok(line),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Role, WIRE_VERSION};

    #[tokio::test]
    async fn a_daemon_that_accepts_and_says_nothing_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("silent.sock");
        let _silent = tokio::net::UnixListener::bind(&socket).unwrap();
        let hello = Hello { wire: WIRE_VERSION, token: None, role: Role::Command };
        let error = Link::connect_within(Duration::from_millis(100), &socket, &hello).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "it has said nothing for 0.1 s");
    }

    #[tokio::test]
    async fn so_is_one_that_has_welcomed_and_then_says_nothing_and_not_one_that_tells_how_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("wedged.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let hello = Hello { wire: WIRE_VERSION, token: None, role: Role::Command };
        let limit = Duration::from_millis(100);
        let welcome = async {
            let (mut daemon, _) = listener.accept().await.unwrap();
            daemon.write_all(&json_line(&Welcome::Open { session: None, notice: None })).await.unwrap();
            daemon
        };
        let (link, mut daemon) = tokio::join!(Link::connect(&socket, &hello), welcome);
        let mut link = link.ok().unwrap();
        let mut told = 0;
        daemon.write_all(&json_line(&Reply::Progress(1.into()))).await.unwrap();
        let error = link.ask_within(limit, &Request::Status, |_| told += 1).await.unwrap_err();
        assert_eq!((told, error.kind()), (1, io::ErrorKind::TimedOut));
    }
}
