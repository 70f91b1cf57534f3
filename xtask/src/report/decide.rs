//! Whether the release is allowed: a plain function from what the runs left to the report. Whatever is missing,
//! doubled or doubtful blocks; nothing is assumed. A determinism *verdict* never blocks, a check that couldn't show
//! that it works does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bullets::BULLETS;
use super::model::{
    Bullet, Evidence, Level, Link, Listed, Outcome, Part, Pending, Proof, Recorded, Release, Report, Run,
    Shown, Status, Tests, VERSION,
};
use crate::nextest::{Slice, uncovered};

/// Fewer schedules than this say too little about a release.
pub(crate) const MIN_SEEDS: u64 = 1000;

/// A lost partition concerns hundreds of tests; the first few say enough.
const NAMED_TESTS: usize = 10;

/// Everything that the decision rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    pub(crate) links: Vec<Link>,
    pub(crate) manifest: Vec<Listed>,
    pub(crate) parts: Vec<Part>,
}

pub(crate) fn decide(input: Input) -> Report {
    let mut blockers = Vec::new();
    let runs: Vec<(&str, &Run)> =
        input.parts.iter().filter_map(|part| Some((part.name.as_str(), part.run.as_ref()?))).collect();
    blockers.extend(
        input
            .parts
            .iter()
            .filter(|part| part.run.is_none())
            .map(|part| format!("{}: no record of a test run: cargo xtask ci writes one", part.name)),
    );
    blockers.extend(runs_are_one_whole(&runs));
    blockers.extend(unlisted(&input.manifest, &input.parts));
    let bullets = bullets(&input.manifest, &input.parts, &mut blockers);
    let simulation = the_one(&input.parts, "simulation", |part| part.simulation.as_ref(), &mut blockers);
    blockers.extend(simulation.iter().flat_map(simulation_blocks));
    let determinism =
        the_one(&input.parts, "determinism check", |part| part.determinism.as_ref(), &mut blockers);
    blockers.extend(determinism.iter().flat_map(determinism_blocks));

    Report {
        version: VERSION,
        commit: runs.first().map_or_else(|| "unknown".to_owned(), |(_, run)| run.commit.clone()),
        links: input.links,
        release: if blockers.is_empty() { Release::Allowed } else { Release::Blocked },
        blockers,
        tests: Tests { total: runs.first().map_or(0, |(_, run)| run.whole.len()), partitions: runs.len() },
        bullets,
        simulation,
        determinism,
        bench: input.parts.into_iter().find_map(|part| part.bench),
    }
}

/// The runs are of one commit, know the same tests, ran each of them exactly once, and none failed.
fn runs_are_one_whole(runs: &[(&str, &Run)]) -> Vec<String> {
    let Some((_, first)) = runs.first() else { return vec!["no test run was recorded".to_owned()] };
    let mut blockers = Vec::new();
    for (name, run) in runs {
        if run.commit != first.commit {
            blockers.push(format!("{name}: of commit {}, but others are of {}", run.commit, first.commit));
        }
        if run.whole != first.whole {
            blockers.push(format!("{name}: knows other tests than the first partition"));
        }
        blockers.extend(run.failed_steps.iter().map(|step| format!("{name}: step {step} failed")));
    }
    if first.whole.is_empty() {
        blockers.push("there are no tests".to_owned());
    }
    let count = first.partition.count;
    let given: BTreeSet<Slice> = runs.iter().map(|(_, run)| run.partition).collect();
    let wanted = (1..=count).map(|index| Slice { index, count });
    blockers.extend(
        wanted.filter(|slice| !given.contains(slice)).map(|slice| format!("partition {slice} is missing")),
    );
    let ran: Vec<_> = runs.iter().map(|(_, run)| run.ran.clone()).collect();
    let mut problems = uncovered(&first.whole, &ran);
    let more = problems.len().saturating_sub(NAMED_TESTS);
    problems.truncate(NAMED_TESTS);
    if more > 0 {
        problems.push(format!("and {more} more tests that ran in no partition or in several"));
    }
    blockers.extend(problems);
    blockers
}

/// Evidence that the manifest doesn't know is a test somebody forgot to list, or a leftover: both are errors.
fn unlisted(manifest: &[Listed], parts: &[Part]) -> Vec<String> {
    parts
        .iter()
        .flat_map(|part| &part.evidence)
        .filter(|evidence| !manifest.iter().any(|listed| listed.test == evidence.test))
        .map(|evidence| format!("{}: left evidence, but the suite's manifest doesn't list it", evidence.test))
        .collect()
}

fn bullets(manifest: &[Listed], parts: &[Part], blockers: &mut Vec<String>) -> Vec<Bullet> {
    let mut bullets = Vec::new();
    for (id, title, _) in BULLETS {
        let mut levels = BTreeMap::new();
        for level in Level::ALL {
            let listed: Vec<_> =
                manifest.iter().filter(|listed| (listed.bullet, listed.level) == (id, level)).collect();
            let (proof, problems) = prove(level, &listed, parts);
            let place = format!("bullet {id} ({title}), {}", level.name());
            blockers.extend(problems.into_iter().map(|problem| format!("{place}: {problem}")));
            levels.insert(level, proof);
        }
        bullets.push(Bullet { id, title, levels });
    }
    bullets
}

/// What the tests listed for one bullet and level prove, and what is wrong.
fn prove(level: Level, listed: &[&Listed], parts: &[Part]) -> (Proof, Vec<String>) {
    if listed.is_empty() {
        let (status, problems) = match level {
            Level::External => (Status::NotApplicable, Vec::new()),
            Level::Simulated | Level::Process => (Status::Failed, vec!["no test is listed".to_owned()]),
        };
        return (Proof { status, pending: None, evidence: Vec::new() }, problems);
    }
    let (mut problems, mut shown, mut pending) = (Vec::new(), Vec::new(), None);
    for listed in listed {
        let found: Vec<&Evidence> = parts
            .iter()
            .flat_map(|part| &part.evidence)
            .filter(|evidence| evidence.test == listed.test)
            .collect();
        let problem = match &listed.pending {
            Some(reason) => {
                pending.get_or_insert_with(|| reason.clone());
                doubtful_pending(reason).or_else(|| found.iter().find_map(|evidence| wrong(listed, evidence)))
            }
            None => match found.as_slice() {
                [] => Some("left no evidence".to_owned()),
                [evidence] => wrong(listed, evidence),
                several => Some(format!("ran {} times", several.len())),
            },
        };
        shown.extend(found.iter().map(|evidence| Shown {
            test: evidence.test.clone(),
            outcome: if evidence.outcome == Recorded::Passed { Outcome::Passed } else { Outcome::Failed },
            seeds: evidence.seeds,
            duration_ms: evidence.duration_ms,
        }));
        problems.extend(problem.map(|problem| format!("{}: {problem}", listed.test)));
    }
    let status = match (problems.is_empty(), &pending) {
        (false, _) => Status::Failed,
        (true, Some(_)) => Status::Pending,
        (true, None) => Status::Proven,
    };
    (Proof { status, pending, evidence: shown }, problems)
}

fn doubtful_pending(pending: &Pending) -> Option<String> {
    match (pending.reason.trim().is_empty(), pending.issue.trim().is_empty()) {
        (false, false) => None,
        (true, false) => Some("pending without a reason".to_owned()),
        (false, true) => Some("pending without an issue".to_owned()),
        (true, true) => Some("pending without a reason and an issue".to_owned()),
    }
}

fn wrong(listed: &Listed, evidence: &Evidence) -> Option<String> {
    if (evidence.bullet, evidence.level) != (listed.bullet, listed.level) {
        return Some(format!("its evidence is for bullet {}, {}", evidence.bullet, evidence.level.name()));
    }
    match evidence.outcome {
        Recorded::Passed => None,
        Recorded::Failed => Some("failed".to_owned()),
        Recorded::Started => Some("started and never ended".to_owned()),
    }
}

/// The one result of its kind among the parts.
fn the_one<'a>(
    parts: &'a [Part],
    what: &str,
    pick: impl Fn(&'a Part) -> Option<&'a Value>,
    blockers: &mut Vec<String>,
) -> Option<Value> {
    let found: Vec<&Value> = parts.iter().filter_map(pick).collect();
    match found.as_slice() {
        [one] => Some((*one).clone()),
        [] => {
            blockers.push(format!("the {what} left no result"));
            None
        }
        several => {
            blockers.push(format!("the {what} left {} results, one was expected", several.len()));
            None
        }
    }
}

/// Enough seeds, the same transcript in two processes, and every planted bug caught.
fn simulation_blocks(simulation: &Value) -> Vec<String> {
    let mut blockers = Vec::new();
    let seeds = simulation["seeds"].as_u64().unwrap_or(0);
    if seeds < MIN_SEEDS {
        blockers.push(format!("simulation: {seeds} seeds, at least {MIN_SEEDS} are needed"));
    }
    match (simulation["transcript_sha256"].as_str(), simulation["repeated_sha256"].as_str()) {
        (Some(first), Some(second)) if first == second => {}
        (Some(first), Some(second)) => {
            blockers.push(format!("simulation: the same seeds gave the transcripts {first} and {second}"));
        }
        _ => blockers.push("simulation: no two transcripts to compare".to_owned()),
    }
    let planted = simulation["planted"].as_array().map(Vec::as_slice).unwrap_or_default();
    if planted.is_empty() {
        blockers.push("simulation: no bug was planted, so nothing shows that one would be caught".to_owned());
    }
    let survived = planted.iter().filter(|hunt| !hunt["caught_by_seed"].is_u64());
    blockers.extend(survived.map(|hunt| {
        format!("simulation: the planted bug {} was not caught", hunt["bug"].as_str().unwrap_or("?"))
    }));
    blockers
}

/// The controls beside the subject behaved; what the check then said about the subject is no matter.
pub(crate) fn determinism_blocks(determinism: &Value) -> Vec<String> {
    let controls = determinism["controls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if controls.is_empty() {
        return vec!["determinism: no control ran".to_owned()];
    }
    controls
        .iter()
        .filter(|control| control["passed"] != Value::Bool(true))
        .map(|control| {
            format!("determinism: the control {} failed", control["name"].as_str().unwrap_or("(unnamed)"))
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests;
