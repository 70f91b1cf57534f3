//! Checks that must not have an answer.

use std::time::Duration;

use tidegate_determinism::{Condition, Decision, Level, Plan, Reason, Record, RunError, run};

use crate::support::{companion_with, expect, plan, script, shell};

fn no_result(plan: &Plan, reason: Reason, detail: &str) -> Record {
    let record = expect(plan, Level::NoResult);
    assert_eq!(record.verdict.reason, Some(reason));
    let said = record.verdict.detail.as_deref().unwrap();
    assert!(said.contains(detail), "{said:?}");
    assert_eq!(record.recommendation.decision, Decision::NoGo);
    assert_eq!(record.exit_code(), 1);
    assert!(record.answer().starts_with("No result for "));
    record
}

#[test]
fn zero_records_are_never_equal() {
    no_result(&plan(&["true"]), Reason::NoRecords, "wrote nothing");
    no_result(&shell("exit 3"), Reason::NoRecords, "wrote nothing");

    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let mut silent_when_loaded = shell(&format!("[ -e '{0}' ] || echo idle", mark.display()));
    silent_when_loaded.conditions = vec![Condition::Idle, Condition::Loaded];
    silent_when_loaded.hogs = 1;
    silent_when_loaded.companion = companion_with(&directory, "hog", &format!("touch '{}'", mark.display()));
    no_result(&silent_when_loaded, Reason::NoRecords, "in the condition loaded wrote nothing");
}

#[test]
fn a_run_that_does_not_end_is_a_time_out() {
    let mut endless = shell("echo started; exec sleep 1000");
    endless.deadline = Duration::from_millis(300);
    no_result(&endless, Reason::Timeout, "it did not end within 300ms");

    let mut held_open = shell("sleep 1000 & echo started");
    held_open.deadline = Duration::from_millis(300);
    no_result(&held_open, Reason::Timeout, "something it had started kept its output open");

    let mut silent = shell("read line; exec sleep 1000");
    silent.deadline = Duration::from_millis(300);
    silent.script = Some(script("{\"send\": {\"id\": 7}}\n{\"expect\": 7}\n"));
    no_result(&silent, Reason::Timeout, "its answer to 7 did not come");
}

#[test]
fn a_subject_that_never_reads_cannot_hold_up_the_deadline() {
    let mut deaf = shell("exec sleep 1000");
    deaf.deadline = Duration::from_millis(300);
    let line = "x".repeat(1 << 20);
    deaf.script = Some(script(&format!("{{\"send_line\": \"{line}\"}}\n")));
    no_result(&deaf, Reason::Timeout, "it did not end within 300ms");
}

#[test]
fn a_subject_that_cannot_start_is_a_prerequisite_that_is_missing() {
    let plan = plan(&["no-such-program-anywhere"]);
    let record = no_result(&plan, Reason::StartFailed, "failed to start no-such-program-anywhere");
    let missing =
        record.prerequisites.iter().find(|prerequisite| prerequisite.name == "subject_found").unwrap();
    assert_eq!((missing.state.as_str(), missing.blocks.as_slice()), ("missing", &["native".to_owned()][..]));
}

#[test]
fn a_subject_that_ends_before_its_conversation_has_no_result() {
    let mut plan = shell("read line; echo not an answer");
    plan.script = Some(script("{\"send\": {\"id\": 7}}\n{\"expect\": 7}\n"));
    no_result(&plan, Reason::ScriptIncomplete, "ended before its answer to 7");
}

#[test]
fn output_without_end_is_cut_off() {
    no_result(&plan(&["yes"]), Reason::OutputTooLarge, "a run wrote more than");
}

#[test]
fn a_control_that_does_not_do_what_it_has_to_takes_the_result_away() {
    let directory = tempfile::tempdir().unwrap();
    for (control, replacement, detail) in [
        ("urandom", "exec echo 4", "positive control `urandom`: expected differs, observed equal"),
        ("pure-text", "exec echo $$", "negative control `pure-text`: expected equal, observed differs"),
        ("pure-numbers", "exit 1", "observed ended with exit 1 after 0 bytes"),
        ("seed", "exec echo 4", "seed control `seed`: expected differs between seeds only, observed equal"),
    ] {
        let mut plan = plan(&["echo", "steady"]);
        plan.companion = companion_with(&directory, &format!("control {control}"), replacement);
        no_result(&plan, Reason::ControlFailed, detail);
    }
}

#[test]
fn without_its_companion_a_check_cannot_run() {
    for path in ["/no/such/companion", "/bin/true", "/bin/cat"] {
        let mut plan = plan(&["echo", "steady"]);
        plan.companion = path.into();
        let error = run(&plan, &mut |_| ()).unwrap_err();
        assert!(matches!(error, RunError::Companion { .. }), "{path}: {error}");
    }
}
