//! `cargo xtask explore`: the whole image's conversation, continued from one snapshot under many seeds and several
//! speeds of the processor, with what can be seen of the ten bullets held against each of them. A finding is one seed
//! and one shift that anyone replays.

mod rules;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::json;
use tidegate_determinism::image::{Image, Root};
use tidegate_determinism::{Plan, Visit, explore};

use crate::determinism;
use crate::image::{self, Target};
use crate::machine;
use crate::workspace::Workspace;

/// What is run: several sessions, a governed restart and a server's death.
const CONVERSATION: [&str; 2] = ["node", "/opt/sessions/sessions.mjs"];
/// Below the results.
const RECORD: &str = "explore.json";
/// More shifts than this make each instruction last so long that nothing ever overlaps.
const MAX_SHIFT: i64 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many seeds to continue from, at each shift
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// How long an instruction lasts: 2^SHIFT nanoseconds
    #[arg(long, value_delimiter = ',', default_value = "0,4,7", value_parser = clap::value_parser!(u8).range(0..=MAX_SHIFT))]
    shifts: Vec<u8>,
    /// Continue from this seed alone and print all that was said, as a finding's replay does
    #[arg(long, conflicts_with_all = ["seeds", "first_seed"])]
    seed: Option<u64>,
    /// Another root than the project's image
    #[arg(long, value_name = "DIR")]
    rootfs: Option<PathBuf>,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

/// Everything that the visits showed together.
#[derive(Debug, Default)]
struct Seen {
    visits: u64,
    interleavings: BTreeSet<String>,
    orders: BTreeSet<Vec<String>>,
    findings: Vec<String>,
    cpu_s: f64,
    resident_mib: u64,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    machine::guest(workspace)?;
    let mut tell = |line: &str| eprintln!("{line}");
    let roots = workspace.results().join("roots");
    let root = match &args.rootfs {
        Some(directory) => Root::of_directory(directory, &roots, &mut tell)?,
        None => Root::of_image(&Image::open(&image_of(workspace)?)?, &roots, &mut tell)?,
    };
    let plan = Plan {
        root: Some(root),
        cache: workspace.results(),
        deadline: rules::DEADLINE,
        ..Plan::new(CONVERSATION, determinism::companion(workspace)?)
    };

    let seeds = args.seed.map_or(args.first_seed..args.first_seed + args.seeds, |seed| seed..seed + 1);
    let mut seen = Seen::default();
    let mut visit = |visit: Visit| {
        if args.seed.is_some() {
            visit.output.iter().chain(&visit.errors).for_each(|line| println!("{line}"));
        }
        seen.add(&visit);
    };
    explore(&plan, seeds, &args.shifts, &mut visit, &mut tell)?;
    conclude(workspace, args, &seen)
}

fn image_of(workspace: &Workspace) -> anyhow::Result<String> {
    let whole = image::directory(workspace).join(Target::Whole.name());
    if !whole.exists() {
        bail!("{} isn't built: cargo xtask image", whole.display());
    }
    Ok(whole.to_str().context("the path of the image is text")?.to_owned())
}

impl Seen {
    fn add(&mut self, visit: &Visit) {
        self.visits += 1;
        self.interleavings.insert(visit.interleaving.clone());
        self.orders.insert(rules::order(&visit.output));
        self.cpu_s += visit.cpu_s;
        self.resident_mib = self.resident_mib.max(visit.resident_mib.unwrap_or(0));
        for broken in rules::broken(visit) {
            let Visit { seed, shift, .. } = visit;
            let finding = format!("{broken}; replay: cargo xtask explore --seed {seed} --shifts {shift}");
            eprintln!("{finding}");
            self.findings.push(finding);
        }
    }
}

fn conclude(workspace: &Workspace, args: &Args, seen: &Seen) -> anyhow::Result<ExitCode> {
    let record = json!({
        "version": 1,
        "visits": seen.visits,
        "first_seed": args.seed.unwrap_or(args.first_seed),
        "shifts": args.shifts,
        "interleavings": seen.interleavings.len(),
        "orders": seen.orders.len(),
        "findings": seen.findings,
        "cost": {
            "cpu_s": (seen.cpu_s * 10.0).round() / 10.0,
            "resident_mib": seen.resident_mib,
            "external_spend": 0,
        },
    });
    let text = serde_json::to_string_pretty(&record)? + "\n";
    let file = workspace.results().join(RECORD);
    std::fs::write(&file, &text).with_context(|| format!("write {}", file.display()))?;
    if args.json {
        print!("{text}");
    } else {
        println!(
            "{} visits: {} interleavings of threads, {} orders of answers, {} findings",
            seen.visits,
            seen.interleavings.len(),
            seen.orders.len(),
            seen.findings.len()
        );
        println!("record: {}", file.display());
    }
    Ok(if seen.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
