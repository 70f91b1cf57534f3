//! What one call can be told to do.

use super::driver::{Driver, eventually, ledger, lines};
use serde_json::{Value, json};
use tempfile::tempdir;

#[test]
fn it_shakes_hands_and_lists_what_it_has() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &[]);
    let hello = server.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello["result"]["serverInfo"]["name"], "tidegate-fault-server");
    server.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));

    let listed = server.ask("tools/list", json!({}));
    let hints: Vec<String> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            let a = &t["annotations"];
            format!("{} {} {} {}", t["name"], a["readOnlyHint"], a["destructiveHint"], a["idempotentHint"])
        })
        .collect();
    assert_eq!(
        hints,
        ["\"append\" false false false", "\"put\" false false true", "\"read\" true false true"]
    );
    assert_eq!(server.ask("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(server.call("no-such", json!({}))["error"]["code"], -32602);
    assert_eq!(server.call("read", json!({ "delay": 1 }))["error"]["code"], -32602);
    server.line("rubbish");
    assert_eq!(server.message()["error"]["code"], -32700);
}

#[test]
fn the_ledger_has_a_line_before_the_answer_is_written() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &[]);
    for text in ["a", "b"] {
        let answer = server.call("append", json!({ "text": text }));
        assert_eq!(answer["result"]["structuredContent"]["text"], text);
        assert!(ledger(dir.path()).contains(&format!("1:{text}")));
    }
    let put = server.call("put", json!({ "text": "p", "key": "k", "value": "v" }));
    assert_eq!(put["result"]["structuredContent"]["value"], "v");
    let read = server.call("read", json!({ "key": "k" }));
    assert_eq!(read["result"]["structuredContent"]["value"], "v");
    assert_eq!(ledger(dir.path()), ["1:a", "1:b", "1:p"]);
    assert_eq!(lines(dir.path(), "ledger.jsonl")[0]["pid"], server.child.id());
}

#[test]
fn a_stalled_call_holds_up_nothing_else() {
    let dir = tempdir().unwrap();
    let (go, answer) = (dir.path().join("go"), dir.path().join("answer"));
    let mut server = Driver::start(dir.path(), &[]);
    let stalled =
        server.send_call("append", json!({ "text": "slow", "until_file": go, "answer_until_file": answer }));
    server.call("append", json!({ "text": "quick" }));
    assert_eq!(ledger(dir.path()), ["1:quick"]);

    std::fs::write(&go, "").unwrap();
    eventually("the call is committed", || ledger(dir.path()) == ["1:quick", "1:slow"]);
    server.is_quiet();
    std::fs::write(&answer, "").unwrap();
    assert_eq!(server.message()["id"], stalled);
}

#[test]
fn it_dies_before_or_after_the_ledger_line_or_the_answer() {
    let check = |die: &str, answers: usize, expected: &[&str]| {
        let dir = tempdir().unwrap();
        let mut server = Driver::start(dir.path(), &[]);
        server.send_call("append", json!({ "text": "x", "die": die, "die_code": 7 }));
        for _ in 0..answers {
            assert!(server.message()["result"].is_object());
        }
        let (status, _) = server.end();
        assert_eq!(status.code(), Some(7), "{die}");
        assert_eq!(ledger(dir.path()), expected, "{die}");
    };
    check("before-commit", 0, &[]);
    check("after-commit", 0, &["1:x"]);
    check("after-answer", 1, &["1:x"]);
}

#[test]
fn it_answers_with_an_error_or_twice_or_not_at_all() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &[]);
    let error = server.call("append", json!({ "error": { "code": -32000, "message": "no" } }));
    assert_eq!(error["error"], json!({ "code": -32000, "message": "no" }));
    assert_eq!(server.call("append", json!({ "is_error": true }))["result"]["isError"], true);
    assert_eq!(server.call("put", json!({}))["result"]["isError"], true);

    let twice = server.call("read", json!({ "answers": 2 }));
    assert_eq!(server.message(), twice);
    server.send_call("append", json!({ "silent": true }));
    server.is_quiet();
    assert_eq!(ledger(dir.path()).len(), 3);
}

#[test]
fn it_writes_junk_noise_and_answers_in_pieces_of_any_size() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &[]);
    server.send_call(
        "read",
        json!({ "junk": ["", "{\"level\":\"info\"}"], "text": "a\u{2028}é", "answer_piece": 1 }),
    );
    assert_eq!([server.raw(), server.raw()], ["\n", "{\"level\":\"info\"}\n"]);
    assert_eq!(server.message()["result"]["structuredContent"]["text"], "a\u{2028}é");

    let big =
        server.call("read", json!({ "answer_bytes": 1 << 20, "stderr_bytes": 200, "stderr_newlines": true }));
    assert!(big.to_string().len() > 1 << 20);
    server.close_input();
    let (status, stderr) = server.end();
    assert!(status.success());
    assert_eq!((stderr.len(), stderr.lines().count()), (200, 2));
}

#[test]
fn progress_and_log_messages_and_list_changes_come_when_asked_for() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &[]);
    server.ask("resources/subscribe", json!({ "uri": "ledger://lines" }));
    server.send_call(
        "append",
        json!({ "progress": 2, "log": "hello", "tools_changed": true, "progress_after": 1 }),
    );
    let told: Vec<Value> = (0..7).map(|_| server.message()["method"].clone()).collect();
    let expected = [
        "notifications/progress",
        "notifications/progress",
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ];
    assert_eq!(told[..5], expected);
    assert_eq!(told[5..], [Value::Null, "notifications/progress".into()]);

    server.ask("logging/setLevel", json!({ "level": "error" }));
    server.ask("resources/unsubscribe", json!({ "uri": "ledger://lines" }));
    server.call("append", json!({ "log": "not loud enough" }));
    server.send_call("read", json!({ "log": "loud", "log_level": "critical" }));
    assert_eq!(server.message()["params"]["data"], "loud");
}

#[test]
fn it_asks_the_client_and_tells_what_it_was_answered() {
    let dir = tempdir().unwrap();
    let mut server = Driver::start(dir.path(), &[]);
    let id = server.send_call("read", json!({ "ask": { "method": "roots/list" } }));
    let asked = server.message();
    assert_eq!(asked["method"], "roots/list");
    server.line(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } }).to_string());
    let answer = server.message();
    assert_eq!(answer["id"], id);
    assert_eq!(answer["result"]["structuredContent"]["answered"]["result"], json!({ "roots": [] }));
}

#[test]
fn a_cancelled_call_goes_on_unless_the_server_honours_it() {
    let check = |flags: &[&str], expected: &[&str]| {
        let dir = tempdir().unwrap();
        let go = dir.path().join("go");
        let mut server = Driver::start(dir.path(), flags);
        let id = server.send_call("append", json!({ "text": "x", "until_file": go }));
        server.line(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
                .to_string(),
        );
        server.ask("ping", json!({}));
        std::fs::write(&go, "").unwrap();
        if expected.is_empty() {
            server.is_quiet();
        } else {
            assert_eq!(server.message()["id"], id);
        }
        assert_eq!(ledger(dir.path()), expected, "{flags:?}");
        let methods: Vec<Value> =
            lines(dir.path(), "received.jsonl").iter().map(|l| l["message"]["method"].clone()).collect();
        assert_eq!(methods, ["tools/call", "notifications/cancelled", "ping"]);
    };
    check(&[], &["1:x"]);
    check(&["--honour-cancel"], &[]);
}
