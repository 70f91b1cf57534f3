//! `tidegate`: the daemon, the shim and the command line, one binary.
//!
//! The daemon (`serve`) owns the servers and the state directory. A shim (`connect`) is what a client starts; it outlives
//! the daemon and holds what was never forwarded. Every other command asks the daemon, or reads the state directory.

mod api;
mod cli;
mod config;
mod daemon;
mod exit;
mod keeper;
mod lines;
mod link;
mod log;
mod marks;
mod process;
mod shim;
mod stderr;
mod wire;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = process::launch_main().or_else(keeper::keep_main).or_else(shim::stream_main) {
        return code;
    }
    let cli = cli::Cli::parse();
    let json = cli.answers_in_json();
    exit::code(cli::run(cli), json)
}
