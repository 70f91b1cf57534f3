//! `cargo xtask simulate`: fake sessions under seeded schedules. The work is `tidegate-simulator`'s; this file turns
//! the command line into its plan and its summary into words or JSON.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::report::MIN_SEEDS;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = MIN_SEEDS, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Run this seed alone, as a failure's replay does
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Print the report's `simulation` object
    #[arg(long)]
    json: bool,
}

/// What the simulator found.
struct Simulated {
    /// The report's `simulation` object.
    simulation: Value,
    /// Each broken invariant, with the seed that breaks it.
    violations: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (first_seed, seeds) = args.seed.map_or((0, args.seeds), |seed| (seed, 1));
    let Simulated { simulation, violations } = simulate(first_seed, seeds)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&simulation)?);
    } else {
        let (seeds, steps, hash) =
            (&simulation["seeds"], &simulation["steps"], &simulation["transcript_sha256"]);
        println!("{seeds} seeds, {steps} steps, transcript {hash}");
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The one place where xtask meets the simulator.
fn simulate(_first_seed: u64, _seeds: u64) -> anyhow::Result<Simulated> {
    bail!("tidegate-simulator has nothing to run yet")
}
