//! The command line: what makes no sense is refused by name, with exit code 2.

use std::process::Command;

#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(expected), "{args:?} should say {expected:?}, said {said:?}");
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_would() {
    refused(&["ci", "--partition", "count:1/2"], "write slice:INDEX/COUNT");
    refused(&["ci", "--partition", "slice:3/2"], "write slice:INDEX/COUNT");
    refused(&["simulate", "--seeds", "0"], "0 is not in 1..");
    refused(&["simulate", "--seeds", "5", "--seed", "7"], "cannot be used with");
    refused(&["check", "--only", "spelling"], "possible values: fmt, tidy");
    refused(&["bench", "--only"], "a value is required");
    refused(&["explore", "--seeds", "none"], "invalid value 'none'");
    refused(&["soak", "10m"], "unexpected argument '10m'");
    refused(&["release"], "unrecognized subcommand 'release'");
}
