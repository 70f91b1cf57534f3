//! `cargo xtask fuzz`: the readers of what comes from outside, under bytes that nobody thought of. Each target is first
//! shown what is kept in `fixtures/corpus`; what it finds stays below `target/tidegate/fuzz` until somebody keeps it.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::board::Timer;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// The targets; each has a corpus of its name.
const TARGETS: [&str; 3] = ["journal", "json-rpc", "configuration"];
/// Where the fuzzer keeps what it finds, and is built, below the target directory.
const FOUND: &str = "fuzz";
/// Each journal is a file that is opened and synced: in memory that is quick, and no disk is worn out.
const IN_MEMORY: (&str, &str) = ("TMPDIR", "/dev/shm");
/// A text longer than this finds nothing that a shorter one doesn't.
const MAX_BYTES: u32 = 4096;
/// What cargo-fuzz builds with, so that code which is there for the targets alone is there.
const FUZZING: (&str, &str) = ("RUSTFLAGS", "--cfg fuzzing");
/// The fuzzer itself is C++. Whoever only checks links nothing, so it is said to be somewhere, and is not built.
const NO_FUZZER: (&str, &str) = ("CUSTOM_LIBFUZZER_PATH", "/nowhere/libfuzzer.a");

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this target (may be repeated); all of them without it
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Bring the corpus that was found down to what reaches something new, and run nothing
    #[arg(long)]
    minimise: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(target) = args.target.iter().find(|target| !TARGETS.contains(&target.as_str())) {
        bail!("no target is called {target:?}; there are {}", TARGETS.join(", "));
    }
    let version = Command::new("cargo").args(["fuzz", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        bail!("cargo-fuzz is not there: cargo install cargo-fuzz --locked");
    }
    lock(workspace)?;
    let mut failed = Vec::new();
    for target in TARGETS {
        if (args.target.is_empty() || args.target.iter().any(|it| it == target))
            && !fuzz(workspace, target, args)?
        {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("failed: {}; what breaks them is named above", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Whether the targets still compile: nothing else does that, as they are no members of the workspace. It takes neither
/// cargo-fuzz nor a compiler for C++.
pub(crate) fn check(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    lock(workspace)?;
    let mut command = Command::new("cargo");
    command.args(["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    command.arg(workspace.target.join(FOUND)).envs([FUZZING, NO_FUZZER]).current_dir(&workspace.root);
    Program { what: "check of the fuzz targets", command, show: Show::Kept, logs: &workspace.logs() }
        .succeed(timer)
}

/// Gives the targets the versions that everybody else is built with. What only they need is added by cargo.
fn lock(workspace: &Workspace) -> anyhow::Result<()> {
    let (ours, theirs) = (workspace.root.join("Cargo.lock"), workspace.root.join("fuzz/Cargo.lock"));
    std::fs::copy(&ours, &theirs).with_context(|| format!("write {}", theirs.display()))?;
    Ok(())
}

fn fuzz(workspace: &Workspace, target: &str, args: &Args) -> anyhow::Result<bool> {
    let found = workspace.results().join(FOUND).join(target);
    std::fs::create_dir_all(&found).with_context(|| format!("create {}", found.display()))?;
    let kept: PathBuf = workspace.root.join("fixtures/corpus").join(target);
    let mut command = Command::new("cargo");
    command.args([
        "fuzz",
        if args.minimise { "cmin" } else { "run" },
        target,
        "--fuzz-dir",
        "fuzz",
        "--sanitizer",
        "none",
    ]);
    command.arg("--target-dir").arg(workspace.target.join(FOUND)).arg(&found);
    if !args.minimise {
        command.arg(&kept).args(["--", &format!("-max_total_time={}", args.seconds)]);
        command.args([format!("-max_len={MAX_BYTES}"), "-print_final_stats=1".to_owned()]);
    }
    // Coverage needs flags that the stable compiler keeps to itself; nothing else here is built with them.
    command.env("RUSTC_BOOTSTRAP", "1").env(IN_MEMORY.0, IN_MEMORY.1).current_dir(&workspace.root);
    Ok(command.status().context("start cargo fuzz")?.success())
}
