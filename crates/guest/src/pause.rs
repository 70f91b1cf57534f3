//! A pause in the middle of a task: the program that a task runs to ask for it, and what process 1 does about it.
//!
//! The two speak through named pipes in the task's `/dev`, so that it doesn't matter in which root they see them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::mount::mount_bind;
use tidegate_guest::{PAUSE, Request, Status};

use crate::exchange::Exchange;
use crate::machine::ROOT;
use crate::schedule;
use crate::session::{OWN_BINARY, prepare};

/// A task asks here.
const ASKED: &str = "/dev/tidegate-paused";
/// And waits here.
const RESUMED: &str = "/dev/tidegate-resumed";
/// What goes through the pipes says nothing by itself.
const WORD: [u8; 1] = *b".";

/// The side of process 1.
#[derive(Debug)]
pub(crate) struct Pause<'a> {
    exchange: &'a Exchange,
    last: u32,
    asked: File,
    resumed: File,
}

impl<'a> Pause<'a> {
    /// Puts the program where tasks find it.
    pub(crate) fn new(exchange: &'a Exchange, last: u32) -> io::Result<Self> {
        let program = format!("{ROOT}{PAUSE}");
        File::create(&program)?;
        mount_bind(OWN_BINARY, &program)?;
        Ok(Self { exchange, last, asked: pipe(ASKED)?, resumed: pipe(RESUMED)? })
    }

    /// Readable when a task asks for a pause.
    pub(crate) fn asked(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }

    /// Waits for the next request and does what it says of the machine.
    pub(crate) fn until_next(&mut self) -> io::Result<Request> {
        self.asked.read_exact(&mut [0; WORD.len()])?;
        let next = self.exchange.request(Status::Paused, Some(self.last))?;
        self.last = next.number;
        prepare(&next)?;
        schedule::forget()?;
        Ok(next)
    }

    /// Lets the task go on.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.resumed.write_all(&WORD)
    }
}

/// A pipe that is never without a reader or a writer.
fn pipe(name: &str) -> io::Result<File> {
    let path = format!("{ROOT}{name}");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH)?;
    // Past the mask: the subject may be any user.
    rustix::fs::chmod(&path, Mode::from_raw_mode(0o666))?;
    OpenOptions::new().read(true).write(true).open(path)
}

/// The side of the program: returns when the machine goes on.
pub(crate) fn ask() -> io::Result<()> {
    File::options().write(true).open(ASKED)?.write_all(&WORD)?;
    File::open(RESUMED)?.read_exact(&mut [0; WORD.len()])
}
