//! Bullets 5, 7 and 10: what is remembered of sessions and restarts, whatever is killed, and what they are told.

use serde_json::{Value, json};
use tidegate_suite::harness::{Plan, Rig};

/// Kills the daemon, looks at what is known of `s1` from the disk alone, and starts a daemon again.
fn across_a_kill(rig: &mut Rig, known: impl FnOnce(&Value)) {
    rig.kill();
    known(&rig.resume("s1")["facts"]);
    rig.serve();
}

fn texts(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

pub(super) fn checkpoints_are_durable() {
    let mut rig =
        Plan::new().fault_with("files", &["--slow-exit-ms", "1500"], "trust_annotations = true").start();
    let server = rig.server("files").clone();
    let mut s1 = rig.connect("files", "s1");
    let mut s1_control = rig.control("s1");
    let mut s2 = rig.connect("files", "s2");

    // Whatever was acknowledged is on stable storage: no kill between any two of these takes anything.
    across_a_kill(&mut rig, |facts| {
        assert_eq!(facts["streams"].as_array().map(Vec::len), Some(2), "{facts}")
    });
    s1_control.tool("session_checkpoint", json!({ "notes": "half way through the migration" }));
    across_a_kill(&mut rig, |facts| {
        assert_eq!(texts(&facts["notes"], "text"), ["half way through the migration"], "{facts}");
    });
    s1_control.tool("lease_acquire", json!({ "key": "repo/main" }));
    across_a_kill(&mut rig, |facts| assert_eq!(facts["leases"], json!(["repo/main"]), "{facts}"));
    assert!(s1.ask("resources/subscribe", json!({ "uri": "ledger://lines" }))["result"].is_object());
    across_a_kill(&mut rig, |facts| {
        assert_eq!(
            facts["subscriptions"],
            json!([{ "component": "files", "uri": "ledger://lines" }]),
            "{facts}"
        );
    });
    assert!(s1.ask("logging/setLevel", json!({ "level": "warning" }))["result"].is_object());
    across_a_kill(&mut rig, |facts| assert_eq!(facts["log_level"], json!({ "files": "warning" }), "{facts}"));

    // Before a server is stopped, the checkpoints of all sessions in scope are on stable storage.
    let before = rig.is_ready("files")["generation"].as_u64().unwrap();
    let latch = server.latch("running");
    let running = s2.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let held = s2.call("append", json!({ "text": "held" }));
    rig.holds("files", 1);
    latch.open();
    s2.result(&running);
    rig.reaches(&id, &["Stopping"]);
    rig.kill();
    let (first, second) = (rig.resume("s1")["facts"].clone(), rig.resume("s2")["facts"].clone());
    for facts in [&first, &second] {
        assert_eq!(facts["generations"], json!({ "files": before }), "{facts}");
    }
    assert_eq!(texts(&first["notes"], "text"), ["half way through the migration"]);
    assert_eq!(
        (&first["leases"], &first["log_level"]),
        (&json!(["repo/main"]), &json!({ "files": "warning" }))
    );
    let calls: Vec<_> =
        second["calls"].as_array().unwrap().iter().map(|c| (&c["tool"], &c["state"])).collect();
    assert_eq!(calls, [(&json!("append"), &json!("queued"))], "{second}");

    // The restart is carried forward, and the session goes on where it was: subscribed, and with its call.
    rig.serve();
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    let content = s2.result(&held)["structuredContent"].clone();
    assert_eq!((&content["text"], server.times("held")), (&json!("held"), 1), "{content}");
    assert_eq!(s1.hear("notifications/resources/updated")["params"]["uri"], "ledger://lines");
    assert_eq!(
        s1_control.tool("session_resume", json!({}))["structuredContent"]["facts"]["leases"],
        json!(["repo/main"])
    );
}

/// The one next action of a document, which says what to do.
fn next_action(document: &Value) -> &str {
    let action = &document["next_action"];
    assert!(action["prompt"].as_str().is_some_and(|prompt| prompt.len() > 20), "{document}");
    action["kind"].as_str().unwrap()
}

pub(super) fn everybody_goes_on_or_is_told() {
    let rig = Plan::new()
        .policy("drain_deadline = \"1s\"")
        .fault_with("files", &[], "trust_annotations = true\nstate = \"external\"")
        .fault("memory", &[])
        .start();
    let server = rig.server("files").clone();
    let told = |session: &str| {
        let document = rig.control(session).tool("session_resume", json!({}))["structuredContent"].clone();
        next_action(&document).to_owned()
    };

    let mut idle = rig.connect("files", "idle");
    let mut stateful = rig.connect("memory", "stateful");
    let mut reading = rig.connect("files", "reading");
    let mut unlucky = rig.connect("files", "unlucky");
    let leaving = rig.connect_apart("memory", "leaving");
    let mut asking = rig.control("asking");

    // A mutating call whose server dies under it: this session has to look before it goes on.
    let call = unlucky.call("append", json!({ "text": "lost", "die": "after-commit" }));
    let refusal = unlucky.refused(&call);
    assert_eq!(refusal["kind"], "outcome_unknown");
    assert_eq!(refusal["next_action"]["kind"], "VerifyThenRetry");
    rig.is_ready("files");
    asking.tool("restart_request", json!({ "components": ["memory"], "reason": "for later" }));

    // A read-only call that outlives the drain's deadline is done again at the next generation.
    let latch = server.latch("reading");
    let read = reading.call("read", json!({ "text": "reading", "key": "k", "until_file": latch.path() }));
    server.arrives("reading");
    leaving.kill();
    rig.restarts(&["files", "memory"]);
    latch.open();
    assert!(reading.result(&read)["structuredContent"]["start"].as_u64().unwrap() >= 3);

    // At their next contact all of them go on, or have exactly one thing to do.
    assert!(idle.tool("read", json!({ "key": "k" }))["structuredContent"]["start"].is_u64());
    assert!(stateful.hear("notifications/message")["params"]["data"].as_str().unwrap().contains("memory"));
    assert!(stateful.tool("read", json!({ "key": "k" }))["structuredContent"]["start"].is_u64());
    assert_eq!(told("idle"), "Continue");
    assert_eq!(told("stateful"), "StateReset");
    assert_eq!(told("stateful"), "Continue", "it has been told");
    assert_eq!(told("reading"), "Continue");
    assert_eq!(told("unlucky"), "VerifyThenRetry");
    assert_eq!(told("asking"), "RequestApproval");
    assert_eq!(told("leaving"), "StateReset", "its client died in the drain, and it comes back");
    assert_eq!(server.times("lost"), 1);
}

pub(super) fn the_state_directory_is_enough() {
    let mut rig =
        Plan::new().fault_with("files", &["--slow-exit-ms", "1500"], "trust_annotations = true").start();
    let server = rig.server("files").clone();
    let mut control = rig.control_apart("worker");
    control.tool("session_checkpoint", json!({ "notes": "step 3 of 7 is done" }));
    control.tool("lease_acquire", json!({ "key": "repo/main" }));
    control.kill();
    let mut client = rig.connect_apart("files", "worker");
    let waiting = rig.asks(&["files"]);
    let first = rig.request("ops", &["files"]);
    assert_eq!(rig.ended(&first)["phase"], "Completed");

    // Killed while the next one is waiting for a call, with a call held behind it.
    let latch = server.latch("running");
    client.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let draining = rig.request("ops", &["files"]);
    rig.reaches(&draining, &["Draining"]);
    rig.kill();
    client.kill();

    // A fresh process, and no daemon: facts and one next action.
    let document = rig.resume("worker");
    assert_eq!(texts(&document["facts"]["notes"], "text"), ["step 3 of 7 is done"]);
    assert_eq!(document["facts"]["leases"], json!(["repo/main"]));
    assert_eq!(next_action(&document), "StateReset", "{document}");

    // A fresh daemon: every restart says where it is.
    rig.serve();
    assert_eq!(rig.operation(&waiting)["phase"], "Requested");
    assert_eq!(rig.operation(&first)["phase"], "Completed");
    let interrupted = rig.ended(&draining);
    assert_eq!(interrupted["phase"], "Failed", "nothing had been stopped yet");
    let incident = rig.local(&["incidents", "show", interrupted["incident"].as_str().unwrap()]).done();
    assert_eq!(incident["incidents"][0]["kind"], "operation_interrupted");
    let prompt = incident["incidents"][0]["next_prompt"].as_str().unwrap();
    assert!(prompt.contains("tidegate restart request files"), "{prompt}");

    // A new client that knows nothing but the session's name.
    let mut fresh = rig.control("worker");
    let resumed = fresh.tool("session_resume", json!({}))["structuredContent"].clone();
    assert_eq!(texts(&resumed["facts"]["notes"], "text"), ["step 3 of 7 is done"]);
    assert_eq!(next_action(&resumed), "StateReset");

    // The server has outlived its daemon with that call; the next one starts when it has ended.
    latch.open();
    // Killed after its server was told to stop: that restart is carried forward.
    rig.is_ready("files");
    let stopping = rig.request("ops", &["files"]);
    rig.reaches(&stopping, &["Stopping"]);
    rig.kill();
    rig.serve();
    assert_eq!(rig.ended(&stopping)["phase"], "Completed");

    let lease = rig.local(&["leases", "show", "repo/main"]).done()["lease"].clone();
    assert_eq!((&lease["session"], &lease["state"]), (&json!("worker"), &json!("held")));
    assert!(texts(&lease["history"], "event").contains(&"adopted".to_owned()), "{lease}");
    assert_eq!(rig.connect("files", "worker").tool("append", json!({ "text": "on" }))["isError"], false);
}
