//! `tidegate doctor`: what is wrong is found, with what to do, and what is right is not.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use tidegate_suite::harness::{Output, Plan, Rig};

/// The doctor's output in a house without clients.
fn look(rig: &Rig) -> Output {
    let mut command = rig.command(None);
    command.args(["doctor", "--json"]).env("HOME", rig.root()).current_dir(rig.root());
    Output::of(&mut command)
}

fn findings<'a>(document: &'a Value, verdict: &str) -> Vec<&'a str> {
    let all = document["findings"].as_array().unwrap().iter();
    all.filter(|it| it["verdict"] == verdict).map(|it| it["said"].as_str().unwrap()).collect()
}

#[test]
fn a_house_in_order_is_found_in_order() {
    let rig = Plan::new().fault("files", &[]).start();
    rig.is_ready("files");
    let document = look(&rig).done();
    assert_eq!((&document["version"], &document["healthy"]), (&1.into(), &true.into()), "{document:#}");
    assert_eq!(
        (findings(&document, "failed"), findings(&document, "warning")),
        (vec![], vec![]),
        "{document:#}"
    );
    for finding in document["findings"].as_array().unwrap() {
        assert!(finding["check"].is_string() && finding["next"].is_null(), "{finding}");
    }
    let said = findings(&document, "ok").join("\n");
    for expected in ["/proc", "1 component, 1 operator", "records", "it answers: 1 component", "files: /"] {
        assert!(said.contains(expected), "{expected:?} is not in {said}");
    }
}

#[test]
fn looking_changes_nothing() {
    let rig = Plan::new().fault("files", &[]).build();
    let document = look(&rig).done();
    assert_eq!(findings(&document, "warning"), ["none is running"], "{document:#}");
    assert!(!rig.state().exists());
}

#[test]
fn whatever_keeps_a_daemon_from_working_is_found_with_what_to_do() {
    let check = |rig: &Rig, verdict: &str, expected: &str| {
        let output = look(rig);
        assert_eq!(output.code, i32::from(verdict == "failed"), "{output:?}");
        let document = output.document();
        let found = document["findings"].as_array().unwrap().iter().find(|it| {
            it["verdict"] == verdict && it["said"].as_str().is_some_and(|said| said.contains(expected))
        });
        let found = found.unwrap_or_else(|| panic!("{expected:?} is not among {document:#}"));
        assert!(found["next"].as_str().is_some_and(|next| !next.is_empty()), "{found}");
    };

    let rig = Plan::new().component("broken", &["no-such-program-anywhere"], "").build();
    check(&rig, "failed", "no-such-program-anywhere");
    let rig = Plan::new().policy("approvalls = 1").fault("files", &[]).build();
    check(&rig, "failed", "did you mean `approvals`?");
    let rig = Plan::new().policy("approvals = 2").fault("files", &[]).build();
    check(&rig, "warning", "asks for 2 approval(s)");

    // A state directory that somebody else may read, and one whose journal is none.
    let rig = Plan::new().fault("files", &[]).build();
    std::fs::create_dir(rig.state()).unwrap();
    std::fs::set_permissions(rig.state(), std::fs::Permissions::from_mode(0o755)).unwrap();
    check(&rig, "warning", "others can look into");
    std::fs::set_permissions(rig.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(rig.state().join("journal"), "no journal at all, and longer than a header is").unwrap();
    check(&rig, "failed", "journal");

    // A component that does not start, as its daemon tells it.
    let rig = Plan::new().fault("files", &["--die-at", "start"]).start();
    tidegate_suite::harness::eventually("files is given up for a while", || {
        rig.component("files")["state"] == "unavailable"
    });
    check(&rig, "failed", "files is unavailable");
}

#[test]
fn for_people_it_ends_with_a_sum_and_its_exit_code_says_the_same() {
    let rig = Plan::new().component("broken", &["no-such-program-anywhere"], "").build();
    let mut command = rig.command(None);
    let output = Output::of(command.arg("doctor").env("HOME", rig.root()).current_dir(rig.root()));
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stdout.ends_with("1 to repair, 1 to look at.\n"), "{output:?}");
    assert!(!output.stdout.contains('\u{1b}'), "no colours where nobody sees them: {output:?}");
}

#[test]
fn a_server_that_writes_to_its_standard_output_what_is_no_message_is_told_to() {
    let noise = ["--banner", "Server 1.0 is ready", "--banner", "", "--banner", r#"{"level":"info"}"#];
    let rig = Plan::new().fault("loud", &noise).start();
    assert_eq!(rig.is_ready("loud")["skipped_lines"], 3);
    let document = look(&rig).done();
    let warnings = findings(&document, "warning");
    assert!(warnings.iter().any(|it| it.starts_with("loud wrote 3 lines")), "{document:#}");
}
