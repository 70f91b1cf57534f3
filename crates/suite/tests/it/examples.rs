//! Each crate that is useful alone has an example, and the example does what it says.

use std::process::Command;
use tidegate_suite::harness::profile;

/// Runs the example of a package and finds `expected` in what it prints.
#[track_caller]
fn check(package: &str, example: &str, arguments: &[&str], expected: &[&str]) {
    // With the whole workspace named, what is built is what was built for the tests.
    let built = profile();
    let target = built.parent().expect("the target directory");
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--examples", "--profile", profile, "--target-dir"])
        .arg(target)
        .output()
        .expect("cargo runs");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let output = Command::new(built.join("examples").join(example))
        .args(arguments)
        .output()
        .expect("the example runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{package} {example}: {said}{complained}");
    for text in expected {
        assert!(said.contains(text), "{package} {example} doesn't say {text:?}:\n{said}");
    }
}

#[test]
fn leases_survive_kill_9() {
    check(
        "tidegate-leases",
        "survives_kill",
        &[],
        &["is killed with signal 9", "has the lease at once", "refuses the old fence"],
    );
}

#[test]
fn a_drain_is_refused_by_a_stuck_write_and_succeeds_without_it() {
    check("tidegate-drain", "lull", &[], &["refused by 1 holders, open again", "d2:"]);
}

#[test]
fn a_session_is_told_what_to_do_by_a_process_that_knows_only_the_store() {
    check(
        "tidegate-checkpoints",
        "restart_under_a_session",
        &[],
        &["the daemon is killed", "chapters 1 to 3 are written"],
    );
}

#[test]
fn an_incident_is_one_redacted_and_comes_back() {
    check("tidegate-incidents", "watchdog", &[], &["WHO_IS_NEXT", "[redacted]"]);
}

#[test]
fn a_store_counts_what_was_committed() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let state = state.to_str().expect("a plain path");
    check("tidegate-store", "counter", &[state, "3"], &["3"]);
    check("tidegate-store", "counter", &[state, "2"], &["5"]);
}

#[test]
fn a_restart_runs_from_the_request_to_the_end() {
    check("tidegate-governor", "restart", &[], &["Completed"]);
}
