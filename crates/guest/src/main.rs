//! `tidegate-guest`: process 1 of the machine in which a subject is run, and the processes that it starts of itself.
//!
//! Must never be run on a machine that anybody needs: as process 1 it mounts, kills and turns off.

mod enter;
mod exchange;
mod machine;
mod pause;
mod schedule;
mod session;
mod task;
mod tree;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::getpid;
use tidegate_guest::{PAUSE, Program};

/// As any init of a machine.
const FIRST: i32 = 1;
/// The first argument of a process that is one of the controls.
const CONTROL: &str = "control";
/// Could not run.
const COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        // The kernel hands on what it doesn't know of its own command line.
        _ if getpid().as_raw_nonzero().get() == FIRST => {
            if let Err(error) = session::run() {
                complain(&error);
            }
            complain(&machine::turn_off());
            ExitCode::from(COULD_NOT_RUN)
        }
        [enter::ROLE, user, group, directory, program, rest @ ..] => {
            complain(&enter::become_subject(user, group, directory, program, rest));
            ExitCode::from(enter::NOT_STARTED)
        }
        [enter::NOTHING] => ExitCode::SUCCESS,
        [CONTROL, name] => match Program::named(name) {
            Some(program) => ended(program.perform(&mut io::stdout().lock(), &mut io::stderr().lock())),
            None => ended(Err(io::Error::other("there is no such control"))),
        },
        [] if std::env::args().next().as_deref() == Some(PAUSE) => ended(pause::ask()),
        _ => {
            complain(
                &"this is process 1 of a machine of its own; nothing is to be done with it anywhere else",
            );
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

fn ended(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// The console of the machine is the only one who can hear it.
fn complain(what: &dyn Display) {
    let _ = writeln!(io::stderr(), "tidegate-guest: {what}");
}
