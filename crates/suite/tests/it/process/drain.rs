//! Bullets 2 to 4: what a drain does to new work, to work that ends in time, and to work that doesn't.

use serde_json::{Value, json};
use tidegate_suite::harness::{Call, Client, FaultServer, Plan, Rig, eventually};

/// The calls that have arrived at generation `start` of a server, by their texts.
fn arrived_at(server: &FaultServer, start: u64) -> Vec<String> {
    let calls = server.received();
    let calls =
        calls.iter().filter(|line| line["start"] == start && line["message"]["method"] == "tools/call");
    calls.map(|line| line["message"]["params"]["arguments"]["text"].as_str().unwrap().to_owned()).collect()
}

/// Begins a call that waits for a latch, and waits until the server has it.
fn begin(client: &mut Client, server: &FaultServer, tool: &str, text: &str) -> Call {
    let latch = server.latch(text);
    let call =
        client.call(tool, json!({ "text": text, "key": "k", "value": "v", "until_file": latch.path() }));
    server.arrives(text);
    call
}

fn holders(operation: &Value) -> Vec<(String, String, String, bool)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let holders = operation["holders"].as_array().unwrap();
    let mut holders: Vec<_> = holders
        .iter()
        .map(|h| (text(&h["session"]), text(&h["tool"]), text(&h["class"]), h["detached"] == true))
        .collect();
    holders.sort();
    holders
}

pub(super) fn new_work_stops() {
    let rig = Plan::new().policy("hold = \"3s\"").fault("files", &[]).start();
    let server = rig.server("files").clone();
    let (mut s1, mut s2, mut s3) =
        (rig.connect("files", "s1"), rig.connect("files", "s2"), rig.connect("files", "s3"));
    let running = begin(&mut s1, &server, "append", "running");

    // The drain has begun: calls of every class stop at the gate, and nothing new reaches the server.
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let held = [
        s1.call("append", json!({ "text": "held-1" })),
        s2.call("put", json!({ "text": "held-2", "key": "k", "value": "v" })),
        s3.call("read", json!({ "text": "held-3", "key": "k" })),
    ];
    let listed = s2.ask("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3, "lists come from the cache meanwhile");
    assert!(s3.ask("ping", json!({}))["result"].is_object());
    rig.holds("files", 3);
    assert_eq!(arrived_at(&server, 1), ["running"]);

    // The gate opens at the next generation, and what was held is done there, once.
    server.latch("running").open();
    assert_eq!(s1.result(&running)["structuredContent"]["start"], 1);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    for (session, call) in [&mut s1, &mut s2, &mut s3].into_iter().zip(&held) {
        assert_eq!(session.result(call)["structuredContent"]["start"], 2);
    }
    assert_eq!(arrived_at(&server, 1), ["running"]);
    let mut after = arrived_at(&server, 2);
    after.sort();
    assert_eq!(after, ["held-1", "held-2", "held-3"]);

    // A hold is bounded: after it the call is refused with what to do, and never reaches the server.
    let running = begin(&mut s1, &server, "append", "running-2");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let call = s2.call("append", json!({ "text": "refused" }));
    let refusal = s2.refused(&call);
    assert_eq!((&refusal["kind"], &refusal["retryable"]), (&json!("draining"), &json!(true)), "{refusal}");
    assert_eq!((&refusal["component"], &refusal["operation"]), (&json!("files"), &json!(id)), "{refusal}");
    assert_eq!(refusal["next_action"]["kind"], "WaitForRestart", "{refusal}");
    server.latch("running-2").open();
    s1.result(&running);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(server.arrived("refused"), 0);
}

pub(super) fn active_work_finishes() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut sessions: Vec<Client> = ["s1", "s2", "s3"].map(|name| rig.connect("files", name)).into();
    let tools = ["read", "put", "append"];
    let mut calls = Vec::new();
    for (session, tool) in sessions.iter_mut().zip(tools) {
        calls.push(begin(session, &server, tool, &format!("active-{tool}")));
    }
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    eventually("all three are named as holders", || {
        rig.operation(&id)["holders"].as_array().unwrap().len() == 3
    });

    // One after the other ends, and each gets its own answer from the server that it was sent to.
    for ((session, tool), call) in sessions.iter_mut().zip(tools).zip(&calls) {
        assert_eq!(rig.operation(&id)["phase"], "Draining");
        server.latch(&format!("active-{tool}")).open();
        let content = session.result(call)["structuredContent"].clone();
        assert_eq!((&content["start"], &content["text"]), (&json!(1), &json!(format!("active-{tool}"))));
    }
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(server.executed(), ["active-put", "active-append"]);
    let cancelled = server.received().iter().any(|it| it["message"]["method"] == "notifications/cancelled");
    assert!(!cancelled, "the drain cancels nothing");
    for session in &mut sessions {
        assert_eq!(session.tool("read", json!({ "text": "after" }))["structuredContent"]["start"], 2);
        assert_eq!(session.unanswered(), []);
    }
}

fn refuses(rig: &Rig) -> Value {
    let id = rig.request("ops", &["files"]);
    let operation = rig.ended(&id);
    assert_eq!(operation["phase"], "Refused", "{operation}");
    assert!(operation["incident"].is_string(), "{operation}");
    operation
}

pub(super) fn unsafe_work_blocks() {
    let rig = Plan::new().policy("drain_deadline = \"1s\"").fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut s1 = rig.connect("files", "s1");
    let mut s2 = rig.connect("files", "s2");
    let before = rig.is_ready("files");
    let holder = |session: &str, tool: &str, class: &str, detached: bool| {
        (session.to_owned(), tool.to_owned(), class.to_owned(), detached)
    };

    // A mutating call is executing: the restart is refused, its holder is named, the gate opens again.
    let running = begin(&mut s1, &server, "append", "running");
    let operation = refuses(&rig);
    assert_eq!(holders(&operation), [holder("s1", "append", "mutating", false)]);
    let after = rig.component("files");
    assert_eq!((&after["pid"], &after["generation"]), (&before["pid"], &before["generation"]));
    assert_eq!(s2.tool("append", json!({ "text": "beside" }))["structuredContent"]["start"], 1);

    // It may still be executing when its caller has cancelled it, or is gone.
    s1.cancel(&running);
    let mut gone = rig.connect_apart("files", "s3");
    begin(&mut gone, &server, "put", "abandoned");
    gone.kill();
    eventually("the gateway has seen both callers go", || {
        let id = rig.request("ops", &["files"]);
        let draining = rig.reaches(&id, &["Draining", "Refused"]);
        rig.by("ops", &["restart", "cancel", &id]);
        holders(&draining).iter().all(|(.., detached)| *detached)
    });
    let operation = refuses(&rig);
    assert_eq!(
        holders(&operation),
        [holder("s1", "append", "mutating", true), holder("s3", "put", "idempotent", true)]
    );
    assert_eq!(rig.component("files")["pid"], before["pid"]);

    // Only the server's own answers, or its death, end them.
    server.latch("running").open();
    server.latch("abandoned").open();
    rig.restarts(&["files"]);
    assert_eq!((server.times("running"), server.times("abandoned")), (1, 1));
    assert_eq!(s2.tool("append", json!({ "text": "at last" }))["structuredContent"]["start"], 2);
}
