//! `cargo xtask simulate`: fake sessions under seeded schedules, planted bugs, and the replay of what was found. The work
//! is done by the simulator's own program, which is built with every assertion and as fast as a release; this file turns
//! the command line into its job and what came of it into words or JSON.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tidegate_simulator::{BUGS, Bug, CAUGHT_WITHIN, Case, Done, Failure, Hunt, Job, Plan, Summary};

use crate::clock::Stopwatch;
use crate::report::MIN_SEEDS;
use crate::workspace::Workspace;

/// The profile that the program is built with, and its name.
const PROFILE: &str = "simulate";
const PROGRAM: &str = "tidegate-simulate";
/// Where worlds of failures are left, below `target/tidegate`.
const FOUND: &str = "simulations";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = MIN_SEEDS, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them: a shard of a longer run begins where another ends
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// How many broken schedules are enough to end the run
    #[arg(long, default_value_t = 3)]
    stop_after: usize,
    /// On how many threads; every processor's, where it isn't said
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Run this seed alone and print its whole timeline
    #[arg(long, conflicts_with_all = ["seeds", "first_seed"])]
    seed: Option<u64>,
    /// Make the world of that seed smaller for as long as it breaks the same rule, and keep it as a case
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Play a case that was kept
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "first_seed", "seed"])]
    replay: Option<PathBuf>,
    /// Plant this bug, or `all` of them one after the other: each has to be caught
    #[arg(long, value_name = "NAME", conflicts_with_all = ["replay"])]
    planted: Option<String>,
    /// Build the program, and run nothing
    #[arg(long, conflicts_with_all = ["seeds", "first_seed", "seed", "replay", "planted"])]
    build: bool,
    /// Print the report's `simulation` object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let program = build(workspace)?;
    if args.build {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.replay {
        return replay(&program, file);
    }
    match (args.seed, args.planted.as_deref()) {
        (Some(seed), bug) => one(workspace, &program, seed, bug, args.shrink),
        (None, Some(which)) => plant(&program, which, args),
        (None, None) => many(workspace, &program, args),
    }
}

/// The simulator's program, as it is now. Built by cargo, which is quick when nothing has changed.
fn build(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--profile", PROFILE, "--package", "tidegate-simulator"]);
    cargo.args(["--features", "planted", "--bin", PROGRAM]).current_dir(&workspace.root);
    let status = cargo.status().context("start cargo")?;
    if !status.success() {
        bail!("the simulator's program could not be built ({status})");
    }
    Ok(workspace.target.join(PROFILE).join(PROGRAM))
}

/// Has a job done. `progress` is told how many seeds are done, of how many, and how many are broken.
fn ask(program: &Path, job: &Job, progress: impl Fn(u64, u64, u64) + Send) -> anyhow::Result<Done> {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&serde_json::to_vec(job)?).context("tell the simulator what to do")?;
    }
    let said = child.stderr.take();
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            for line in said.into_iter().flat_map(|said| BufReader::new(said).lines()).map_while(Result::ok) {
                let mut numbers = line.split(' ').map_while(|word| word.parse().ok());
                match (numbers.next(), numbers.next(), numbers.next()) {
                    (Some(done), Some(seeds), Some(broken)) => progress(done, seeds, broken),
                    _ => eprintln!("{line}"),
                }
            }
        });
        child.wait_with_output()
    });
    let output = output.context("wait for the simulator")?;
    if !output.status.success() {
        bail!("the simulator failed ({})", output.status);
    }
    serde_json::from_slice(&output.stdout).context("read what the simulator found")
}

fn no_progress(_: u64, _: u64, _: u64) {}

fn many(workspace: &Workspace, program: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let threads = args.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let plan = Plan { first_seed: args.first_seed, seeds: args.seeds, stop_after: args.stop_after, threads };
    let watch = Stopwatch::start();
    let tell = |done: u64, seeds: u64, broken: u64| {
        let left = watch.elapsed().mul_f64((seeds - done) as f64 / done.max(1) as f64);
        eprintln!("{done} of {seeds} seeds, {broken} broken, about {} s left", left.as_secs());
    };
    let Done::Ran(summary) = ask(program, &Job::Run(plan), tell)? else {
        bail!("the simulator answered another job")
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", told(&summary, watch.elapsed(), threads));
    }
    for failure in &summary.failures {
        eprintln!("{failure}");
    }
    if let Some(Failure { seed, .. }) = summary.failures.first() {
        one(workspace, program, *seed, None, true)?;
    }
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(summary: &Summary, took: Duration, threads: NonZeroUsize) -> String {
    let Summary { seeds, steps, transcript_sha256, simulated_ms, settling_steps, .. } = summary;
    let simulated = simulated_ms / 1_000;
    let speed = simulated as f64 / took.as_secs_f64().max(0.001) / threads.get() as f64;
    let mut text = format!(
        "{seeds} seeds, {steps} steps, {simulated} s of virtual time, {speed:.0} of it in a second of one thread\n\
         settled after at most {settling_steps} steps, transcript {transcript_sha256}\n"
    );
    if !summary.not_reached.is_empty() {
        let _ = writeln!(text, "not reached: {}", summary.not_reached.join(", "));
    }
    text
}

/// One seed's whole story; the small one of a failure is kept.
fn one(
    workspace: &Workspace,
    program: &Path,
    seed: u64,
    bug: Option<&str>,
    shrink: bool,
) -> anyhow::Result<ExitCode> {
    let job = Job::Seed { seed, bug: bug.map(str::to_owned), shrink };
    let Done::Played(case) = ask(program, &job, no_progress)? else {
        bail!("the simulator answered another job")
    };
    println!("{}", case.timeline.join("\n"));
    let Some(rule) = &case.breaks else {
        println!("seed {seed}: nothing is broken");
        return Ok(ExitCode::SUCCESS);
    };
    println!("broken: {rule}: {}", case.evidence);
    if shrink {
        let dir = workspace.results().join(FOUND);
        let name = bug.map_or_else(|| format!("seed-{seed}.json"), |bug| format!("{bug}.json"));
        let file = dir.join(name);
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        std::fs::write(&file, serde_json::to_string_pretty(&case)? + "\n")
            .with_context(|| format!("write {}", file.display()))?;
        println!("replay it: cargo xtask simulate --replay {}", file.display());
    }
    Ok(ExitCode::FAILURE)
}

/// Plays a case; the answer is yes when what happens is what the case says.
fn replay(program: &Path, file: &Path) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let case: Case = serde_json::from_str(&text).with_context(|| format!("read {}", file.display()))?;
    let expected = case.breaks.clone();
    let Done::Played(now) = ask(program, &Job::Replay(Box::new(case)), no_progress)? else {
        bail!("the simulator answered another job")
    };
    println!("{}", now.timeline.join("\n"));
    if let Some(bug) = now.bug.as_deref().and_then(Bug::named) {
        println!("planted: {}", bug.what);
    }
    match &now.breaks {
        Some(rule) => println!("broken: {rule}: {}", now.evidence),
        None => println!("nothing is broken"),
    }
    Ok(if now.breaks == expected { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plant(program: &Path, which: &str, args: &Args) -> anyhow::Result<ExitCode> {
    let bugs: Vec<String> = match which {
        "all" => BUGS.iter().map(|bug| bug.name.to_owned()).collect(),
        name if Bug::named(name).is_some() => vec![name.to_owned()],
        other => {
            let names: Vec<&str> = BUGS.iter().map(|bug| bug.name).collect();
            bail!("no bug is called {other:?}; there are all, {}", names.join(", "));
        }
    };
    let Done::Hunted(hunts) = ask(program, &Job::Hunt { bugs, seeds: CAUGHT_WITHIN }, no_progress)? else {
        bail!("the simulator answered another job")
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&hunts)?);
    } else {
        hunts.iter().for_each(|hunt| println!("{}", line(hunt)));
    }
    let survived: Vec<&str> =
        hunts.iter().filter(|hunt| hunt.caught_by_seed.is_none()).map(|hunt| hunt.bug.as_str()).collect();
    if survived.is_empty() {
        eprintln!("{} planted bugs, every one caught", hunts.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("survived {CAUGHT_WITHIN} seeds: {}", survived.join(", "));
    Ok(ExitCode::FAILURE)
}

fn line(hunt: &Hunt) -> String {
    let Hunt { bug, bullet, caught_by_seed, caught_as, steps, seeds } = hunt;
    match (caught_by_seed, caught_as) {
        (Some(seed), Some(rule)) => format!("{bullet:>2}  {bug}: seed {seed}, step {steps}, {rule}"),
        _ => format!("{bullet:>2}  {bug}: survives {seeds} seeds"),
    }
}
