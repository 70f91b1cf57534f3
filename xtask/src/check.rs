//! `cargo xtask check`: everything that fails in seconds or is said about the code without running its tests.
//! The cheapest part comes first, and each part can be run alone with `--only`.

use std::process::Command;

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use crate::board::{Board, Step, Timer};
use crate::fuzz;
use crate::nextest::{self, Slice};
use crate::process::{Program, Show};
use crate::tidy;
use crate::workspace::Workspace;

/// The parts of the check, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Every file is formatted.
    Fmt,
    /// The rules that no compiler checks.
    Tidy,
    /// No warning from the compiler or from clippy.
    Clippy,
    /// The documentation builds without warnings.
    Doc,
    /// The examples in the documentation work.
    Doctest,
    /// The fuzz targets compile.
    Fuzz,
    /// The partitions of CI cover each test exactly once.
    Partitions,
}

impl Part {
    fn step(self) -> Step {
        let (name, budget_s) = match self {
            Self::Fmt => ("fmt", 30),
            Self::Tidy => ("tidy", 30),
            Self::Clippy => ("clippy", 300),
            Self::Doc => ("doc", 300),
            Self::Doctest => ("doctest", 300),
            Self::Fuzz => ("fuzz", 300),
            Self::Partitions => ("partitions", 420),
        };
        Step::new(name, budget_s, format!("cargo xtask check --only {name}"))
    }

    fn run(self, workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
        let deny = Some(("RUSTDOCFLAGS", "-D warnings"));
        match self {
            Self::Fmt => cargo(workspace, timer, &["fmt", "--all", "--check"], None),
            Self::Tidy => tidy::run(workspace, timer),
            Self::Clippy => {
                let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
                cargo(workspace, timer, &args, None)
            }
            Self::Doc => cargo(workspace, timer, &["doc", "--workspace", "--no-deps"], deny),
            Self::Doctest => cargo(workspace, timer, &["test", "--workspace", "--doc"], None),
            Self::Fuzz => fuzz::check(workspace, timer),
            Self::Partitions => partitions(workspace, timer),
        }
    }
}

/// Runs the parts asked for, or all of them; a part that fails stops none of the others.
pub(crate) fn run(board: &mut Board, workspace: &Workspace, only: &[Part]) {
    for part in Part::value_variants() {
        if only.is_empty() || only.contains(part) {
            board.step(&part.step(), |timer| part.run(workspace, timer));
        }
    }
}

/// The examples in the documentation, which nextest doesn't run.
pub(crate) fn doctests(board: &mut Board, workspace: &Workspace) -> bool {
    board.step(&Part::Doctest.step(), |timer| Part::Doctest.run(workspace, timer))
}

fn cargo(
    workspace: &Workspace,
    timer: &Timer,
    args: &[&str],
    env: Option<(&str, &str)>,
) -> anyhow::Result<String> {
    let mut command = Command::new("cargo");
    command.args(args).envs(env).current_dir(&workspace.root);
    let what = format!("cargo {}", args[0]);
    Program { what: &what, command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer)
}

fn partitions(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let workflow = workspace.root.join(tidy::PARTITIONS_FILE);
    let text = std::fs::read_to_string(&workflow).with_context(|| format!("read {}", workflow.display()))?;
    let count = tidy::slice_count(&text).context("the workflow doesn't say how many slices there are")?;
    let whole = nextest::list(workspace, timer, Slice::WHOLE)?;
    let slices: Vec<_> = (1..=count)
        .map(|index| nextest::list(workspace, timer, Slice { index, count }))
        .collect::<Result<_, _>>()?;
    let problems = nextest::uncovered(&whole, &slices);
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(format!("{} tests in {count} slices, each once", whole.len()))
}
