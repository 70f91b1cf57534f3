//! The life of the machine: start, wait for a request, do what it says, reply.

use std::io;
use std::path::Path;
use std::process::Command;

use tidegate_guest::{Frame, Kind, Place, Request, Status};

use crate::enter;
use crate::exchange::Exchange;
use crate::machine;
use crate::pause::Pause;
use crate::schedule;
use crate::task;
use crate::tree;

/// The running binary, which is also what it starts.
pub(crate) const OWN_BINARY: &str = "/proc/self/exe";

/// Everything but the power switch.
pub(crate) fn run() -> io::Result<()> {
    machine::start()?;
    let exchange = Exchange::open()?;
    machine::mount_root()?;
    let request = exchange.request(Status::Waiting, None)?;
    let frames = perform(&request, &exchange)?;
    exchange.reply(&Frame::write_all(&frames))
}

fn perform(request: &Request, exchange: &Exchange) -> io::Result<Vec<Frame>> {
    prepare(request)?;
    for _ in 0..request.pid_offset {
        Command::new(OWN_BINARY).arg(enter::NOTHING).status()?;
    }
    let mut pause = request.pauses.then(|| Pause::new(exchange, request.number)).transpose()?;
    if request.schedule {
        schedule::start()?;
    }
    let mut frames = Vec::new();
    for (number, asked) in (0..).zip(&request.tasks) {
        task::run(asked, number, request.deadline_ms, pause.as_mut(), &mut frames)?;
    }
    let mut tell = |kind: Kind, lines: Vec<Vec<u8>>| {
        let frame = |bytes| Frame { kind, task: 0, at_ns: 0, bytes };
        frames.extend(lines.into_iter().map(frame));
    };
    if request.schedule {
        tell(Kind::Schedule, schedule::finish()?);
    }
    if request.tasks.iter().any(|task| task.place == Place::Subject) {
        tell(Kind::Changed, tree::changes(Path::new(machine::CHANGES))?);
    }
    Ok(frames)
}

/// What a request changes of the machine: before the first task, or while one has paused.
pub(crate) fn prepare(request: &Request) -> io::Result<()> {
    if request.reseed {
        machine::reseed()?;
    }
    if let Some(seconds) = request.wall_clock {
        machine::set_wall_clock(seconds)?;
    }
    request.aslr.map_or(Ok(()), machine::randomise_addresses)
}
