//! A stream's connection to the daemon: a greeting, then lines both ways. Never waits, and decides nothing about requests.

use super::outgoing::Outgoing;
use crate::lines::{Cutter, Line};
use crate::marks::{self, LineMark};
use crate::wire::{Hello, MESSAGE, json_line};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, recvmsg, send, socket_with,
};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// One connection, from its hello to its end.
pub(super) struct Connection {
    socket: OwnedFd,
    lines: Cutter,
    to_daemon: Outgoing,
    /// Comes with the welcome.
    marks: Option<OwnedFd>,
    /// Messages sent on it so far.
    sent: u64,
}

impl Connection {
    /// Connects and begins to say hello.
    ///
    /// # Errors
    /// The socket's; also where so many wait for the daemon that it would have to wait.
    pub(super) fn open(socket: &Path, hello: &Hello) -> io::Result<Self> {
        let address = SocketAddrUnix::new(socket)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)?;
        let (lines, mut to_daemon) = (Cutter::new(), Outgoing::default());
        to_daemon.push(&json_line(hello));
        let mut connection = Self { socket, lines, to_daemon, marks: None, sent: 0 };
        connection.flush()?;
        Ok(connection)
    }

    /// What to wait for; the daemon's lines only where they are wanted.
    pub(super) fn poll(&self, is_read: bool) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, is_read);
        flags.set(PollFlags::OUT, self.is_behind());
        (!flags.is_empty()).then(|| PollFd::new(&self.socket, flags))
    }

    /// Whether the daemon has yet to take what it was told before.
    pub(super) fn is_behind(&self) -> bool {
        !self.to_daemon.is_empty()
    }

    /// Takes a message for the daemon; says which of this connection it is, counted from 1.
    pub(super) fn send(&mut self, message: &[u8]) -> u64 {
        self.to_daemon.push(&[MESSAGE]);
        self.to_daemon.push(message);
        self.to_daemon.push(b"\n");
        self.sent += 1;
        self.sent
    }

    /// Writes what the daemon takes now.
    ///
    /// # Errors
    /// It takes nothing more. What it said before that is still to be read.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Self { socket, to_daemon, .. } = self;
        to_daemon.write(|bytes| Ok(send(&*socket, bytes, SendFlags::NOSIGNAL)?))
    }

    /// Drops what the daemon has not taken.
    pub(super) fn forget_unwritten(&mut self) {
        self.to_daemon = Outgoing::default();
    }

    /// Reads once; `false` when there will never be anything more.
    pub(super) fn fill(&mut self) -> bool {
        let read = match self.marks {
            None => self.receive(),
            Some(_) => recv(&self.socket, self.lines.room(), RecvFlags::empty())
                .map(|(n, _)| n)
                .map_err(io::Error::from),
        };
        match read {
            Ok(0) => false,
            Ok(n) => {
                self.lines.filled(n);
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// Reads a part of the greeting, and the file that comes with it.
    fn receive(&mut self) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(self.lines.room())];
        let n = recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.marks = files.last().or(self.marks.take());
            }
        }
        Ok(n)
    }

    /// The next line of what was read.
    pub(super) fn next(&mut self) -> Option<Line> {
        self.lines.next()
    }

    /// Whether the file with the marks has come.
    pub(super) fn has_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// What the daemon has begun to forward of the messages sent here.
    ///
    /// # Errors
    /// It can't be told: everything that was sent may have been.
    pub(super) fn marks(&self) -> io::Result<BTreeMap<u64, LineMark>> {
        self.marks.as_ref().map_or_else(|| Ok(BTreeMap::new()), marks::read)
    }
}
