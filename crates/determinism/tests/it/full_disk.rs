//! A disk that is full: an error that names the file, and nothing half-written. The disk is one of this test's own, in memory and
//! seen by nobody else.

use std::process::{Command, Output};

use crate::image::layout_of;
use crate::support::companion;

/// Names what is left on the disk, after the check, with its exit code.
const SCRIPT: &str = r#"mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99; cd "$2"; shift 2; "$@"; code=$?; find . -type f; exit $code"#;
/// The script's own: there is no disk to be had.
const NO_DISK: i32 = 99;

/// Runs the check on a disk of so many bytes; `None` where the kernel grants none.
fn on_a_disk(size: &str, arguments: &[&str]) -> Option<Output> {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", size]).arg(directory.path()).arg(companion());
    let output = command.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let granted = output.status.code() != Some(NO_DISK) && !said.starts_with("unshare:");
    granted.then_some(output)
}

/// False where there is no disk to be had.
fn check(size: &str, arguments: &[&str], complains_of: &str) -> bool {
    let Some(output) = on_a_disk(size, arguments) else { return false };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(complains_of) && said.contains("No space left on device"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "left on the disk");
    true
}

#[test]
fn a_record_that_has_no_room_is_not_written_at_all() {
    let subject = ["--condition", "idle", "--runs", "2", "--", "echo", "steady"];
    if !check("8k", &[&["--out", "out"], &subject[..]].concat(), "out/index.html") {
        eprintln!("not run: the kernel grants no mount of one's own");
    }
}

#[test]
fn an_image_that_has_no_room_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let layout = layout_of(&directory.path().join("layout"), 1 << 20);
    if !check("256k", &["--image", layout.to_str().unwrap(), "--cache", "cache", "--", "true"], "cache/roots")
    {
        eprintln!("not run: the kernel grants no mount of one's own");
    }
}
