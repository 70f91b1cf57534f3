//! The client's pipes, read and written without ever waiting in the middle of it. Knows nothing about lines.
//!
//! Whether a file is non-blocking is a property that other processes share, a client's terminal for one: it is never changed
//! here. Pipes are opened once more instead, and what can't be is written in pieces that fit.

use super::outgoing::Outgoing;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::OwnedFd;

/// What a pipe that is ready takes without making its writer wait, by POSIX on Linux.
const PIECE_BYTES: usize = 4_096;

/// Standard input. Read only when `poll` says that there is something.
pub(super) struct Input(io::Stdin);

impl Input {
    pub(super) fn new() -> Self {
        Self(io::stdin())
    }

    pub(super) fn poll(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }

    /// Reads what is there; 0 at the end.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }
}

/// Standard output.
pub(super) struct Output {
    stdout: io::Stdout,
    way: Way,
}

enum Way {
    /// A pipe, opened once more.
    Own(OwnedFd),
    Socket,
    Pieces,
}

impl Output {
    pub(super) fn new() -> Self {
        let stdout = io::stdout();
        let way = match fstat(&stdout).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Fifo) => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                // Without /proc, or without the right to: in pieces.
                open("/proc/self/fd/1", flags, Mode::empty()).map_or(Way::Pieces, Way::Own)
            }
            Ok(FileType::Socket) => Way::Socket,
            _ => Way::Pieces,
        };
        Self { stdout, way }
    }

    pub(super) fn poll(&self) -> PollFd<'_> {
        match &self.way {
            Way::Own(pipe) => PollFd::new(pipe, PollFlags::OUT),
            Way::Socket | Way::Pieces => PollFd::new(&self.stdout, PollFlags::OUT),
        }
    }

    /// Writes as much as it takes now. What takes pieces takes one when `poll` has said so, and nothing else.
    pub(super) fn flush(&self, outgoing: &mut Outgoing, is_ready: bool) -> io::Result<()> {
        let mut turns = match &self.way {
            Way::Own(_) | Way::Socket => usize::MAX,
            Way::Pieces => usize::from(is_ready),
        };
        outgoing.write(|bytes| {
            turns = turns.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            Ok(match &self.way {
                Way::Own(pipe) => rustix::io::write(pipe, bytes)?,
                Way::Socket => send(&self.stdout, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?,
                Way::Pieces => rustix::io::write(&self.stdout, &bytes[..bytes.len().min(PIECE_BYTES)])?,
            })
        })
    }
}
