//! `cargo xtask soak`: the suite's soak, as long as it is asked to be, with programs as they are released.

use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::workspace::Workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long sessions work, in minutes
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Where instants and victims come from; a fresh one is drawn, and told, without it
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let mut command = Command::new("cargo");
    command.args([
        "test",
        "--release",
        "--package",
        "tidegate-suite",
        "--test",
        "it",
        "--",
        "soak::",
        "--nocapture",
    ]);
    command.current_dir(&workspace.root).env("TIDEGATE_SOAK_SECONDS", (args.minutes * 60).to_string());
    if let Some(seed) = args.seed {
        command.env("TIDEGATE_SEED", seed.to_string());
    }
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "tidegate", "--package", "tidegate-suite", "--bins"]);
    build.current_dir(&workspace.root);
    let built = build.status().context("start cargo")?.success();
    anyhow::ensure!(built, "the programs don't build: cargo build --release -p tidegate");
    let passed = command.status().context("start cargo")?.success();
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
