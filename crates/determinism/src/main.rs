//! `tidegate-determinism`: the check on the command line, and the programs that run beside it.
//!
//! Must never decide anything: it parses, calls the library and turns the outcome into an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tidegate_determinism::{CheckArgs, Record, companion::Role, run};

/// Could not run: bad arguments, or nothing to run with.
const COULD_NOT_RUN: u8 = 2;

/// Run a command again and again from one seed, compare what it did, and say what broke it.
///
/// Exit codes: 0 a verdict was reached (also `diverged`), 1 no result, 2 could not run.
#[derive(Debug, Parser)]
#[command(name = "tidegate-determinism", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    check: CheckArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.role {
        Some(role) => role.play().map(|()| ExitCode::SUCCESS).map_err(Into::into),
        None => check(&cli.check),
    };
    outcome.unwrap_or_else(|error| {
        say(&format!("error: {}", with_sources(&*error)));
        ExitCode::from(COULD_NOT_RUN)
    })
}

fn check(args: &CheckArgs) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let plan = args.plan(std::env::current_exe()?, "tidegate-determinism", &mut |line| say(line))?;
    let record = run(&plan, &mut |line| say(line))?;
    record.write(&args.out)?;
    io::stdout().write_all(printed(&record, args)?.as_bytes())?;
    Ok(ExitCode::from(record.exit_code()))
}

fn printed(record: &Record, args: &CheckArgs) -> Result<String, serde_json::Error> {
    if args.json {
        return record.json();
    }
    Ok(format!("{}\nreport: {}\n", record.answer(), args.out.join("determinism.md").display()))
}

/// One line for people; a closed standard error must not end a check.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
