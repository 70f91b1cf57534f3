//! What comes through a server's pipes: junk, noise, odd framing, large and late messages.

use serde_json::{Value, json};
use tidegate_suite::harness::{Plan, eventually};

fn text_of(result: &Value) -> &str {
    result["structuredContent"]["text"].as_str().unwrap()
}

#[test]
fn junk_on_standard_output_is_skipped() {
    let banner = ["--banner", "Server v1 listening", "--banner", "", "--banner", "{\"level\":\"info\"}"];
    let rig = Plan::new().fault("files", &banner).start();
    let mut client = rig.connect("files", "c1");
    let junk = json!([
        "plain text",
        "",
        "{\"level\":\"info\"}",
        "[1,2]",
        "{\"jsonrpc\":\"2.0\",\"id\":424242,\"result\":{}}"
    ]);
    assert_eq!(text_of(&client.tool("append", json!({ "text": "a", "junk": junk }))), "a");
    assert_eq!(text_of(&client.tool("append", json!({ "text": "b" }))), "b");
    client.catch_up();
    assert_eq!(rig.component("files")["generation"], 1);
}

#[test]
fn a_mebibyte_on_standard_error_holds_nothing_up() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "c1");
    for newlines in [true, false] {
        let arguments = json!({ "text": "noisy", "stderr_bytes": 1 << 20, "stderr_newlines": newlines });
        assert_eq!(text_of(&client.tool("append", arguments)), "noisy");
    }
    let shown = rig.component("files")["last_stderr"].as_str().unwrap().len();
    assert!((1..100_000).contains(&shown), "{shown} bytes of it are kept");
}

#[test]
fn messages_are_framed_on_line_feeds_alone() {
    let rig = Plan::new().fault("files", &["--crlf"]).start();
    let mut client = rig.connect("files", "c1");
    for (text, piece) in
        [("a\u{2028}b\u{2029}c", 4096), ("split \u{1f30a} in the middle", 1), ("\r\n\t\u{85}", 3)]
    {
        let result = client.tool("append", json!({ "text": text, "answer_piece": piece }));
        assert_eq!(text_of(&result), text);
    }
    // The client's side: carriage returns, and one byte at a time.
    client.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\r");
    for byte in b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n" {
        client.write(&[*byte]);
    }
    assert_eq!(text_of(&client.tool("append", json!({ "text": "after" }))), "after");
}

#[test]
fn a_large_answer_comes_whole_and_one_that_is_too_large_is_an_error_of_that_call_alone() {
    let rig = Plan::new().fault("files", &[]).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let large = c1.tool("append", json!({ "text": "large", "answer_bytes": 4 << 20 }));
    assert!(large["structuredContent"]["filler"].as_str().unwrap().len() >= 4 << 20);
    let too_large = c1.call("append", json!({ "text": "too large", "answer_bytes": 64 << 20 }));
    let beside = c2.call("append", json!({ "text": "beside" }));
    let answer = c1.answer(&too_large);
    assert!(answer.get("error").is_some() || answer["result"]["isError"] == true, "an error that says so");
    assert!(answer.to_string().len() < 10_000);
    assert_eq!(text_of(&c2.result(&beside)), "beside");
    assert_eq!(text_of(&c1.tool("append", json!({ "text": "next" }))), "next");
    assert_eq!(rig.component("files")["generation"], 1);
}

#[test]
fn an_answer_that_comes_twice_and_progress_that_comes_late_are_dropped() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "c1");
    let params = |text: &str, extra: Value| {
        let mut arguments = extra;
        arguments["text"] = text.into();
        json!({ "name": "append", "arguments": arguments, "_meta": { "progressToken": "mine" } })
    };
    // The client of these tests fails on an answer that comes twice.
    let answer = client.ask("tools/call", params("twice", json!({ "answers": 3 })));
    assert_eq!(text_of(&answer["result"]), "twice");
    let answer = client.ask("tools/call", params("progress", json!({ "progress": 2, "progress_after": 2 })));
    assert_eq!(text_of(&answer["result"]), "progress");
    assert_eq!(text_of(&client.tool("append", json!({ "text": "next" }))), "next");
    let progress = client.heard("notifications/progress");
    assert_eq!(progress.len(), 2, "{progress:?}");
    assert!(progress.iter().all(|it| it["params"]["progressToken"] == "mine"), "{progress:?}");
}

#[test]
fn many_calls_while_some_are_being_cancelled_lose_none() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "c1");
    let mut kept = Vec::new();
    for number in 0..200 {
        let call = client.call("read", json!({ "text": format!("call-{number}"), "key": "k" }));
        if number % 3 == 0 {
            client.cancel(&call);
        } else {
            kept.push((number, call));
        }
    }
    for (number, call) in &kept {
        assert_eq!(text_of(&client.result(call)), format!("call-{number}"));
    }
    eventually("nothing is in flight", || rig.component("files")["in_flight"] == 0);
}
