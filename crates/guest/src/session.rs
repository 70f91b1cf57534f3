//! The life of the machine: start, wait for a request, do what it says, reply.

use std::io;
use std::path::Path;
use std::process::Command;

use tidegate_guest::{Frame, Kind, Place, Request};

use crate::enter;
use crate::exchange::Exchange;
use crate::machine;
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
    let request = exchange.request()?;
    let frames = perform(&request)?;
    exchange.reply(&Frame::write_all(&frames))
}

fn perform(request: &Request) -> io::Result<Vec<Frame>> {
    if request.reseed {
        machine::reseed()?;
    }
    if let Some(seconds) = request.wall_clock {
        machine::set_wall_clock(seconds)?;
    }
    if let Some(on) = request.aslr {
        machine::randomise_addresses(on)?;
    }
    for _ in 0..request.pid_offset {
        Command::new(OWN_BINARY).arg(enter::NOTHING).status()?;
    }
    if request.schedule {
        schedule::start()?;
    }
    let mut frames = Vec::new();
    for (number, asked) in (0..).zip(&request.tasks) {
        task::run(asked, number, request.deadline_ms, &mut frames)?;
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
