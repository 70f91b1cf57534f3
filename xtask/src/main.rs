//! The project's own commands. Whatever CI gates, `cargo xtask STEP` reproduces; this file reads the command line and
//! turns the outcome into an exit code: 0 done, 1 the answer is no, 2 could not run.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "talking to the terminal is what xtask is for")]

mod bench;
mod board;
mod check;
mod ci;
mod clock;
mod determinism;
mod experiment;
mod explore;
mod fuzz;
mod image;
mod machine;
mod mutants;
mod nextest;
mod peers;
mod process;
mod report;
mod setup;
mod simulate;
mod soak;
mod suite;
mod test;
mod tidy;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use board::Board;
use workspace::Workspace;

/// Could not run: bad arguments, or something that is needed isn't there.
const COULD_NOT_RUN: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the other steps need, or say exactly what is missing
    Setup {
        /// Also what `peers` needs: the MCP inspector, and a client of the Rust SDK
        #[arg(long)]
        peers: bool,
    },
    /// Everything that is said about the code without running its tests
    Check {
        /// Run this part alone (may be repeated)
        #[arg(long)]
        only: Vec<check::Part>,
    },
    /// Set up, then run every test and the examples in the documentation
    Test {
        /// Arguments for `cargo nextest run`, such as a part of a test's name
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        selection: Vec<String>,
    },
    /// Run fake sessions under seeded schedules, with every invariant checked after every step
    Simulate(simulate::Args),
    /// Every client with every server that nobody here wrote, across restarts, upgrades and kills
    Peers,
    /// The ten bullets, simulated and against real processes
    Suite,
    /// Whether a program does the same again when it is run again, and what differs
    Determinism(Box<tidegate_determinism::CheckArgs>),
    /// The container determinism experiment again, each check with its own record
    Experiment(experiment::Args),
    /// Build the project's container image, with its provenance, from pinned parts
    Image(image::Args),
    /// Tidegate beside others: each row measures both sides in turns
    Bench(bench::Args),
    /// Write the report over what the runs left; exit 0 only when the release is allowed
    Report {
        /// The `target/tidegate` directories of all partitions of one run
        #[arg(long, num_args = 1.., value_name = "DIR")]
        merge: Vec<PathBuf>,
    },
    /// From a fresh clone to the answer: exit 0 only when the release is allowed
    Ci(ci::Args),
    /// One snapshot of the image's conversation, continued from many seeds, with the bullets held against each of them
    Explore(explore::Args),
    /// The decisions changed one at a time: does a test notice?
    Mutants(mutants::Args),
    /// The readers of what comes from outside, under bytes that nobody thought of
    Fuzz(fuzz::Args),
    /// Sixty-four sessions under restarts and kills, for half an hour
    Soak(soak::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup { peers } => steps("setup", 1800, |board| {
            let _ready = setup::run(board, &workspace) && (!peers || peers::install_more(board, &workspace));
        }),
        Command::Peers => steps("peers", 3000, |board| {
            let _ran = setup::run(board, &workspace)
                && peers::install_more(board, &workspace)
                && peers::run(board, &workspace);
        }),
        Command::Check { only } => steps("check", 1200, |board| check::run(board, &workspace, &only)),
        Command::Test { selection } => steps("test", 1200, |board| test::run(board, &workspace, &selection)),
        Command::Simulate(args) => simulate::run(&workspace, &args),
        Command::Suite => steps("suite", 1200, |board| suite::run(board, &workspace)),
        Command::Determinism(args) => determinism::run(&workspace, *args),
        Command::Experiment(args) => {
            steps("experiment", 6 * 3600, |board| experiment::run(board, &workspace, &args))
        }
        Command::Report { merge } => steps("report", 60, |board| report::run(board, &workspace, merge)),
        Command::Ci(args) => Ok(answer(ci::run(&workspace, &args)?)),
        Command::Image(args) => steps("image", 2400, |board| {
            image::run(board, &workspace, args);
        }),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::Explore(args) => explore::run(&workspace, &args),
        Command::Mutants(args) => mutants::run(&workspace, &args),
        Command::Fuzz(args) => fuzz::run(&workspace, &args),
        Command::Soak(args) => soak::run(&workspace, &args),
    }
}

/// Runs a command's steps on a board of their own and answers whether all of them passed.
fn steps(command: &str, budget_s: u64, work: impl FnOnce(&mut Board)) -> anyhow::Result<ExitCode> {
    let mut board = Board::new();
    work(&mut board);
    Ok(answer(board.finish(command, Duration::from_secs(budget_s))))
}

fn answer(yes: bool) -> ExitCode {
    if yes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
