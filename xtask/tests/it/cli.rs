//! The command line: what isn't there yet and what makes no sense is refused by name, with exit code 2.

use std::process::Command;

#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(expected), "{args:?} should say {expected:?}, said {said:?}");
}

#[test]
fn what_comes_later_is_refused_whatever_is_asked_of_it() {
    refused(&["image"], "cargo xtask image is not available yet");
    refused(&["bench", "--json"], "cargo xtask bench is not available yet");
    refused(&["explore", "--", "sh"], "cargo xtask explore is not available yet");
    refused(&["soak", "10m"], "cargo xtask soak is not available yet");
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_would() {
    refused(&["ci", "--partition", "count:1/2"], "write slice:INDEX/COUNT");
    refused(&["ci", "--partition", "slice:3/2"], "write slice:INDEX/COUNT");
    refused(&["simulate", "--seeds", "0"], "0 is not in 1..");
    refused(&["simulate", "--seeds", "5", "--seed", "7"], "cannot be used with");
    refused(&["check", "--only", "spelling"], "possible values: fmt, tidy");
    refused(&["release"], "unrecognized subcommand 'release'");
}
