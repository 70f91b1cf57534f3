//! `cargo xtask ci`: from a fresh clone to the answer whether the release is allowed. Steps that fail stop only what
//! can't go on without them, so that one run says everything that is wrong. `target/tidegate` is all that it leaves,
//! and what one partition of a larger run hands on.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::bench;
use crate::board::{Board, Step};
use crate::experiment;
use crate::image;
use crate::nextest::{self, Slice};
use crate::peers;
use crate::process::{Program, Show};
use crate::report::model::{self, Run};
use crate::report::{
    self, BENCH, DETERMINISM, DETERMINISM_RECORD, EVIDENCE, MIN_SEEDS, REPORT, RUN, SIMULATION,
};
use crate::setup;
use crate::workspace::Workspace;

/// Everything together, on two cores. Setup isn't counted: what it installs once per machine has budgets of its own.
const BUDGET: Duration = Duration::from_secs(20 * 60);
/// Sizes of tests that are larger at night.
const FULL_SIZES: [(&str, &str); 1] = [("TIDEGATE_KILLS", "1000")];
/// The nightly run is as long as a night's machine is free.
const FULL_BUDGET: Duration = Duration::from_secs(3 * 60 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run one slice of the tests, such as slice:1/2, and leave the decision to `report --merge`
    #[arg(long)]
    partition: Option<Slice>,
    /// More seeds, kills and runs, the experiment's straight boots, the benchmark and every peer: for the night and before a release
    #[arg(long)]
    full: bool,
}

/// Runs everything and answers whether it passed.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<bool> {
    let slice = args.partition.unwrap_or(Slice::WHOLE);
    let mut board = Board::new();
    forget(workspace)?;
    let ready =
        setup::run(&mut board, workspace) && (!args.full || peers::install_more(&mut board, workspace));
    board.count_from_here();
    if ready && build(&mut board, workspace) {
        // One partition does what isn't divided, so that the merged report finds it once.
        if slice.index == 1 {
            simulate(&mut board, workspace, args.full);
            determinism(&mut board, workspace, args.full);
            if args.full {
                benchmark(&mut board, workspace);
            }
        }
        tests(&mut board, workspace, slice, args.full)?;
        if args.full {
            peers::run(&mut board, workspace);
        }
    }
    if args.partition.is_none() {
        report::run(&mut board, workspace, Vec::new());
    }
    Ok(board.finish("ci", if args.full { FULL_BUDGET } else { BUDGET }))
}

/// Removes what an earlier run left: nothing old may count as evidence.
fn forget(workspace: &Workspace) -> anyhow::Result<()> {
    for name in [EVIDENCE, RUN, BENCH, SIMULATION, DETERMINISM, REPORT] {
        let path = workspace.results().join(name);
        let gone = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match gone {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn build(board: &mut Board, workspace: &Workspace) -> bool {
    board.step(&Step::new("build", 600, "cargo build --workspace --all-targets"), |timer| {
        let mut command = Command::new("cargo");
        command.args(["build", "--workspace", "--all-targets"]).current_dir(&workspace.root);
        Program { what: "cargo build", command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer)
    })
}

/// xtask itself, once more: a process of its own that can be stopped at its budget. The running file is named, because
/// a build may have replaced it under its old name.
fn xtask(args: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(args);
    command
}

/// The simulator's own program is built, worlds are run twice over, and every planted bug has to be caught.
fn simulate(board: &mut Board, workspace: &Workspace, full: bool) {
    let built = board.step(&Step::new("simulator", 480, "cargo xtask simulate --build"), |timer| {
        let command = xtask(&["simulate", "--build"]);
        Program { what: "build of the simulator", command, show: Show::Kept, logs: &workspace.logs() }
            .succeed(timer)
    });
    if built {
        worlds(board, workspace, full);
        planted(board, workspace);
    }
}

fn worlds(board: &mut Board, workspace: &Workspace, full: bool) {
    let seeds = if full { MIN_SEEDS * 100 } else { MIN_SEEDS * 2 };
    let budget_s = if full { 5400 } else { 240 };
    board.step(&Step::new("simulate", budget_s, format!("cargo xtask simulate --seeds {seeds}")), |timer| {
        let seeds = seeds.to_string();
        let process = |what: &'static str| {
            let command = xtask(&["simulate", "--seeds", &seeds, "--threads", "1", "--json"]);
            let json =
                Program { what, command, show: Show::Answer, logs: &workspace.logs() }.succeed(timer)?;
            serde_json::from_str::<Value>(&json).context("read what the simulation printed")
        };
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| process("second simulation"));
            (process("first simulation"), second.join())
        });
        let mut simulation = first?;
        let second = second.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        simulation["repeated_sha256"] = second["transcript_sha256"].clone();
        write(workspace, SIMULATION, &simulation)?;
        let (first, second) = (&simulation["transcript_sha256"], &simulation["repeated_sha256"]);
        if first != second {
            bail!("the same seeds gave different transcripts in two processes: {first} and {second}");
        }
        Ok(format!("{seeds} seeds, the same transcript in two processes"))
    });
}

/// A simulator that catches nothing proves nothing: one planted bug that survives fails the run.
fn planted(board: &mut Board, workspace: &Workspace) {
    board.step(&Step::new("planted", 180, "cargo xtask simulate --planted all"), |timer| {
        let command = xtask(&["simulate", "--planted", "all", "--json"]);
        let hunts = Program { what: "planted bugs", command, show: Show::Answer, logs: &workspace.logs() };
        let hunts: Value = serde_json::from_str(&hunts.succeed(timer)?).context("read what was caught")?;
        let caught = hunts.as_array().map_or(0, Vec::len);
        let mut simulation =
            report::read::<Value>(&workspace.results().join(SIMULATION))?.unwrap_or_default();
        simulation["planted"] = hunts;
        write(workspace, SIMULATION, &simulation)?;
        Ok(format!("{caught} planted bugs, every one caught"))
    });
}

/// Tidegate beside others. A goal that is missed is a result and blocks nothing. In full only: it is built as a release is,
/// which takes two cores longer than a change should wait.
fn benchmark(board: &mut Board, workspace: &Workspace) {
    board.step(&Step::new("bench", 1800, "cargo xtask bench"), |timer| bench::report(workspace, timer));
}

/// The small image in the emulated machine, and natively beside it: one boot, two restored runs and the controls; in
/// full, straight boots and a load too, and the experiment on the whole image.
fn determinism(board: &mut Board, workspace: &Workspace, full: bool) {
    if !image::run(board, workspace, image::Args { small: !full, twice: full }) {
        return;
    }
    let (args, budget_s): (&[&str], u64) = if full {
        (&["--runs", "20", "--condition", "idle,loaded", "--budget", "40m", "--ablate"], 3600)
    } else {
        (&["--runs", "2", "--condition", "idle", "--part", "restored"], 420)
    };
    let again = format!("cargo xtask determinism --executor vm {}", args.join(" "));
    board.step(&Step::new("determinism", budget_s, again), |timer| {
        let file = workspace.results().join(DETERMINISM_RECORD);
        let mut command = xtask(&["determinism", "--executor", "vm"]);
        command.args(args).arg("--out").arg(workspace.results().join(DETERMINISM));
        // Its exit status is the verdict on the subject, which blocks nothing; the controls beside it do.
        Program { what: "determinism check", command, show: Show::Kept, logs: &workspace.logs() }
            .run(timer)?;
        let Some(record) = report::read::<Value>(&file)? else {
            bail!("the check left no {}", file.display())
        };
        let blockers = report::determinism_blocks(&record);
        if !blockers.is_empty() {
            bail!("{}", blockers.join("\n"));
        }
        Ok(record["verdict"]["level"].as_str().unwrap_or("no level").to_owned())
    });
    if full {
        experiment::run(board, workspace, &experiment::Args::only("whole-boot"));
    }
}

fn tests(board: &mut Board, workspace: &Workspace, slice: Slice, full: bool) -> anyhow::Result<()> {
    let mut listed = None;
    let again = match slice {
        Slice::WHOLE => "cargo nextest run --workspace --profile ci".to_owned(),
        slice => format!("cargo nextest run --workspace --profile ci --partition {slice}"),
    };
    board.step(&Step::new("tests", 900, again), |timer| {
        let whole = nextest::list(workspace, timer, Slice::WHOLE)?;
        let ran = if slice == Slice::WHOLE { whole.clone() } else { nextest::list(workspace, timer, slice)? };
        let note = format!("{} of {} tests", ran.len(), whole.len());
        listed = Some((whole, ran));
        nextest::run(workspace, timer, "ci", slice, &[], if full { &FULL_SIZES } else { &[] })?;
        Ok(note)
    });
    let (whole, ran) = listed.unwrap_or_default();
    let failed_steps = board.failed().iter().map(|step| (*step).to_owned()).collect();
    let run = Run {
        version: model::VERSION,
        commit: commit(workspace),
        partition: slice,
        whole,
        ran,
        failed_steps,
    };
    write(workspace, RUN, &run)
}

pub(crate) fn write(workspace: &Workspace, name: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let file = workspace.results().join(name);
    let text = serde_json::to_string_pretty(value)? + "\n";
    std::fs::create_dir_all(workspace.results())?;
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))
}

/// The commit that is tested; `+changes` when the tree isn't just that.
pub(crate) fn commit(workspace: &Workspace) -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(&workspace.root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}+changes"),
        (None, _) => "unknown".to_owned(),
    }
}
