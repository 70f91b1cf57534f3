//! State directories that can't be used, and one that stops being usable: said clearly, nothing lost.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use tidegate_suite::harness::{Plan, Rig, eventually};

/// Serves a state directory that can't be used; gives why not.
#[track_caller]
fn refused(rig: &Rig, wrapper: &[&str], words: &[&str]) {
    let ended = rig.serve_raw(wrapper).wait();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("ready "), "{}", ended.stderr);
}

fn rig() -> Rig {
    Plan::new().fault("files", &[]).build()
}

/// Wraps a command so that permissions count for it, whoever runs the tests.
fn unprivileged() -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        vec!["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    } else {
        Vec::new()
    }
}

/// What a daemon needs to be able to write files of at most `blocks` blocks only: as on a full disk, every write beyond
/// that fails.
fn limited(limit: &str) -> [&str; 5] {
    // dash's unit is 512 bytes.
    ["sh", "-c", "ulimit -f \"$0\"; exec \"$@\"", limit, "env"]
}

#[test]
fn a_state_directory_that_is_a_file_is_named_and_left_alone() {
    let rig = rig();
    fs::write(rig.state(), "precious").unwrap();
    refused(&rig, &[], &["state", "is not a directory"]);
    assert_eq!(fs::read_to_string(rig.state()).unwrap(), "precious");
}

#[test]
fn a_state_directory_that_can_not_be_made_or_listened_in_is_told_by_the_daemon_and_by_doctor() {
    let rig = rig();
    let state = rig.state();
    let at = |dir: &str| {
        let config = fs::read_to_string(rig.config()).unwrap();
        let line = config.lines().find(|line| line.starts_with("store")).unwrap();
        fs::write(rig.config(), config.replace(line, &format!("store = \"file:{dir}\""))).unwrap();
    };
    fs::write(&state, "").unwrap();
    for (dir, said) in [
        (state.join("x").display().to_string(), ["can't be made", "is no directory"]),
        (
            rig.root().join("x".repeat(100)).display().to_string(),
            ["the socket's path has", "shorter directory"],
        ),
    ] {
        at(&dir);
        let doctor = rig.local(&["doctor"]);
        assert_eq!(doctor.code, 1, "{doctor:?}");
        assert!(said.iter().all(|words| doctor.stdout.contains(words)), "{doctor:?}");
        refused(&rig, &[], &[dir.as_str()]);
        assert!(!std::path::Path::new(&dir).exists());
    }
}

#[test]
fn a_state_directory_that_is_read_only_is_named() {
    let rig = rig();
    fs::set_permissions(rig.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(rig.state()).unwrap();
    fs::set_permissions(rig.state(), fs::Permissions::from_mode(0o555)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(rig.state(), Some(65_534), Some(65_534)).unwrap();
    }
    refused(&rig, &unprivileged(), &["state", "ermission"]);
    assert_eq!(fs::read_dir(rig.state()).unwrap().count(), 0);
    // One that can't even be made.
    fs::remove_dir(rig.state()).unwrap();
    fs::set_permissions(rig.root(), fs::Permissions::from_mode(0o555)).unwrap();
    refused(&rig, &unprivileged(), &["state", "ermission"]);
    fs::set_permissions(rig.root(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_state_directory_of_a_newer_format_is_refused_and_left_untouched() {
    let mut rig = rig();
    rig.serve();
    assert_eq!(rig.terminate().code, Some(0));
    let journal = rig.state().join("journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[8] = 9; // docs/store-format.md: the format's number
    fs::write(&journal, &bytes).unwrap();
    refused(&rig, &[], &["format 9", "use a newer tidegate"]);
    assert!(rig.local(&["resume", "--session", "s1"]).cannot().contains("format 9"));
    assert_eq!(fs::read(&journal).unwrap(), bytes);
}

#[test]
fn a_damaged_journal_is_refused_and_left_untouched() {
    let mut rig = rig();
    rig.serve();
    let mut control = rig.control("s1");
    for note in 0..20 {
        control.tool("session_checkpoint", json!({ "notes": format!("note {note}") }));
    }
    assert_eq!(rig.terminate().code, Some(0));
    let journal = rig.state().join("journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[200] ^= 0xff;
    fs::write(&journal, &bytes).unwrap();
    refused(&rig, &[], &["damaged", "tidegate store check"]);
    assert!(rig.local(&["store", "check"]).no().contains("damaged"));
    assert_eq!(fs::read(&journal).unwrap(), bytes);
}

#[test]
fn a_restored_state_directory_is_refused_until_it_is_adopted() {
    let mut rig = rig();
    rig.serve();
    assert_eq!(rig.terminate().code, Some(0));
    let journal = rig.state().join("journal");
    let copy = rig.state().join("copy");
    fs::copy(&journal, &copy).unwrap();
    fs::rename(&copy, &journal).unwrap();
    refused(&rig, &[], &["is a copy or was restored", "tidegate store adopt"]);
    let adopted = rig.local(&["store", "adopt"]).done();
    assert!(adopted["adopted"]["epoch"].as_u64() > Some(1), "{adopted}");
    rig.serve();
    rig.is_ready("files");
}

#[test]
fn a_full_disk_at_the_start_is_told() {
    let rig = rig();
    refused(&rig, &limited("0"), &["state"]);
    // With room again it starts as if nothing had been.
    let mut rig = rig;
    rig.serve();
    rig.is_ready("files");
}

#[test]
fn a_disk_that_fills_up_loses_nothing_that_was_acknowledged_and_the_daemon_says_so() {
    let mut rig = rig();
    rig.serve_under(&limited("256"));
    rig.is_ready("files");
    let mut session = rig.connect("files", "s1");
    let mut control = rig.control("s1");
    let mut acknowledged = Vec::new();
    let refusal = loop {
        let text = format!("note {} {}", acknowledged.len(), "x".repeat(2_000));
        let call = control.call("session_checkpoint", json!({ "notes": text }));
        let answer = control.answer(&call);
        if answer["result"]["isError"] == true || answer.get("error").is_some() {
            break answer;
        }
        acknowledged.push(text);
        assert!(acknowledged.len() < 2_000, "the limit was never reached");
    };
    let said = refusal.to_string();
    assert!(said.contains("journal") || said.contains("store"), "it says what failed: {said}");
    // What needs no record goes on; what does is refused, until not even a small one fits.
    assert_eq!(session.tool("read", json!({ "key": "k" }))["isError"], false);
    let refused = (0..2_000).find_map(|number| {
        let id = format!("op-{number}");
        let asked = rig.local(&["restart", "request", "files", "--reason", "x", "--operation", &id]);
        if asked.code == 0 {
            rig.local(&["restart", "cancel", &id]);
        }
        (asked.code != 0).then_some(asked)
    });
    let refused = refused.unwrap();
    assert!(refused.cannot().contains("store"), "{refused:?}");
    // No incident can say so; status does all the same.
    let reason = |rig: &Rig| rig.status()["store"]["refused"]["reason"].clone();
    assert!(reason(&rig).as_str().unwrap().contains("the store refused the write"), "{}", rig.status());
    let status = rig.command(None).arg("status").output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.contains("what has to be recorded is refused") && status.contains("tidegate doctor"),
        "{status}"
    );
    rig.kill();

    // With room again everything acknowledged is there, as far as notes are kept, and nothing else is.
    rig.serve();
    let notes = rig.resume("s1")["facts"]["notes"].clone();
    let notes: Vec<&str> =
        notes.as_array().unwrap().iter().map(|note| note["text"].as_str().unwrap()).collect();
    assert!(!notes.is_empty() && acknowledged.len() >= notes.len());
    assert_eq!(notes, acknowledged[acknowledged.len() - notes.len()..]);
    assert_eq!(control.tool("session_checkpoint", json!({ "notes": "room again" }))["isError"], false);
    assert_eq!(session.tool("append", json!({ "text": "a" }))["isError"], false);
    assert_eq!(reason(&rig), Value::Null);
}

#[test]
fn a_socket_that_somebody_removes_is_put_back() {
    let mut rig = rig();
    rig.serve();
    let mut before = rig.connect("files", "s1");
    let socket = rig.state().join("tidegate.sock");
    fs::remove_file(&socket).unwrap();
    before.tool("append", json!({ "text": "a" }));
    eventually("it is there again", || socket.exists());
    rig.is_ready("files");
    rig.connect("files", "s2").tool("append", json!({ "text": "b" }));
    assert!(rig.daemon().stderr().contains("was removed, and is there again"));
    assert_eq!(rig.terminate().code, Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_daemon_whose_state_directory_was_moved_away_touches_nothing_of_the_one_in_its_place() {
    let mut rig = rig();
    rig.serve();
    let mut old_client = rig.connect("files", "s1");
    let pid = |rig: &Rig| rig.is_ready("files")["pid"].clone();
    let old_pid = pid(&rig);
    fs::rename(rig.state(), rig.root().join("moved")).unwrap();
    let new = rig.serve_raw(&[]);
    eventually("the new daemon is ready", || new.stderr().lines().any(|line| line.starts_with("ready ")));
    let new_pid = pid(&rig);
    assert_ne!(old_pid, new_pid);
    // What needs nothing of the store goes on.
    old_client.tool("read", json!({ "key": "k" }));
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("another store stands in the place of"), "{}", ended.stderr);
    // Its socket, its server and its records are as they were.
    assert_eq!(pid(&rig), new_pid);
    assert_eq!(rig.open_incidents(), Vec::<Value>::new());
    let mut client = rig.connect("files", "s2");
    client.tool("append", json!({ "text": "a" }));
    new.signal(Signal::TERM);
    assert_eq!(new.wait().code, Some(0));
}
