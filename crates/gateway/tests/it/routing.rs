//! What a shared server asks and says of its own accord, while several sessions are attached.

use serde_json::{Value, json};
use tidegate_suite::harness::{Call, Client, FaultServer, Latch, Plan, Rig, eventually};

fn two() -> (Rig, FaultServer, Client, Client) {
    let rig = Plan::new().fault("files", &[]).start();
    let (c1, c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let server = rig.server("files").clone();
    (rig, server, c1, c2)
}

/// A call that asks its client something.
fn asking(client: &mut Client, text: &str) -> Call {
    let ask = json!({ "method": "elicitation/create", "params": { "message": text } });
    client.call("append", json!({ "text": text, "ask": ask }))
}

/// A call that its server works on until the latch is opened.
fn working(server: &FaultServer, client: &mut Client, text: &str) -> (Latch, Call) {
    let latch = server.latch(text);
    let call = client.call("append", json!({ "text": text, "until_file": latch.path() }));
    server.arrives(text);
    (latch, call)
}

fn answered(result: &Value) -> &Value {
    &result["structuredContent"]["answered"]
}

#[test]
fn a_question_goes_to_the_session_whose_call_is_in_flight_and_its_answer_comes_back() {
    let (_rig, _server, mut c1, mut c2) = two();
    for (id, client) in [&mut c2, &mut c1].into_iter().enumerate() {
        let call = asking(client, "which?");
        let asked = client.hear("elicitation/create");
        assert_eq!(asked["params"]["message"], "which?");
        let answer =
            json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "n": id } });
        client.send(&answer.to_string());
        assert_eq!(answered(&client.result(&call))["result"]["n"], id);
    }
    assert_eq!((c1.heard("elicitation/create").len(), c2.heard("elicitation/create").len()), (0, 0));
}

#[test]
fn a_question_that_could_be_for_two_sessions_fails_upstream_and_is_put_to_neither() {
    let (_rig, server, mut c1, mut c2) = two();
    let (latch, beside) = working(&server, &mut c2, "beside");
    let call = asking(&mut c1, "whose?");
    let told = answered(&c1.result(&call)).clone();
    assert!(told["error"]["message"].as_str().unwrap().contains("per-session"), "{told}");
    latch.open();
    c2.result(&beside);
    assert_eq!((c1.heard("elicitation/create").len(), c2.heard("elicitation/create").len()), (0, 0));
}

#[test]
fn a_question_to_a_session_that_goes_away_fails_upstream_and_is_nobody_else_s() {
    let (rig, server, mut c1, mut c2) = two();
    asking(&mut c1, "still there?");
    c1.hear("elicitation/create");
    c1.kill();
    server.executes("still there?");
    eventually("its work is over", || rig.component("files")["in_flight"] == 0);
    assert_eq!(c2.heard("elicitation/create"), Vec::<Value>::new());
    c2.tool("append", json!({ "text": "next" }));
}

#[test]
fn a_log_message_goes_to_whose_call_it_is_about_and_a_list_change_to_all() {
    let (_rig, server, mut c1, mut c2) = two();
    c1.tool("append", json!({ "text": "a", "log": "of c1", "tools_changed": true }));
    assert_eq!(c1.hear("notifications/message")["params"]["data"], "of c1");
    for client in [&mut c1, &mut c2] {
        client.hear("notifications/tools/list_changed");
    }
    let (latch, beside) = working(&server, &mut c2, "beside");
    c1.tool("append", json!({ "text": "b", "log": "of nobody knows whom" }));
    latch.open();
    c2.result(&beside);
    assert_eq!((c1.heard("notifications/message").len(), c2.heard("notifications/message").len()), (0, 0));
}

#[test]
fn a_cancelled_initialize_is_not_forwarded_and_a_ping_needs_no_server_that_knows_it() {
    for ping in ["error", "silence"] {
        let rig = Plan::new().fault("files", &["--ping", ping]).start();
        let mut client = rig.shim("files", "c1");
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let call = client.request("initialize", hello);
        client.cancel(&call);
        client.result(&call);
        assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
        client.tool("append", json!({ "text": "a" }));
        let received = rig.server("files").received();
        assert!(
            received.iter().all(|it| it["message"]["method"] != "notifications/cancelled"),
            "{received:?}"
        );
    }
}

#[test]
fn a_list_that_is_empty_while_the_next_generation_warms_up_takes_no_tool_away() {
    let (rig, server, mut c1, _c2) = two();
    server.script(&["--empty-lists", "1"]);
    rig.restarts(&["files"]);
    assert_eq!(c1.tool("append", json!({ "text": "a" }))["structuredContent"]["start"], 2);
    assert_eq!(c1.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len(), 3);
    assert_eq!(c1.heard("notifications/tools/list_changed"), Vec::<Value>::new());
    assert_ne!(rig.resume("c1")["next_action"]["kind"], "RefreshTools");
}
