//! What the process can be told to do.

use super::driver::{Driver, eventually, ledger, lines};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use tempfile::tempdir;

fn signal(pid: u32, name: &str) {
    let done = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(done.success());
}

fn is_running(pid: &Value) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn each_start_has_a_number_and_the_script_is_read_anew() {
    let dir = tempdir().unwrap();
    let script = dir.path().join("script");
    let flags = ["--script", script.to_str().unwrap()];
    let mut first = Driver::start(dir.path(), &flags);
    first.call("append", json!({ "text": "x" }));
    drop(first);

    let tools = dir.path().join("tools");
    fs::write(&tools, "read\nextra\n").unwrap();
    fs::write(&script, format!("--version\n2.0.0 beta\n--tools-file\n{}\n", tools.display())).unwrap();
    let mut second = Driver::start(dir.path(), &flags);
    let hello = second.ask("initialize", json!({}));
    assert_eq!(hello["result"]["serverInfo"]["version"], "2.0.0 beta");
    let names: Vec<Value> = second.ask("tools/list", json!({}))["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["read", "extra"]);
    assert_eq!(second.call("append", json!({}))["error"]["code"], -32602);
    assert_eq!(second.call("extra", json!({}))["result"]["structuredContent"]["start"], 2);
    assert_eq!(ledger(dir.path()), ["1:x"]);
    assert_eq!(lines(dir.path(), "starts.jsonl").len(), 2);
}

#[test]
fn it_dies_at_the_phases_and_starts_it_is_told_to() {
    let dir = tempdir().unwrap();
    let flags = [
        "--die-at",
        "initialize:1",
        "--die-at",
        "start:3-",
        "--die-message",
        "out of cheese",
        "--die-code",
        "5",
    ];
    let mut first = Driver::start(dir.path(), &flags);
    first.send("initialize", json!({}));
    let (status, stderr) = first.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(5), "out of cheese\n"));

    let mut second = Driver::start(dir.path(), &flags);
    assert!(second.ask("initialize", json!({}))["result"].is_object());
    for _ in 3..5 {
        assert_eq!(Driver::start(dir.path(), &flags).end().0.code(), Some(5));
    }
}

#[test]
fn the_end_of_the_input_ends_it_unless_told_otherwise() {
    let dir = tempdir().unwrap();
    let go = dir.path().join("go");
    let call = json!({ "text": "x", "until_file": go });

    let mut plain = Driver::start(dir.path(), &[]);
    plain.send_call("append", call.clone());
    plain.close_input();
    assert!(plain.end().0.success());

    let mut finishing = Driver::start(dir.path(), &["--finish-at-eof", "--slow-exit-ms", "1"]);
    finishing.send_call("append", call);
    finishing.close_input();
    fs::write(&go, "").unwrap();
    assert!(finishing.end().0.success());
    assert_eq!(ledger(dir.path()), ["2:x"]);
}

#[test]
fn it_ignores_the_end_of_its_input_and_sigterm_but_not_sigkill() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &["--ignore-eof", "--ignore-term"]);
    server.ask("ping", json!({}));
    signal(server.child.id(), "TERM");
    server.ask("ping", json!({}));
    server.close_input();
    assert!(server.child.try_wait().unwrap().is_none());
    signal(server.child.id(), "KILL");
    assert_eq!(server.end().0.signal(), Some(9));
    assert_eq!(lines(dir.path(), "starts.jsonl").len(), 1);
}

#[test]
fn a_grandchild_outlives_it() {
    for kind in ["child", "setsid", "setsid-bare"] {
        let dir = tempdir().unwrap();
        let mut server = Driver::start(dir.path(), &[]);
        let answer = server.call("read", json!({ "grandchild": kind }));
        let pid = answer["result"]["structuredContent"]["grandchild"].clone();
        let session = |pid: &Value| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().parse::<u64>().unwrap()
        };
        let moved = Some(session(&pid)) == pid.as_u64();
        assert_eq!(moved, kind != "child", "{kind}");
        let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        assert_eq!(environ.contains("PATH="), kind != "setsid-bare", "{kind}");
        // Its standard error is the server's, so that `end` would wait for it.
        drop(server);
        assert!(is_running(&pid), "{kind}");
        signal(u32::try_from(pid.as_u64().unwrap()).unwrap(), "KILL");
        eventually("the grandchild is gone", || !is_running(&pid));
    }
}

#[test]
fn it_holds_a_port_until_it_has_ended() {
    let dir = tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let flags = ["--port", &port.to_string()];
    let mut first = Driver::start(dir.path(), &flags);
    first.ask("ping", json!({}));
    let (status, stderr) = Driver::start(dir.path(), &flags).end();
    assert_eq!(status.code(), Some(2));
    assert!(stderr.contains(&format!("cannot bind 127.0.0.1:{port}")), "{stderr}");
    first.close_input();
    first.end();
    Driver::start(dir.path(), &flags).ask("ping", json!({}));
}

#[test]
fn it_warms_up_writes_a_banner_and_answers_ping_as_told() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(
        dir.path(),
        &[
            "--empty-lists",
            "1",
            "--banner",
            "Welcome!",
            "--banner",
            "",
            "--ping",
            "error",
            "--crlf",
            "--annotations",
            "contradictory",
            "--start-delay-ms",
            "1",
        ],
    );
    assert_eq!([server.raw(), server.raw()], ["Welcome!\r\n", "\r\n"]);
    assert_eq!(server.ask("tools/list", json!({}))["result"]["tools"], json!([]));
    let warm = server.ask("tools/list", json!({}));
    let read = &warm["result"]["tools"][2]["annotations"];
    assert_eq!([&read["readOnlyHint"], &read["destructiveHint"]], [true, true]);
    assert_eq!(server.ask("ping", json!({}))["error"]["code"], -32601);

    let mut silent = Driver::start(dir.path(), &["--ping", "silence"]);
    silent.send("ping", json!({}));
    silent.is_quiet();
}

#[test]
fn wrong_flags_are_told() {
    let dir = tempdir().unwrap();
    let check = |flags: &[&str], expected: &str| {
        let (status, stderr) = Driver::start(dir.path(), flags).end();
        assert_eq!(status.code(), Some(2), "{flags:?}");
        assert!(stderr.contains(expected), "{flags:?}: {stderr}");
    };
    check(&["--no-such"], "unknown flag \"--no-such\"");
    check(&["--port", "x"], "--port needs a number");
    check(&["--die-at", "tea"], "--die-at start|initialize");
    check(&["--grandchild", "aunt"], "--grandchild child|setsid|setsid-bare");
    check(&["--version"], "--version needs a value");
}
