//! Configurations that can't be served, and flags that aren't built yet: what is wrong, where, and what to do.

use serde_json::json;
use std::path::Path;
use std::process::Command;
use tidegate_suite::harness::{Client, Output, Plan, eventually, tidegate};

/// Serves a configuration that can't be served; gives why not.
fn refused(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tidegate.toml");
    std::fs::write(&file, text).unwrap();
    let output = Output::of(Command::new(tidegate()).arg("--config").arg(&file).arg("serve"));
    assert!(!dir.path().join("state").exists(), "nothing is made for a configuration that can't be served");
    output.cannot().replace(file.to_str().unwrap(), "FILE")
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_to_write() {
    let check = |text: &str, words: &[&str]| {
        let said = refused(&format!("[state]\nstore = \"file:./state\"\n{text}"));
        for word in words {
            assert!(said.contains(word), "{word:?} is not in: {said}");
        }
    };
    let component = "[[component]]\nname = \"files\"\n";
    check("[policy]\napprovalls = 1\n", &["FILE:4", "`approvalls`", "[policy]", "did you mean `approvals`?"]);
    check("[polici]\n", &["FILE:3", "`polici`", "did you mean `policy`?"]);
    check("quux = 1\n", &["FILE:3", "`quux`", "known keys: store"]);
    check(&format!("{component}comand = [\"x\"]\n"), &["FILE:5", "`comand`", "did you mean `command`?"]);
    check(component, &["FILE:3", "command"]);
    check(&format!("{component}command = []\n"), &["FILE:5", "command"]);
    check(
        &format!("{component}command = [\"x\"]\n{component}command = [\"x\"]\n"),
        &["FILE:7", "files", "twice"],
    );
    check("", &["no [[component]]", "FILE"]);
    check("[policy]\napprovals = 0\n", &["FILE:4", "the least is 1"]);
    check("[policy]\ndrain_deadline = \"soon\"\n", &["FILE:4", "`drain_deadline`", "soon"]);
    check("[policy]\nhold = \"90s\"\n", &["FILE:4", "`hold`", "59"]);
    check("[policy]\napprovers = [\"bob\"]\n", &["FILE:4", "bob", "[[principal]]"]);
    check("[[operator]]\nname = \"ops\"\ntoken_sha256 = \"secret\"\n", &["FILE:5", "`tidegate token`"]);
    check("[http]\nlisten = \"x\"\n", &["FILE:3", "not available yet"]);
    check(&format!("{component}command = [\"x\"]\nsharing = \"per-user\"\n"), &["FILE:6", "per-session"]);
    check(&format!("{component}command = [\"x\"]\nstart_timeout = \"0s\"\n"), &["FILE:6", "no time at all"]);
    check("[policy\n", &["FILE:3"]);
}

#[test]
fn a_store_that_is_not_built_yet_is_refused() {
    let said = refused("[state]\nstore = \"etcd://localhost\"\n");
    assert!(
        said.contains("FILE:2") && said.contains("file:DIRECTORY") && said.contains("not available yet"),
        "{said}"
    );
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let missing = Path::new("/nowhere/tidegate.toml");
    for command in [&["serve"][..], &["status"], &["connect", "files"], &["resume", "--session", "s1"]] {
        let output = Output::of(Command::new(tidegate()).arg("--config").arg(missing).args(command));
        let said = output.cannot();
        assert!(said.contains("/nowhere/tidegate.toml") && said.contains("--config"), "{command:?}: {said}");
    }
}

#[test]
fn what_is_left_to_later_says_so() {
    let rig = Plan::new().fault("files", &[]).build();
    let output = rig.ops(&["session", "token", "s1"]);
    assert!(output.cannot().contains("not available yet"), "{output:?}");
    assert!(!rig.state().exists(), "none of them has done anything");
}

#[test]
fn without_a_daemon_commands_say_how_to_start_one() {
    let rig = Plan::new().fault("files", &[]).build();
    for command in
        [&["status"][..], &["restart", "list"], &["leases", "list"], &["incidents", "list"], &["sessions"]]
    {
        let output = rig.local(command);
        let said = output.cannot();
        assert!(
            said.contains("no daemon answers") && said.contains("tidegate serve --config"),
            "{command:?}: {said}"
        );
    }
    // A shim waits for one, and says so to the person who looks.
    let mut client = rig.shim("files", "s1");
    eventually("it says what it waits for", || client.stderr().contains("start one with `tidegate serve`"));
    assert!(client.is_running());
    assert_eq!(client.close().code, Some(0));
}

#[test]
fn a_shim_that_was_there_first_serves_as_soon_as_there_is_a_daemon() {
    let mut rig = Plan::new().fault("files", &[]).build();
    let mut client = rig.shim("files", "s1");
    let call = client.request("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }));
    eventually("it waits", || client.stderr().contains("waiting for a daemon"));
    rig.serve();
    assert_eq!(client.result(&call)["serverInfo"]["name"], "tidegate-fault-server");
}

#[test]
fn a_second_daemon_is_refused_and_the_first_serves_on() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client: Client = rig.connect("files", "s1");
    let second = rig.serve_raw(&[]).wait();
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    let pid = rig.daemon().pid().to_string();
    assert!(second.stderr.contains("another daemon") && second.stderr.contains(&pid), "{}", second.stderr);
    assert_eq!(client.tool("append", json!({ "text": "a" }))["structuredContent"]["start"], 1);
}

#[test]
fn a_command_that_can_not_be_found_or_that_exits_at_once_is_told_where_it_matters() {
    for (command, said) in [
        (&["/nowhere/server"][..], "/nowhere/server"),
        (&["no-such-program-anywhere"], "no-such-program-anywhere"),
        (&["sh", "-c", "echo cannot read the licence >&2; exit 3"], "cannot read the licence"),
    ] {
        // Another component beside it is served as if nothing were.
        let rig =
            Plan::new().component("broken", command, "start_timeout = \"2s\"").fault("files", &[]).start();
        assert_eq!(rig.connect("files", "s1").tool("append", json!({ "text": "a" }))["isError"], false);
        let mut client = rig.shim("broken", "s2");
        let answer = client.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }));
        assert_eq!(answer["error"]["data"]["kind"], "unavailable", "{answer}");
        assert!(answer.to_string().contains(said), "{answer}");
        let incidents = rig.open_incidents();
        assert!(incidents.iter().any(|it| it.to_string().contains(said)), "{said}: {incidents:?}");
        assert_ne!(rig.component("broken")["state"], "ready");
        // A restart of it fails, says why, and leaves its incident.
        let id = rig.request("ops", &["broken"]);
        let failed = rig.ended(&id);
        assert_eq!(failed["phase"], "Failed");
        assert!(failed.to_string().contains(said) && failed["incident"].is_string(), "{failed}");
    }
}
