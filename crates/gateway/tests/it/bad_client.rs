//! Clients that send rubbish: they are told, and nobody else notices.

use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tidegate_suite::harness::{PATIENCE, Plan};

#[test]
fn rubbish_is_answered_or_skipped_and_the_session_goes_on() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut rude = rig.connect("files", "rude");
    let mut polite = rig.connect("files", "polite");
    for line in ["not json", "{", "[]", "[1,2]", "42", "\"text\"", "null", "{}", r#"{"jsonrpc":"2.0"}"#] {
        rude.send(line);
        let error = rude.nameless_error();
        let code = error["error"]["code"].as_i64().unwrap();
        assert!([-32700, -32600].contains(&code), "{line}: {error}");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
    rude.write(b"\xff\xfe\n");
    assert_eq!(rude.nameless_error()["error"]["code"], -32700);
    rude.write(b"\n  \n\r\n");
    // Answers to nothing, notifications of nothing.
    rude.send(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#);
    rude.send(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody's","progress":1}}"#);
    rude.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody's"}}"#);
    let unknown = rude.ask("no/such/method", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert_eq!(rude.tool("append", json!({ "text": "rude" }))["structuredContent"]["start"], 1);
    assert_eq!(polite.tool("append", json!({ "text": "polite" }))["structuredContent"]["start"], 1);
    assert_eq!(rig.server("files").executed(), ["rude", "polite"]);
}

#[test]
fn the_governance_tools_answer_rubbish_as_any_component_does() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut control = rig.control("s1");
    for line in [
        "not json",
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        "{}",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
    ] {
        control.send(line);
        let code = control.nameless_error()["error"]["code"].as_i64().unwrap();
        assert!([-32700, -32600].contains(&code), "{line}: {code}");
    }
    control.write(b"\xff\xfe\n\n  \n");
    assert_eq!(control.nameless_error()["error"]["code"], -32700);
    control.send(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#);
    let newer = control.ask("server/discover", json!({}))["error"]["message"].clone();
    let says = |era: &str| newer.as_str().unwrap().contains(era);
    assert!(says("2026-07-28") && says("2025-11-25"), "{newer}");
    assert_eq!(control.ask("no/such/method", json!({}))["error"]["code"], -32601);
    assert_eq!(control.tool("status", json!({}))["isError"], false);
}

#[test]
fn a_request_with_the_id_null_is_invalid_and_reaches_nobody() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    client.send(r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"append","arguments":{"text":"null"}}}"#);
    assert_eq!(client.nameless_error()["error"]["code"], -32600);
    client.tool("append", json!({ "text": "after" }));
    assert_eq!(rig.server("files").arrived("null"), 0);
}

#[test]
fn a_message_that_is_too_large_is_refused_and_the_next_one_is_not() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    let huge = "x".repeat(17 << 20);
    let params = json!({ "name": "append", "arguments": { "text": huge } });
    let call = client.request_as("\"big\"", "tools/call", &params);
    let answer = client.answer(&call);
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("at most") && said.contains("in parts"), "{answer}");
    let large = "y".repeat(1 << 20);
    client.tool("append", json!({ "text": large }));
    assert_eq!(rig.server("files").times(&large), 1);
}

/// Says something to the socket and gives the first line of the answer.
fn socket_says(rig: &tidegate_suite::harness::Rig, hello: &[u8]) -> String {
    let mut socket = UnixStream::connect(rig.state().join("tidegate.sock")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(hello).unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    line
}

#[test]
fn rubbish_at_the_socket_is_refused_with_what_to_do() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    assert!(socket_says(&rig, b"GET / HTTP/1.1\n").contains("not a hello"));
    assert!(
        socket_says(&rig, b"{\"wire\":99,\"role\":\"command\"}\n")
            .contains("use the same `tidegate` on both sides")
    );
    assert!(socket_says(&rig, b"{\"wire\":2,\"role\":\"operator\"}\n").contains("not a hello"));
    // One that says nothing and goes away, and one that is cut off in the middle.
    drop(UnixStream::connect(rig.state().join("tidegate.sock")).unwrap());
    UnixStream::connect(rig.state().join("tidegate.sock")).unwrap().write_all(b"{\"wire\"").unwrap();
    assert_eq!(client.tool("append", json!({ "text": "a" }))["structuredContent"]["start"], 1);
}

#[test]
fn the_socket_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Plan::new().fault("files", &[]).start();
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(rig.state()), 0o700);
    assert_eq!(mode(rig.state().join("tidegate.sock")), 0o600);
}

#[test]
fn commands_with_bad_arguments_exit_with_2_and_say_which() {
    let rig = Plan::new().fault("files", &[]).start();
    for (args, word) in [
        (&["restart", "request", "files"][..], "--reason"),
        (&["restart", "request", "--reason", "x"], "COMPONENT"),
        (&["connect"], "COMPONENT"),
        (&["connect"], "--control"),
        (&["connect", "files", "--session", "no spaces?"], "session"),
        (&["leases", "renew", "k", "--session", "s", "--fence", "7"], "fence"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = rig.local(args);
        assert!(output.cannot().contains(word), "{args:?}: {output:?}");
    }
    // A client that reads nothing of what it asked for is no harm either.
    let mut socket = UnixStream::connect(rig.state().join("tidegate.sock")).unwrap();
    socket.write_all(b"{\"wire\":2,\"role\":\"command\"}\n").unwrap();
    socket.write_all(&b"{\"do\":\"status\"}\n".repeat(200)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut some = [0; 16];
    socket.read_exact(&mut some).unwrap();
    drop(socket);
    rig.is_ready("files");
}
