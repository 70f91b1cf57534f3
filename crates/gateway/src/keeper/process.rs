//! The keeper's own process. Blocking and idle while the daemon lives; a reader of the server's pipes after that.
//!
//! Its standard streams are the daemon's ends of the server's pipes: input is the server's output, output is the server's
//! input, error is the server's standard error. It must never write anything else to them.

use super::table::{self, Slot, Stand};
use crate::lines::{Line, Lines};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_host::{HostError, Pidfd};
use tidegate_relay::{Heard, Late, salvage_id};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};

/// The hidden subcommand. It is not part of the command line's contract.
pub(super) const KEEP_ARG: &str = "__keep";
/// Late answers are the owner's alone.
const FILE_MODE: u32 = 0o600;
/// One read of a standard error that nobody listens to any more.
const STDERR_CHUNK_BYTES: usize = 8 << 10;

/// What a keeper is told on its command line.
struct Charge {
    daemon: (u32, u64),
    server: (u32, u64),
    calls: PathBuf,
    answers: PathBuf,
}

impl Charge {
    fn from_args(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
        let (daemon, daemon_start) = (u32::try_from(number()?).ok()?, number()?);
        let (server, server_start) = (u32::try_from(number()?).ok()?, number()?);
        let (calls, answers) = (args.next()?.into(), args.next()?.into());
        Some(Self { daemon: (daemon, daemon_start), server: (server, server_start), calls, answers })
    }
}

/// Runs the keeper if this process was started as one; to be called first thing in `main`.
pub(crate) fn keep_main() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != KEEP_ARG {
        return None;
    }
    let Some(charge) = Charge::from_args(args) else { return Some(ExitCode::FAILURE) };
    let kept = match outlived(&charge) {
        Ok(true) => keep(&charge),
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    // Nobody listens: what it could do is in the files.
    Some(if kept.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for the end of daemon or server; whether the daemon ended and the server may live.
fn outlived(charge: &Charge) -> io::Result<bool> {
    let open = |(pid, start_ticks)| match Pidfd::open(pid, start_ticks) {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(HostError::Gone { .. }) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    };
    let (Some(server), Some(daemon)) = (open(charge.server)?, open(charge.daemon)?) else {
        return Ok(open(charge.daemon)?.is_none());
    };
    let mut fds = [PollFd::new(&daemon, PollFlags::IN), PollFd::new(&server, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Ok(_) if !fds[0].revents().is_empty() => return Ok(true),
            Ok(_) if !fds[1].revents().is_empty() => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn keep(charge: &Charge) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let output = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        let input = Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
        let noise = Receiver::from_owned_fd(io::stderr().as_fd().try_clone_to_owned()?)?;
        tokio::spawn(drain(noise));
        let slots = table::read(&charge.calls)?;
        let slots: Vec<Slot> = slots.into_iter().filter(|slot| slot.stand == Stand::Whole).collect();
        let late = Late::new(slots.iter().map(|slot| slot.id));
        Keeping { charge, late, slots, file: None, input: Some(input) }.listen(Lines::new(output)).await
    })
}

/// A server must not be stopped by a full pipe that nobody reads.
async fn drain(mut noise: Receiver) {
    let mut chunk = [0; STDERR_CHUNK_BYTES];
    while let Ok(1..) = noise.read(&mut chunk).await {}
}

/// What is still waited for.
struct Keeping<'a> {
    charge: &'a Charge,
    late: Late,
    /// Where the calls stand in the table.
    slots: Vec<Slot>,
    file: Option<File>,
    /// Gone once something was written in part.
    input: Option<Sender>,
}

impl Keeping<'_> {
    /// Reads until the last call that the server has got is answered, or nothing more can come.
    async fn listen(mut self, mut output: Lines<Receiver>) -> io::Result<()> {
        while !self.late.is_over() {
            match output.next().await? {
                Some(Line::Whole(line)) => self.heard(&line)?,
                Some(Line::TooLong { bytes, head, tail }) => {
                    let Some(id) = salvage_id(&head, &tail).and_then(|id| id.as_number()) else { continue };
                    let text = format!("the server's answer is not passed on: it has {bytes} bytes");
                    let error = serde_json::json!({ "jsonrpc": "2.0", "id": id,
                        "error": { "code": -32_603, "message": text } });
                    self.heard(error.to_string().as_bytes())?;
                }
                Some(Line::Torn { .. }) | None => break,
            }
        }
        Ok(())
    }

    fn heard(&mut self, line: &[u8]) -> io::Result<()> {
        match self.late.heard(line) {
            Heard::Answer(id) => self.answered(id, line),
            Heard::Question(declined) => {
                self.decline(declined);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The answer is on disk before the call stops counting as running.
    fn answered(&mut self, id: u64, line: &[u8]) -> io::Result<()> {
        let Some(at) = self.slots.iter().position(|slot| slot.id == id) else { return Ok(()) };
        let slot = self.slots.swap_remove(at);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.charge.answers)?),
        };
        file.write_all(&[line, b"\n"].concat())?;
        file.sync_data()?;
        table::free(&self.charge.calls, slot)
    }

    /// Nobody is there to answer the server's question.
    fn decline(&mut self, mut line: Vec<u8>) {
        line.push(b'\n');
        // Without waiting: a pipe that is full belongs to a server that doesn't read, and half a line would be worse.
        let written = self.input.as_ref().map(|input| input.try_write(&line));
        if matches!(written, Some(Ok(bytes)) if bytes < line.len()) {
            self.input = None;
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}
