//! A stream's shim begins once more as soon as it knows what to do: as a process that has read no configuration and no
//! command line, and has none of that in its memory. A person's clients have dozens of shims, and they live for days.
//!
//! Where it can't begin again it goes on as it is: this saves memory, and changes nothing.

use super::dial::Dialer;
use super::stream;
use crate::wire::Attach;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tidegate_core::ComponentName;

/// The hidden subcommand. It is not part of the command line's contract.
const STREAM_ARG: &str = "__stream";

/// What a stream's shim has to know.
#[derive(Serialize, Deserialize)]
pub(super) struct Charge {
    pub(super) socket: PathBuf,
    pub(super) token: Option<String>,
    pub(super) attach: Attach,
    pub(super) component: ComponentName,
    pub(super) hold: Duration,
}

impl Charge {
    /// Serves the client, in this process.
    pub(super) fn carry_out(self) {
        stream::run(Dialer::new(self.socket, self.token, self.attach), &self.component, self.hold);
    }

    /// Becomes a process that carries it out. Comes back only when that can't be done.
    pub(super) fn begin_afresh(&self) -> io::Error {
        match self.handed_on() {
            // Open until this process is the other.
            Ok((mut command, _file)) => command.exec(),
            Err(error) => error,
        }
    }

    /// In a file in memory, because it may have a credential in it, which is nobody's business who looks at command lines.
    fn handed_on(&self) -> io::Result<(Command, File)> {
        let mut file = File::from(memfd_create("tidegate-charge", MemfdFlags::empty())?);
        file.write_all(&serde_json::to_vec(self)?)?;
        let mut command = Command::new(std::env::current_exe()?);
        // What it was started with stays to be seen behind that.
        command.arg0("tidegate").arg(STREAM_ARG).arg(file.as_raw_fd().to_string());
        command.args(std::env::args_os().skip(1));
        Ok((command, file))
    }

    fn taken_over(descriptor: &str) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{descriptor}"))?;
        let charge = serde_json::from_reader(io::BufReader::new(&file))?;
        // The descriptor stays open; nothing has to be left behind it.
        file.set_len(0)?;
        Ok(charge)
    }
}

/// Serves a stream if this process began afresh for that; to be called first thing in `main`.
pub(crate) fn stream_main() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != STREAM_ARG {
        return None;
    }
    let descriptor = args.next().and_then(|number| number.into_string().ok());
    Some(match Charge::taken_over(&descriptor.unwrap_or_default()) {
        Ok(charge) => {
            charge.carry_out();
            ExitCode::SUCCESS
        }
        Err(error) => {
            crate::stderr::say(format_args!("tidegate: the shim could not begin: {error}; start it again"));
            ExitCode::FAILURE
        }
    })
}
