//! Plans and checks that the tests share. Every record that a test gets has been held against the schema.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tidegate_determinism::{Condition, Level, Plan, Record, Script, run};

/// The binary of this crate.
pub(crate) fn companion() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tidegate-determinism"))
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A few idle runs with a deadline that a test can wait for.
pub(crate) fn plan(argv: &[&str]) -> Plan {
    let mut plan = Plan::new(argv.iter().copied(), companion());
    plan.runs = 3;
    plan.conditions = vec![Condition::Idle];
    plan.deadline = Duration::from_secs(30);
    plan
}

/// A plan whose subject is one of our own programs.
pub(crate) fn program(name: &str) -> Plan {
    plan(&[companion().to_str().unwrap(), "control", name])
}

/// A plan whose subject is a shell script.
pub(crate) fn shell(script: &str) -> Plan {
    plan(&["sh", "-c", script])
}

/// A script of a conversation, from a file of its own.
pub(crate) fn script(text: &str) -> Script {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Script::read(file.path()).unwrap()
}

/// Runs a plan and holds the record against the schema.
pub(crate) fn check(plan: &Plan) -> Record {
    let record = run(plan, &mut |_| ()).unwrap();
    let faults = faults(&serde_json::to_value(&record).unwrap());
    assert!(faults.is_empty(), "{faults:#?}");
    record
}

/// Runs a plan that has to end with a level.
pub(crate) fn expect(plan: &Plan, level: Level) -> Record {
    let record = check(plan);
    assert_eq!(record.verdict.level, level, "{}", record.markdown());
    record
}

/// Where a document doesn't hold to the schema.
pub(crate) fn faults(document: &Value) -> Vec<String> {
    let schema = std::fs::read_to_string(repository("schemas/determinism.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap().iter_errors(document).map(|error| error.to_string()).collect()
}

/// A companion that does something else first, or instead, where its arguments are these.
pub(crate) fn companion_with(directory: &tempfile::TempDir, arguments: &str, shell: &str) -> PathBuf {
    let path = directory.path().join("companion");
    let real = companion().display();
    let text = format!("#!/bin/sh\n[ \"$*\" = '{arguments}' ] && {shell}\nexec '{real}' \"$@\"\n");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}
