//! Tables for the decision: one complete run that allows a release, and every way of falling short of it.

use serde_json::json;

use super::*;

fn listed(bullet: u8, level: Level) -> Listed {
    Listed { bullet, level, test: format!("bullet_{bullet}_{}", level.name()), pending: None }
}

fn evidence(listed: &Listed) -> Evidence {
    Evidence {
        test: listed.test.clone(),
        bullet: listed.bullet,
        level: listed.level,
        outcome: Recorded::Passed,
        seeds: (listed.level == Level::Simulated).then_some(1000),
        duration_ms: 12,
    }
}

fn run(index: usize, count: usize, ran: &[&str]) -> Run {
    let set = |tests: &[&str]| tests.iter().map(|test| (*test).to_owned()).collect();
    Run {
        version: VERSION,
        commit: "c0ffee".to_owned(),
        partition: Slice { index, count },
        whole: set(&["core a", "suite b"]),
        ran: set(ran),
        failed_steps: Vec::new(),
    }
}

/// One run in which everything is as it should be.
pub(crate) fn complete() -> Input {
    let manifest: Vec<Listed> = (1..=10)
        .flat_map(|bullet| [listed(bullet, Level::Simulated), listed(bullet, Level::Process)])
        .collect();
    let part = Part {
        name: "all".to_owned(),
        run: Some(run(1, 1, &["core a", "suite b"])),
        evidence: manifest.iter().map(evidence).collect(),
        simulation: Some(json!({
            "seeds": 1000, "steps": 61_234, "transcript_sha256": "ab".repeat(32), "repeated_sha256": "ab".repeat(32),
            "planted": [{
                "bug": "own-request-approved", "bullet": 1, "caught_by_seed": 18,
                "caught_as": "no unilateral restart", "steps": 412, "seeds": 19,
            }],
        })),
        determinism: Some(json!({
            "version": 1,
            "controls": [{"name": "urandom", "kind": "positive", "expected": "diverged", "observed": "diverged", "passed": true}],
            "verdict": {"level": "diverged", "qualifiers": ["controls_passed"]},
        })),
        bench: Some(json!({
            "effort": "quick",
            "machine": { "processor": "A Processor", "processors": 2, "kernel": "Linux 6", "file_system": "ext4" },
            "rows": [
                { "name": "freshness", "ours": "a check", "theirs": "a clock", "goal": "<= 3", "verdict": "reached", "ratio": { "median": 2.5, "least": 2.4, "most": 2.7 } },
                { "name": "writers-etcd", "ours": "16", "theirs": "16", "goal": ">= 1.5", "verdict": "not_run", "ratio": null, "reason": "no etcd" },
            ],
        })),
    };
    Input { links: Vec::new(), manifest, parts: vec![part] }
}

/// The same run, divided: the second partition took half of the tests and of the evidence.
fn divided() -> Input {
    let mut input = complete();
    let second = Part {
        name: "2".to_owned(),
        run: Some(run(2, 2, &["suite b"])),
        evidence: input.parts[0].evidence.split_off(10),
        ..Part::default()
    };
    input.parts[0].run = Some(run(1, 2, &["core a"]));
    input.parts.push(second);
    input
}

#[track_caller]
fn check_from(mut input: Input, change: impl FnOnce(&mut Input), expected: &[&str]) {
    change(&mut input);
    let report = decide(input);
    assert_eq!(report.blockers, expected);
    assert_eq!(report.release == Release::Allowed, expected.is_empty());
}

#[track_caller]
fn check(change: impl FnOnce(&mut Input), expected: &[&str]) {
    check_from(complete(), change, expected);
}

fn status(change: impl FnOnce(&mut Input), bullet: u8, level: Level) -> Status {
    let mut input = complete();
    change(&mut input);
    decide(input).bullets[usize::from(bullet) - 1].levels[&level].status
}

#[test]
fn a_complete_run_allows_the_release() {
    check(|_| {}, &[]);
    check_from(divided(), |_| {}, &[]);
    for bullet in 1..=10 {
        assert_eq!(status(|_| {}, bullet, Level::Simulated), Status::Proven);
        assert_eq!(status(|_| {}, bullet, Level::Process), Status::Proven);
        assert_eq!(status(|_| {}, bullet, Level::External), Status::NotApplicable);
    }
}

#[test]
fn a_listed_test_without_evidence_has_failed() {
    let remove = |input: &mut Input| drop(input.parts[0].evidence.remove(0));
    check(remove, &["bullet 1 (no unilateral restart), simulated: bullet_1_simulated: left no evidence"]);
    assert_eq!(status(remove, 1, Level::Simulated), Status::Failed);
}

#[test]
fn a_bullet_without_a_listed_test_has_failed() {
    check(
        |input| {
            input.manifest.remove(1);
            input.parts[0].evidence.remove(1);
        },
        &["bullet 1 (no unilateral restart), process: no test is listed"],
    );
}

#[test]
fn a_test_that_failed_or_never_ended_blocks() {
    let set = |outcome| move |input: &mut Input| input.parts[0].evidence[19].outcome = outcome;
    let place = "bullet 10 (no chat reconstruction), process: bullet_10_process";
    check(set(Recorded::Failed), &[&format!("{place}: failed")]);
    check(set(Recorded::Started), &[&format!("{place}: started and never ended")]);
    assert_eq!(status(set(Recorded::Started), 10, Level::Process), Status::Failed);
}

#[test]
fn evidence_counts_only_for_the_bullet_and_level_it_is_listed_for() {
    check(
        |input| input.parts[0].evidence[0].bullet = 2,
        &[
            "bullet 1 (no unilateral restart), simulated: bullet_1_simulated: its evidence is for bullet 2, simulated",
        ],
    );
    check(
        |input| {
            input.parts[0]
                .evidence
                .push(evidence(&Listed { test: "stray".to_owned(), ..listed(1, Level::Process) }))
        },
        &["stray: left evidence, but the suite's manifest doesn't list it"],
    );
}

#[test]
fn pending_needs_a_reason_and_an_issue() {
    let pend = |reason: &'static str, issue: &'static str| {
        move |input: &mut Input| {
            input.manifest[2].pending = Some(Pending { reason: reason.to_owned(), issue: issue.to_owned() });
            input.parts[0].evidence.remove(2);
        }
    };
    let place = "bullet 2 (new work stops during drain), simulated: bullet_2_simulated";
    check(pend("no such kernel here", "https://example.org/7"), &[]);
    check(pend("", "https://example.org/7"), &[&format!("{place}: pending without a reason")]);
    check(pend("no such kernel here", " "), &[&format!("{place}: pending without an issue")]);
    check(pend("", ""), &[&format!("{place}: pending without a reason and an issue")]);
    assert_eq!(
        status(pend("no such kernel here", "https://example.org/7"), 2, Level::Simulated),
        Status::Pending
    );
    assert_eq!(status(pend("", ""), 2, Level::Simulated), Status::Failed);
}

#[test]
fn a_test_that_is_pending_and_ran_all_the_same_may_not_fail() {
    check(
        |input| {
            input.manifest[2].pending = Some(Pending { reason: "r".to_owned(), issue: "i".to_owned() });
            input.parts[0].evidence[2].outcome = Recorded::Failed;
        },
        &["bullet 2 (new work stops during drain), simulated: bullet_2_simulated: failed"],
    );
}

#[test]
fn each_test_runs_in_exactly_one_partition() {
    let run_of = |input: &mut Input, part: usize| input.parts[part].run.take().unwrap();
    check_from(
        divided(),
        |input| {
            let mut run = run_of(input, 1);
            run.ran.insert("core a".to_owned());
            input.parts[1].run = Some(run);
        },
        &["core a: in 2 slices"],
    );
    check_from(
        divided(),
        |input| {
            let mut run = run_of(input, 1);
            run.ran.clear();
            input.parts[1].run = Some(run);
        },
        &["suite b: in no slice"],
    );
    check_from(
        divided(),
        |input| {
            let again = input.parts[0].evidence[0].clone();
            input.parts[1].evidence.push(again);
        },
        &["bullet 1 (no unilateral restart), simulated: bullet_1_simulated: ran 2 times"],
    );
}

#[test]
fn of_many_tests_that_did_not_run_the_first_few_are_named() {
    let mut input = complete();
    let run = input.parts[0].run.as_mut().unwrap();
    run.whole.extend((10..40).map(|number| format!("core lost {number}")));
    let blockers = decide(input).blockers;
    assert_eq!(blockers.len(), 11, "{blockers:#?}");
    assert_eq!(blockers[0], "core lost 10: in no slice");
    assert_eq!(blockers[10], "and 20 more tests that ran in no partition or in several");
}

#[test]
fn partitions_of_one_run_belong_together() {
    check_from(
        divided(),
        |input| input.parts[1].run.iter_mut().for_each(|run| run.commit = "beef".to_owned()),
        &["2: of commit beef, but others are of c0ffee"],
    );
    check_from(
        divided(),
        |input| input.parts[1].run.iter_mut().for_each(|run| run.whole.extend(["core new".to_owned()])),
        &["2: knows other tests than the first partition"],
    );
    check_from(
        divided(),
        |input| input.parts[1].run.iter_mut().for_each(|run| run.failed_steps.push("tests".to_owned())),
        &["2: step tests failed"],
    );
    check_from(
        divided(),
        |input| input.parts[1].run = None,
        &[
            "2: no record of a test run: cargo xtask ci writes one",
            "partition slice:2/2 is missing",
            "suite b: in no slice",
        ],
    );
}

#[test]
fn a_report_about_nothing_blocks() {
    let report = decide(Input::default());
    assert_eq!(report.release, Release::Blocked);
    assert_eq!(report.blockers.len(), 1 + 20 + 2, "{:#?}", report.blockers);
}

#[test]
fn the_simulation_needs_a_thousand_seeds_and_the_same_transcript_twice() {
    let set = |key: &'static str, value: Value| {
        move |input: &mut Input| input.parts[0].simulation.as_mut().unwrap()[key] = value
    };
    check(set("seeds", json!(999)), &["simulation: 999 seeds, at least 1000 are needed"]);
    check(set("repeated_sha256", json!(null)), &["simulation: no two transcripts to compare"]);
    check(
        |input| {
            let simulation = input.parts[0].simulation.as_mut().unwrap();
            (simulation["transcript_sha256"], simulation["repeated_sha256"]) = (json!("a"), json!("b"));
        },
        &["simulation: the same seeds gave the transcripts a and b"],
    );
    let none = "simulation: no bug was planted, so nothing shows that one would be caught";
    check(set("planted", json!([])), &[none]);
    check(
        set("planted", json!([{ "bug": "closing-does-not-close", "bullet": 2, "caught_by_seed": null }])),
        &["simulation: the planted bug closing-does-not-close was not caught"],
    );
    check(|input| input.parts[0].simulation = None, &["the simulation left no result"]);
    check_from(
        divided(),
        |input| input.parts[1].simulation = input.parts[0].simulation.clone(),
        &["the simulation left 2 results, one was expected"],
    );
}

#[test]
fn a_determinism_verdict_never_blocks_but_a_failed_control_does() {
    let set = |key: &'static str, value: Value| {
        move |input: &mut Input| input.parts[0].determinism.as_mut().unwrap()[key] = value
    };
    for level in ["not_run", "no_result", "diverged", "E1_output_equal"] {
        check(set("verdict", json!({"level": level, "qualifiers": []})), &[]);
    }
    check(
        set("controls", json!([{"name": "urandom", "passed": true}, {"name": "tsc", "passed": false}])),
        &["determinism: the control tsc failed"],
    );
    check(set("controls", json!([{"name": "urandom"}])), &["determinism: the control urandom failed"]);
    check(set("controls", json!([])), &["determinism: no control ran"]);
    check(|input| input.parts[0].determinism = None, &["the determinism check left no result"]);
}
