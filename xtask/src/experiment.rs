//! `cargo xtask experiment`: the container determinism experiment of `docs/experiments`, repeated by one command. Each of
//! its checks leaves its own record; bounds of different checks are never added up.

use std::process::Command;

use anyhow::bail;

use crate::board::{Board, Step};
use crate::image::{self, Target};
use crate::process::{Program, Show};
use crate::report;
use crate::workspace::Workspace;

/// What was decided about access and cost, as seen from the workspace's root.
const DECISIONS: &str = "docs/experiments/decisions.json";
/// Below the results: one directory for each check.
const EXPERIMENT: &str = "experiment";

/// One check of the experiment.
struct Check {
    name: &'static str,
    target: Target,
    budget_s: u64,
    args: &'static str,
}

/// The small workload is run often from a snapshot, the whole image a few times from its boot, and the small one in a
/// sandbox, which is the cheaper means.
const CHECKS: [Check; 3] = [
    Check {
        name: "small-restored",
        target: Target::Small,
        budget_s: 2 * 3600,
        args: "--executor vm --part restored --runs 60 --budget 90m --deadline 300s --ablate --wanted mcpx",
    },
    Check {
        name: "whole-boot",
        target: Target::Whole,
        budget_s: 2 * 3600,
        args: "--executor vm --part boot --runs 5 --budget 90m --deadline 300s --wanted mcpx",
    },
    Check {
        name: "small-sandbox",
        target: Target::Small,
        budget_s: 900,
        args: "--executor sandbox --runs 20 --ablate",
    },
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run these checks alone
    #[arg(long, value_name = "NAME", value_parser = CHECKS.map(|check| check.name))]
    only: Vec<String>,
}

impl Args {
    /// One check alone.
    pub(crate) fn only(name: &str) -> Self {
        Self { only: vec![name.to_owned()] }
    }
}

/// Runs the checks; whether all of them reached a verdict is the answer.
pub(crate) fn run(board: &mut Board, workspace: &Workspace, args: &Args) {
    let wanted = |check: &&Check| args.only.is_empty() || args.only.iter().any(|name| name == check.name);
    let checks: Vec<&Check> = CHECKS.iter().filter(wanted).collect();
    for target in [Target::Small, Target::Whole] {
        let needed = checks.iter().any(|check| check.target == target);
        let args = image::Args { small: target == Target::Small, twice: false };
        if needed && !image::run(board, workspace, args) {
            return;
        }
    }
    for check in checks {
        let again = format!("cargo xtask experiment --only {}", check.name);
        board.step(&Step::new(check.name, check.budget_s, again), |timer| {
            let out = workspace.results().join(EXPERIMENT).join(check.name);
            let mut command = Command::new("/proc/self/exe");
            command.arg("determinism").args(check.args.split(' ')).arg("--decisions").arg(DECISIONS);
            command.arg("--image").arg(image::directory(workspace).join(check.target.name()));
            command.arg("--out").arg(&out).current_dir(&workspace.root);
            let ended = Program { what: check.name, command, show: Show::Live, logs: &workspace.logs() }
                .run(timer)?;
            let file = out.join("determinism.json");
            let Some(record) = report::read::<serde_json::Value>(&file)? else {
                bail!("the check left no {}", file.display())
            };
            if !ended.status.success() {
                bail!("no verdict: read {}", out.join("determinism.md").display());
            }
            Ok(record["verdict"]["level"].as_str().unwrap_or("no level").to_owned())
        });
    }
}
