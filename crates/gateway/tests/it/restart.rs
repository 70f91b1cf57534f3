//! A restart under live sessions: ids, held requests, clients that come and go, and what was set up before.

use serde_json::{Value, json};
use tidegate_suite::harness::{Call, Client, FaultServer, Plan, Rig, eventually};

fn start_of(result: &Value) -> &Value {
    &result["structuredContent"]["start"]
}

/// A drain that waits for a call of `client`; its latch is the call's text.
fn draining(rig: &Rig, client: &mut Client, server: &FaultServer, text: &str) -> (String, Call) {
    let latch = server.latch(text);
    let call = client.call("append", json!({ "text": text, "until_file": latch.path() }));
    server.arrives(text);
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    (id, call)
}

#[test]
fn the_pipes_stay_open_and_the_next_call_works_without_anybody_doing_anything() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut clients: Vec<Client> = ["c1", "c2"].map(|name| rig.connect("files", name)).into();
    let shims: Vec<u32> = clients.iter().map(Client::pid).collect();
    for generation in 2..=4 {
        rig.restarts(&["files"]);
        for client in &mut clients {
            assert_eq!(start_of(&client.tool("append", json!({ "text": "next" }))), generation);
        }
    }
    assert!(clients.iter_mut().all(Client::is_running));
    assert_eq!(clients.iter().map(Client::pid).collect::<Vec<_>>(), shims);
}

#[test]
fn two_sessions_with_the_same_id_get_their_own_answers() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let latch = server.latch("one");
    let call = |text: &str, file: Option<&str>| {
        let mut arguments = json!({ "text": text });
        if let Some(file) = file {
            arguments["until_file"] = file.into();
        }
        json!({ "name": "append", "arguments": arguments })
    };
    let first = c1.request_as("1000", "tools/call", &call("one", Some(latch.path())));
    server.arrives("one");
    let second = c2.request_as("1000", "tools/call", &call("two", None));
    assert_eq!(c2.result(&second)["structuredContent"]["text"], "two");
    assert!(!c1.has_answered(&first));
    latch.open();
    assert_eq!(c1.result(&first)["structuredContent"]["text"], "one");
}

#[test]
fn ids_are_echoed_byte_for_byte() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "c1");
    let params = json!({ "name": "read", "arguments": { "key": "k" } });
    for id in ["\"1\"", "99", "9007199254740993", "\"init-1\"", "\"\\u00e9\"", "\"\u{2028}\"", "-1"] {
        let call = client.request_as(id, "tools/call", &params);
        let line = client.line_for(&call);
        assert!(line.contains(&format!("\"id\":{id}")), "{id}: {line}");
    }
}

#[test]
fn a_held_request_that_is_cancelled_leaves_the_queue_and_never_reaches_the_server() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let (id, running) = draining(&rig, &mut c1, &server, "running");
    let cancelled = c2.call("append", json!({ "text": "cancelled" }));
    let kept = c2.call("append", json!({ "text": "kept" }));
    rig.holds("files", 2);
    c2.cancel(&cancelled);
    rig.holds("files", 1);
    server.latch("running").open();
    c1.result(&running);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(start_of(&c2.result(&kept)), 2);
    assert_eq!(server.arrived("cancelled"), 0);
    assert!(!c2.has_answered(&cancelled));
}

#[test]
fn held_requests_are_released_in_order() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let (id, _) = draining(&rig, &mut c1, &server, "running");
    let texts: Vec<String> = (0..30).map(|number| format!("held-{number:02}")).collect();
    let calls: Vec<Call> = texts.iter().map(|text| c2.call("append", json!({ "text": text }))).collect();
    rig.holds("files", texts.len());
    server.latch("running").open();
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    for call in &calls {
        c2.result(call);
    }
    let arrived: Vec<String> = server
        .received()
        .iter()
        .filter_map(|it| it["message"]["params"]["arguments"]["text"].as_str().map(str::to_owned))
        .filter(|text| text.starts_with("held"))
        .collect();
    assert_eq!(arrived, texts);
}

#[test]
fn a_client_that_vanishes_takes_its_held_requests_with_it_and_nobody_elses() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let mut vanishing = rig.connect_apart("files", "c3");
    let (id, running) = draining(&rig, &mut c1, &server, "running");
    vanishing.call("append", json!({ "text": "vanished" }));
    let kept = c2.call("append", json!({ "text": "kept" }));
    rig.holds("files", 2);
    vanishing.kill();
    rig.holds("files", 1);
    // And somebody new comes in the middle of it.
    let mut late = rig.connect("files", "c4");
    let from_late = late.call("append", json!({ "text": "late" }));
    rig.holds("files", 2);
    server.latch("running").open();
    c1.result(&running);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(start_of(&c2.result(&kept)), 2);
    assert_eq!(start_of(&late.result(&from_late)), 2);
    assert_eq!(server.arrived("vanished"), 0);
}

#[test]
fn subscriptions_and_the_log_level_are_in_force_at_the_next_generation() {
    let rig = Plan::new().fault("files", &[]).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    c1.ask("resources/subscribe", json!({ "uri": "ledger://lines" }));
    c1.ask("logging/setLevel", json!({ "level": "error" }));
    rig.restarts(&["files"]);
    c2.tool("append", json!({ "text": "seen" }));
    assert_eq!(c1.hear("notifications/resources/updated")["params"]["uri"], "ledger://lines");
    assert!(c2.heard("notifications/resources/updated").is_empty(), "only who has subscribed is told");
    let set = rig
        .server("files")
        .received()
        .into_iter()
        .any(|it| it["start"] == 2 && it["message"]["method"] == "logging/setLevel");
    assert!(set, "the level is set again");
}

#[test]
fn tools_that_are_gone_are_told_once_and_a_call_of_one_says_so() {
    let mut plan = Plan::new();
    let dir = tempfile::tempdir().unwrap();
    let tools = dir.path().join("tools");
    std::fs::write(&tools, "append\nread\nextra\n").unwrap();
    plan = plan.fault("files", &["--tools-file", tools.to_str().unwrap()]);
    let rig = plan.start();
    let mut c1 = rig.connect("files", "c1");
    assert_eq!(c1.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len(), 3);
    std::fs::write(&tools, "append\nread\n").unwrap();
    rig.restarts(&["files"]);
    c1.hear("notifications/tools/list_changed");
    let call = c1.call("extra", json!({}));
    let refusal = c1.refused(&call);
    assert_eq!(
        (&refusal["kind"], &refusal["next_action"]["kind"]),
        (&json!("tool_changed"), &json!("RefreshTools"))
    );
    assert_eq!(c1.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len(), 2);
    assert!(c1.heard("notifications/tools/list_changed").is_empty(), "once");
}

#[test]
fn all_shims_come_back_after_the_daemon_is_killed_and_nothing_is_lost_or_doubled() {
    let mut rig = Plan::new().fault("files", &[]).fault("other", &[]).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("other", "c1"));
    let server = rig.server("files").clone();
    // One call is executing, and goes on; it is answered late.
    let latch = server.latch("written");
    let written = c1.call("append", json!({ "text": "written", "answer_until_file": latch.path() }));
    server.executes("written");
    rig.kill();
    // These are sent while there is no daemon.
    let unsent =
        [c1.call("append", json!({ "text": "unsent-1" })), c2.call("append", json!({ "text": "unsent-2" }))];
    rig.serve();
    latch.open();
    assert_eq!(c1.result(&written)["structuredContent"]["text"], "written");
    assert_eq!(c1.result(&unsent[0])["structuredContent"]["text"], "unsent-1");
    assert_eq!(c2.result(&unsent[1])["structuredContent"]["text"], "unsent-2");
    assert_eq!(server.executed(), ["written", "unsent-1"]);
    assert_eq!(rig.server("other").executed(), ["unsent-2"]);
    let sessions = rig.status()["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "both streams are the same session again: {sessions}");
    assert_eq!(sessions[0]["streams"], 2);
}

#[test]
fn a_restart_that_can_not_start_is_tried_once_more_then_fails_and_says_why() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut c1 = rig.connect("files", "c1");
    // The first try fails, the second does not: completed all the same.
    server.script(&["--die-at", "initialize:2", "--die-message", "still warming up"]);
    assert_eq!(rig.restarts(&["files"])["generations"]["files"]["before"], 1);
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "a" }))), 3);
    // Both fail.
    server.script(&["--die-at", "initialize", "--die-message", "out of licences"]);
    let id = rig.request("ops", &["files"]);
    let failed = rig.ended(&id);
    assert_eq!(failed["phase"], "Failed");
    assert_eq!(server.starts().len(), 5);
    assert!(failed["failures"]["files"].as_str().unwrap().contains("out of licences"), "{failed}");
    let call = c1.call("append", json!({ "text": "b" }));
    let refusal = c1.refused(&call);
    assert_eq!(
        (&refusal["kind"], &refusal["next_action"]["incident"]),
        (&json!("unavailable"), &failed["incident"]),
        "{refusal}"
    );
    // Repaired, and restarted.
    server.script(&[]);
    rig.restarts(&["files"]);
    assert_eq!(c1.tool("append", json!({ "text": "c" }))["isError"], false);
    assert_eq!(server.executed(), ["a", "c"]);
}

#[test]
fn twenty_restarts_leave_no_zombie_no_orphan_and_no_descriptor() {
    let mut rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    rig.restarts(&["files"]);
    let daemon = rig.daemon().pid();
    let before = tidegate_suite::harness::descriptors(daemon);
    for _ in 0..20 {
        rig.restarts(&["files"]);
    }
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "a" }))), 22);
    eventually("no descriptor more than at the start", || {
        tidegate_suite::harness::descriptors(daemon) <= before
    });
    assert!(tidegate_suite::harness::zombies_of(daemon).is_empty());
    assert_eq!(rig.running().iter().filter(|it| it.command.contains("fault-server")).count(), 1);
    assert_eq!(c1.close().code, Some(0));
    assert_eq!(rig.terminate().code, Some(0));
    rig.leaves_nothing();
}

#[test]
fn whoever_was_there_before_the_first_start_has_lost_nothing_and_is_told_nothing() {
    let rig = Plan::new().fault("files", &["--start-delay-ms", "300"]).start();
    let mut client = rig.connect("files", "early");
    client.tool("read", json!({}));
    // A notification about the start would have come before the answer.
    assert_eq!(client.heard("notifications/message"), [] as [Value; 0]);
    assert_eq!(rig.resume("early")["next_action"]["kind"], "Continue");
}

#[test]
fn a_restart_that_failed_is_settled_when_the_server_is_back_and_that_is_on_record() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    rig.server("files").script(&["--die-at", "initialize"]);
    let failed = rig.ended(&rig.request("ops", &["files"]));
    assert_eq!(failed["phase"], "Failed", "{failed}");
    assert_eq!(rig.resume("c1")["next_action"]["kind"], "ContactOperator");
    let id = failed["incident"].as_str().unwrap();
    rig.server("files").script(&[]);
    let incident = |rig: &Rig| rig.local(&["incidents", "show", id]).done()["incidents"][0].clone();
    eventually("it is tried again by itself", || incident(&rig)["state"] == "resolved");
    let note = incident(&rig)["history"].as_array().unwrap().last().unwrap()["note"].clone();
    assert!(note.as_str().unwrap().starts_with("files serves as generation "), "{note}");
    assert_ne!(rig.resume("c1")["next_action"]["kind"], "ContactOperator");
    c1.tool("append", json!({ "text": "after" }));
}
