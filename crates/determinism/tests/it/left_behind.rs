//! Nothing outlives a check: not after a deadline, not after Ctrl-C, not after a kill -9 of the check itself.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use tidegate_determinism::Level;

use crate::support::{companion, expect, shell};

/// Far beyond what a loaded machine needs to kill a process.
const PATIENCE: Duration = Duration::from_secs(30);

/// A shell script that holds a pipe open in itself and in a child, and never ends.
fn endless(pipe: &Path, child: &str) -> String {
    format!("exec 9>'{}'; {child} & echo started; echo started >&9; wait", pipe.display())
}

/// A named pipe, and word of its first line and of the moment when nobody holds it open any more.
fn pipe(directory: &Path) -> (std::path::PathBuf, Receiver<&'static str>) {
    let path = directory.join("held");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let (sender, receiver) = channel();
    let opened = path.clone();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(std::fs::File::open(opened).unwrap());
        reader.read_line(&mut String::new()).unwrap();
        sender.send("started").unwrap();
        reader.read_to_end(&mut Vec::new()).unwrap();
        sender.send("gone").unwrap();
    });
    (path, receiver)
}

/// Word of the moment when nobody holds a check's standard error open any more: guard and load inherit it.
fn end_of(mut errors: ChildStderr) -> Receiver<&'static str> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        errors.read_to_end(&mut Vec::new()).unwrap();
        sender.send("gone").unwrap();
    });
    receiver
}

#[test]
fn a_subject_and_its_children_die_at_the_deadline_in_their_group_or_out_of_it() {
    for child in ["sleep 1000", "env -i sleep 1000", "setsid sleep 1000"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, word) = pipe(directory.path());
        let mut plan = shell(&endless(&path, child));
        plan.deadline = Duration::from_millis(500);
        expect(&plan, Level::NoResult);
        assert_eq!(word.recv_timeout(PATIENCE), Ok("started"));
        assert_eq!(word.recv_timeout(PATIENCE), Ok("gone"), "{child}");
    }
}

#[test]
fn subject_load_and_guard_die_with_a_check_that_is_interrupted_or_killed() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let directory = tempfile::tempdir().unwrap();
        let (path, word) = pipe(directory.path());
        let mut check = Command::new(companion())
            .args([
                "--condition",
                "loaded",
                "--hogs",
                "1",
                "--",
                "sh",
                "-c",
                &endless(&path, "setsid sleep 1000"),
            ])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let helpers = end_of(check.stderr.take().unwrap());
        assert_eq!(word.recv_timeout(PATIENCE), Ok("started"));
        kill_process(Pid::from_child(&check), signal).unwrap();
        check.wait().unwrap();
        assert_eq!(word.recv_timeout(PATIENCE), Ok("gone"), "the subject after {signal:?}");
        assert_eq!(helpers.recv_timeout(PATIENCE), Ok("gone"), "guard and load after {signal:?}");
    }
}
