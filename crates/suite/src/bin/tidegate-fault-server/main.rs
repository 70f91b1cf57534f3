//! `tidegate-fault-server`: an MCP server on stdio that fails in the ways it is told to.
//!
//! It keeps a *ledger*: a line is appended before each mutating call is answered, so that the file is the truth about
//! what was executed, whatever anybody was told. What it does wrong is scripted, by flags and a script for the process,
//! by arguments for one call; nothing is random. `docs/fault-server.md` describes all of it.
//!
//! It must never be clever: a fault that isn't asked for makes every test that uses it worthless.

mod call;
mod catalogue;
mod disk;
mod flags;
mod havoc;
mod server;
mod wire;

use flags::{Flags, Phase};
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

/// Wrong flags, or a directory that can't be used.
const CANNOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = havoc::grandchild_main(&args) {
        return code;
    }
    match Flags::parse(args).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "tidegate-fault-server: {message}");
            ExitCode::from(CANNOT_RUN)
        }
    }
}

fn run(flags: Flags) -> Result<(), String> {
    if flags.ignore_term {
        havoc::ignore_term()?;
    }
    let disk = disk::Disk::open(&flags.dir)?;
    havoc::die_if(&flags, Phase::Start, disk.start());
    let _port = flags.port.map(havoc::bind).transpose()?;
    havoc::pause(flags.start_delay);
    havoc::noise(flags.stderr_bytes, flags.stderr_newlines);
    if let Some(kind) = flags.grandchild {
        havoc::grandchild(kind)?;
    }

    let (ignore_eof, finish_at_eof, slow_exit) = (flags.ignore_eof, flags.finish_at_eof, flags.slow_exit);
    let server = Arc::new(server::Server::new(flags, disk)?);
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).map_err(|e| format!("cannot read standard input: {e}"))? > 0 {
        server.line(&line);
        line.clear();
    }
    if ignore_eof {
        loop {
            havoc::pause(std::time::Duration::MAX);
        }
    }
    if finish_at_eof {
        server.finish();
    }
    havoc::pause(slow_exit);
    Ok(())
}
