//! A descriptor for one incarnation of a process: what is done through it never hits a successor of its pid.

use crate::{HostError, stat_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// A process, held by descriptor. Readable once the process has ended (a zombie has).
#[derive(Debug)]
pub struct Pidfd {
    fd: OwnedFd,
    pid: u32,
}

impl Pidfd {
    /// Opens the process that has `pid` and was started at `start_ticks`.
    ///
    /// # Errors
    /// [`HostError::Gone`] when that incarnation is no more, [`HostError::Call`] when the kernel refuses.
    pub fn open(pid: u32, start_ticks: u64) -> Result<Self, HostError> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(HostError::Gone { pid })?;
        let fd = match pidfd_open(raw, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Err(HostError::Gone { pid }),
            Err(e) => return Err(HostError::Call { call: "pidfd_open", pid, source: e.into() }),
        };
        // Looked at after opening: whoever has the pid now is who the descriptor stands for.
        if stat_of(pid)?.start_ticks == start_ticks {
            Ok(Self { fd, pid })
        } else {
            Err(HostError::Gone { pid })
        }
    }

    /// Whether the process has ended.
    ///
    /// # Errors
    /// [`HostError::Call`] when it can't be asked.
    pub fn has_exited(&self) -> Result<bool, HostError> {
        self.wait(Duration::ZERO)
    }

    /// Blocks until the process has ended, at most `limit`; says whether it has.
    ///
    /// # Errors
    /// [`HostError::Call`] when it can't be asked.
    pub fn wait(&self, limit: Duration) -> Result<bool, HostError> {
        let limit = Timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            // A signal cut the wait short: as good as its limit, callers ask again.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(HostError::Call { call: "poll", pid: self.pid, source: e.into() }),
        }
    }

    /// Sends a signal; one that has ended already is fine.
    ///
    /// # Errors
    /// [`HostError::Call`] when the kernel refuses.
    pub fn signal(&self, signal: Signal) -> Result<(), HostError> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => {
                Err(HostError::Call { call: "pidfd_send_signal", pid: self.pid, source: io::Error::from(e) })
            }
        }
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Pidfd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
