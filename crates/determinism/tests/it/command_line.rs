//! The binary as a person or a script meets it.

use std::path::Path;
use std::process::{Command, Output};

use tidegate_determinism::Record;

use crate::support::{companion, faults};

fn tool(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(companion()).args(arguments).current_dir(directory).output().unwrap()
}

fn check(arguments: &[&str], exit: i32, stdout: &str, stderr: &str) {
    let directory = tempfile::tempdir().unwrap();
    let output = tool(directory.path(), arguments);
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}{complained}");
    assert!(said.starts_with(stdout), "{arguments:?}: {said}");
    assert!(complained.contains(stderr), "{arguments:?}: {complained}");
}

#[test]
fn the_exit_code_says_whether_there_is_a_verdict() {
    let idle = ["--condition", "idle", "--runs", "3"];
    let with = |rest: &[&'static str]| [&idle[..], rest].concat();
    check(&with(&["--", "echo", "a"]), 0, "E1_output_equal (controls_passed): from one seed, `echo a`", "");
    check(&with(&["--", "sh", "-c", "echo $$"]), 0, "Diverged: from one seed,", "");
    check(&with(&["--", "true"]), 1, "No result for `true`: NO_RECORDS", "");
    check(&[], 2, "", "nothing to run: name the subject after `--`");
    check(&["--image", "x"], 2, "", "there is no image at x");
    check(
        &with(&["--executor", "antithesis", "--", "a"]),
        1,
        "Not run `a`: EXECUTOR_UNAVAILABLE, it is only",
        "",
    );
    check(
        &["--out", "/dev/null/x", "--condition", "idle", "--", "echo", "a"],
        2,
        "",
        "failed to write /dev/null/x",
    );
    check(&["control", "nonsense"], 2, "", "possible values: urandom");
    check(&["--script", "none", "--", "cat"], 2, "", "failed to read the script none");
}

#[test]
fn every_file_is_written_whole_and_the_json_is_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let output = tool(directory.path(), &["--condition", "idle", "--json", "--", "echo", "a"]);
    let out = directory.path().join("target/tidegate/determinism");
    let json = std::fs::read_to_string(out.join("determinism.json")).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), json);
    assert_eq!(faults(&serde_json::from_str(&json).unwrap()), Vec::<String>::new());
    let record: Record = serde_json::from_str(&json).unwrap();
    assert_eq!(record.reproduce, "tidegate-determinism --runs 5 --condition idle --seed 1 -- echo a");
    let markdown = std::fs::read_to_string(out.join("determinism.md")).unwrap();
    assert_eq!(markdown, record.markdown());
    let mut names: Vec<_> = out.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["determinism.json", "determinism.md", "index.html"]);
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert_eq!(page, record.html());
    for elsewhere in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(elsewhere), "the page needs {elsewhere:?} from elsewhere");
    }
}
