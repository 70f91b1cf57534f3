//! `.ci/conclude`: what the one required check of CI says about every combination of results that matters.

use std::path::Path;
use std::process::Command;

#[track_caller]
fn check(results: [&str; 6], expected: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/conclude");
    let output = Command::new(script).args(results).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{results:?}");
    assert_eq!(output.status.code(), Some(i32::from(!expected.is_empty())), "{results:?}");
}

const OK: &str = "success";
const NO: &str = "skipped";

#[test]
fn a_change_passes_when_everything_planned_has_succeeded() {
    check(["true", OK, OK, OK, OK, NO], &[]);
    check(["true", OK, OK, OK, OK, OK], &[]);
    check(["false", OK, OK, NO, NO, NO], &[]);
}

#[test]
fn a_job_that_failed_was_cancelled_or_lost_blocks() {
    for bad in ["failure", "cancelled", "skipped"] {
        check(["true", OK, OK, bad, OK, NO], &[&format!("partition: {bad}, expected success")]);
        check(["true", OK, OK, OK, bad, NO], &[&format!("report: {bad}, expected success")]);
        check(["true", OK, bad, OK, OK, NO], &[&format!("check: {bad}, expected success")]);
    }
    check(["true", OK, OK, OK, OK, "failure"], &["full: failure, expected success skipped"]);
    check(["true", OK, OK, "", OK, NO], &["partition: no result, expected success"]);
}

#[test]
fn without_a_plan_nothing_is_excused() {
    check(
        ["", "failure", OK, NO, NO, NO],
        &[
            "plan: failure, expected success",
            "run: no result, expected true false",
            "partition: skipped, expected success",
            "report: skipped, expected success",
        ],
    );
    check(["false", OK, OK, OK, NO, NO], &["partition: success, expected skipped"]);
}
