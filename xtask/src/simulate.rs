//! `cargo xtask simulate`: fake sessions under seeded schedules. The work is `tidegate-simulator`'s; this file turns
//! the command line into its plan and its summary into words or JSON.

use std::process::ExitCode;

use tidegate_simulator::{Outcome, Plan, Progress, Summary};

use crate::report::MIN_SEEDS;

/// Between two lines of progress, in seeds.
const PROGRESS_EVERY: u64 = 250;

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
    /// Run this seed alone and print its whole timeline, as a failure's replay does
    #[arg(long, conflicts_with_all = ["seeds", "first_seed"])]
    seed: Option<u64>,
    /// Print the report's `simulation` object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match args.seed {
        Some(seed) => Ok(replay(&tidegate_simulator::run_seed(seed))),
        None => {
            let plan = Plan { first_seed: args.first_seed, seeds: args.seeds, stop_after: args.stop_after };
            let summary = tidegate_simulator::run(&plan, &mut tell);
            report(&summary, args.json)
        }
    }
}

fn tell(progress: Progress) {
    let Progress { done, seeds, failures } = progress;
    if done % PROGRESS_EVERY == 0 && done < seeds {
        eprintln!("{done} of {seeds} seeds, {failures} broken");
    }
}

/// One seed's whole story.
fn replay(outcome: &Outcome) -> ExitCode {
    print!("{}", outcome.timeline);
    println!(
        "seed {}: {} steps, {} s of virtual time",
        outcome.seed,
        outcome.steps,
        outcome.simulated_ms / 1_000
    );
    match &outcome.violation {
        Some(violation) => {
            println!("broken: {violation}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn report(summary: &Summary, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(summary)?);
    } else {
        let Summary { seeds, steps, transcript_sha256, simulated_ms, .. } = summary;
        println!(
            "{seeds} seeds, {steps} steps, {} s of virtual time, transcript {transcript_sha256}",
            simulated_ms / 1_000
        );
        if !summary.not_reached.is_empty() {
            println!("not reached: {}", summary.not_reached.join(", "));
        }
    }
    for failure in &summary.failures {
        eprintln!("{failure}");
    }
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
