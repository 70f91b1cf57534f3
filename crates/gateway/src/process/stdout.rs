//! A server's standard output. What has been read of it stays in the pipe until more is asked for: if the daemon is killed
//! with an answer in its hands, the keeper finds that answer where it was.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;
use tokio::process::ChildStdout;

/// The reading end. Asking for more says that everything read before has been dealt with.
///
/// Of a line that comes in parts, as one longer than the pipe does, only the part read last is still in the pipe.
#[derive(Debug)]
pub(crate) struct ServerStdout {
    pipe: Receiver,
    /// Where the pipe's bytes are copied to, to be read without being taken out. Empty between two reads.
    copy: (OwnedFd, OwnedFd),
    /// So many bytes at the pipe's front have been read already.
    seen: usize,
}

impl ServerStdout {
    /// Takes a child's output.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(super) fn new(pipe: ChildStdout) -> io::Result<Self> {
        let copy = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { pipe: Receiver::from_owned_fd(pipe.into_owned_fd()?)?, copy, seen: 0 })
    }

    /// Takes out of the pipe what has been dealt with; `scrap` is written over.
    fn take_out(&mut self, scrap: &mut [u8]) -> io::Result<()> {
        while self.seen > 0 {
            let length = scrap.len().min(self.seen);
            match read(&self.pipe, &mut scrap[..length])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                taken => self.seen -= taken,
            }
        }
        Ok(())
    }

    /// Reads what is in the pipe, and leaves it there.
    fn look(pipe: &Receiver, (from, to): &(OwnedFd, OwnedFd), into: &mut [u8]) -> io::Result<usize> {
        let copied = uninterrupted(|| tee(pipe, to, into.len(), SpliceFlags::NONBLOCK))?;
        let mut got = 0;
        while got < copied {
            match read(from, &mut into[got..copied])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => got += n,
            }
        }
        Ok(got)
    }
}

impl AsyncRead for ServerStdout {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        this.take_out(into.initialize_unfilled())?;
        loop {
            ready!(this.pipe.poll_read_ready(context))?;
            let looked = this.pipe.try_io(|| Self::look(&this.pipe, &this.copy, into.initialize_unfilled()));
            match looked {
                Ok(seen) => this.seen = seen,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            into.advance(this.seen);
            return Poll::Ready(Ok(()));
        }
    }
}

fn read(from: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    uninterrupted(|| rustix::io::read(&from, &mut *into))
}

fn uninterrupted(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{Line, Lines};
    use std::process::Stdio;
    use tokio::process::{Child, Command};

    /// The output of a child that writes `script`'s words, and what its keeper would read.
    fn output(script: &str) -> (Child, Lines<ServerStdout>, Lines<Receiver>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let kept = Receiver::from_owned_fd(stdout.as_fd().try_clone_to_owned().unwrap());
        (child, Lines::new(ServerStdout::new(stdout).unwrap()), Lines::new(kept.unwrap()))
    }

    async fn next<R: AsyncRead + Unpin>(lines: &mut Lines<R>) -> Option<String> {
        match lines.next().await.unwrap() {
            Some(Line::Whole(line)) => Some(String::from_utf8(line).unwrap()),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_was_read_is_still_in_the_pipe_until_more_is_asked_for() {
        let (mut child, mut own, mut kept) = output("echo one; echo two");
        child.wait().await.unwrap();
        assert_eq!(next(&mut own).await.as_deref(), Some("one"));
        assert_eq!(next(&mut own).await.as_deref(), Some("two"));
        drop(own);
        assert_eq!(next(&mut kept).await.as_deref(), Some("one"), "its reader died with both in its hands");
        assert_eq!(next(&mut kept).await.as_deref(), Some("two"));
        assert_eq!(next(&mut kept).await, None);
    }

    #[tokio::test]
    async fn who_waits_for_more_leaves_nothing_behind() {
        let (mut child, mut own, mut kept) = output("echo one; read go; echo two");
        assert_eq!(next(&mut own).await.as_deref(), Some("one"));
        let waited = tokio::time::timeout(std::time::Duration::ZERO, own.next()).await;
        assert!(waited.is_err(), "{waited:?}");
        drop((own, child.stdin.take()));
        child.kill().await.unwrap();
        assert_eq!(next(&mut kept).await, None);
    }

    #[tokio::test]
    async fn lines_of_any_length_come_whole_and_in_order() {
        let (mut child, mut own, _kept) =
            output("for i in $(seq 10 10 300); do printf '%*d\\n' $((i * 1000)) $i; done");
        for i in (10..=300_usize).step_by(10) {
            let line = next(&mut own).await.unwrap();
            assert_eq!((line.len(), line.trim()), (i * 1_000, &*i.to_string()));
        }
        assert_eq!(next(&mut own).await, None);
        assert!(child.wait().await.unwrap().success());
    }
}
