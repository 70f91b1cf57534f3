//! `cargo xtask bench`: Tidegate beside others, each row in turns. The work is done by the program of `tidegate-bench`,
//! built as a release is; this file builds and starts it, and keeps what it found for the report.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::board::Timer;
use crate::process::{Program, Show};
use crate::report::BENCH;
use crate::workspace::Workspace;

const PACKAGE: &str = "tidegate-bench";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A few seconds instead of a minute or two: too short to compare with the goals
    #[arg(long)]
    quick: bool,
    /// Measure these rows alone (may be repeated)
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    if !build_command(workspace).status().context("start cargo")?.success() {
        bail!("{PACKAGE} doesn't build: cargo build --release --package {PACKAGE}");
    }
    let mut command = program(workspace)?;
    command.args(args.quick.then_some("--quick")).args(args.json.then_some("--json"));
    command.args(args.only.iter().flat_map(|row| ["--only", row]));
    let status = command.status().with_context(|| format!("start {PACKAGE}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(crate::COULD_NOT_RUN) })
}

/// Measures for the report, and answers how many goals were reached. Missing one is a result.
pub(crate) fn report(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let logs = &workspace.logs();
    let build = build_command(workspace);
    Program { what: "cargo build of the benchmark", command: build, show: Show::Kept, logs }
        .succeed(timer)?;
    let mut command = program(workspace)?;
    command.arg("--json");
    let json = Program { what: "benchmark", command, show: Show::Answer, logs }.succeed(timer)?;
    let found: Value = serde_json::from_str(&json).context("read what the benchmark printed")?;
    crate::ci::write(workspace, BENCH, &found)?;
    let verdicts = found["rows"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let count = |verdict: &str| verdicts.clone().filter(|row| row["verdict"] == verdict).count();
    Ok(format!(
        "{} goals reached, {} missed, {} not run",
        count("reached"),
        count("missed"),
        count("not_run")
    ))
}

fn build_command(workspace: &Workspace) -> Command {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--package", PACKAGE]).current_dir(&workspace.root);
    command
}

/// The program, writing below the results: on the file system that the project is built on.
fn program(workspace: &Workspace) -> anyhow::Result<Command> {
    std::fs::create_dir_all(workspace.results())?;
    let mut command = Command::new(workspace.target.join("release").join(PACKAGE));
    command.arg("--dir").arg(workspace.results());
    Ok(command)
}
