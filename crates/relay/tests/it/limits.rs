//! Limits, each with an error that names it, and the right caller told.

use crate::world::{World, request, show};
use tidegate_relay::{
    MAX_ASKS, MAX_DEPTH, MAX_ID_BYTES, MAX_LINE_BYTES, MAX_TOOL_BYTES, Message, StreamId, salvage_id,
};

/// What a client is told of a line.
#[track_caller]
fn check(line: &str, expected: &str) {
    let mut world = World::ready();
    let told = world.client(1, line);
    assert!(told.len() == 1 && told[0].starts_with(&format!("1< {expected}")), "{told:?}");
    assert_eq!(world.holders(), [""; 0], "nothing was forwarded");
}

#[test]
fn a_line_that_is_no_request_is_refused_with_the_reason() {
    check("rubbish", "#null error -32700: this is not JSON: ");
    check("{", "#null error -32700: this is not JSON: ");
    check("[]", "#null error -32600: batches are not part of the protocol since 2025-06-18");
    check("7", "#null error -32600: this is not a JSON-RPC 2.0 message: it is no object");
    check("null", "#null error -32600: this is not a JSON-RPC 2.0 message: it is no object");
    check("{}", "#null error -32600: this is not a JSON-RPC 2.0 message: jsonrpc is not");
    check(r#"{"jsonrpc":"1.0","id":4,"method":"x"}"#, "#4 error -32600: this is not a JSON-RPC 2.0 message");
    check(
        r#"{"jsonrpc":"2.0","id":4}"#,
        "#4 error -32600: this is not a JSON-RPC 2.0 message: it is no request",
    );
    check(
        r#"{"jsonrpc":"2.0","id":4,"method":5}"#,
        "#4 error -32600: this is not a JSON-RPC 2.0 message: the method",
    );
    check(
        r#"{"jsonrpc":"2.0","id":[4],"method":"x"}"#,
        "#null error -32600: this is not a JSON-RPC 2.0 message: the id",
    );
    check(
        r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#,
        "#null error -32600: this is not a JSON-RPC 2.0 message: the id",
    );
    let long = format!("\"{}\"", "x".repeat(MAX_ID_BYTES));
    check(&request(&long, "ping", "{}"), "#null error -32600: this is not a JSON-RPC 2.0 message: the id");
}

#[test]
fn a_key_that_decides_what_a_message_means_must_be_there_once() {
    let twice = |key: &str| format!("#4 error -32600: the key \"{key}\" is there twice");
    check(r#"{"jsonrpc":"2.0","id":4,"method":"x","id":5}"#, &twice("id"));
    check(r#"{"jsonrpc":"2.0","id":4,"method":"x","\u0069d":5}"#, &twice("id"));
    check(r#"{"jsonrpc":"2.0","id":4,"method":"ping","method":"tools/call"}"#, &twice("method"));
    check(r#"{"jsonrpc":"2.0","id":4,"method":"x","params":{},"params":{}}"#, &twice("params"));
    check(&request("4", "tools/call", r#"{"name":"read","name":"write"}"#), &twice("name"));
    check(&request("4", "tools/call", r#"{"name":"read","n\u0061me":"write"}"#), &twice("name"));
    check(&request("4", "tools/call", r#"{"_meta":{},"_meta":{}}"#), &twice("_meta"));
    check(
        &request("4", "tools/call", r#"{"_meta":{"progressToken":1,"progressToken":2}}"#),
        &twice("progressToken"),
    );
}

#[test]
fn nesting_is_bounded_and_brackets_in_strings_do_not_count() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = |depth| format!(r#"{{"name":"read","arguments":{}}}"#, nested(depth));
    // The message and its parameters are two levels.
    check(
        &request("4", "tools/call", &deep(MAX_DEPTH - 1)),
        "#4 error -32600: a message nests at most 128 levels deep",
    );
    let mut world = World::ready();
    assert_eq!(world.client(1, &request("4", "tools/call", &deep(MAX_DEPTH - 2))).len(), 2);
    let text = format!(r#"{{"name":"read","arguments":"\"{}"}}"#, "[{".repeat(500));
    assert_eq!(world.client(1, &request("5", "tools/call", &text)).len(), 2);
    let hostile = "[".repeat(1_000_000);
    assert_eq!(world.client(1, &hostile).len(), 1);
}

#[test]
fn names_that_end_up_in_records_are_bounded() {
    let long = "x".repeat(MAX_TOOL_BYTES + 1);
    check(&request("4", &long, "{}"), "#4 error -32601: the name of a method has at most 256 bytes");
    check(
        &request("4", "tools/call", &format!(r#"{{"name":"{long}"}}"#)),
        "#4 error -32602: the name of a tool has at most 256 bytes",
    );
    check(
        &request("4", "tools/call", r#"{"name":"read\u001b[2J"}"#),
        "#4 error -32602: the name of a tool has no control characters",
    );
    check(&request("4", r"x\ny", "{}"), "#4 error -32601: the name of a method has no control characters");
}

#[test]
fn blank_lines_are_nothing() {
    let mut world = World::ready();
    for line in ["", " ", "\r"] {
        assert_eq!(world.client(1, line), [""; 0]);
    }
}

#[test]
fn a_line_that_is_too_long_costs_only_the_request_it_was() {
    let mut world = World::ready();
    world.call(2, "1", "read");
    let big = request(
        "4",
        "tools/call",
        &format!(r#"{{"name":"write","arguments":"{}"}}"#, "x".repeat(MAX_LINE_BYTES)),
    );
    let told = world.client(1, &big);
    assert!(
        told[0].starts_with("1< #4 error -32600: a message has at most 16777216 bytes, this one has 167"),
        "{told:?}"
    );
    // The gateway's reader keeps the edges only.
    let (head, tail) = (&big.as_bytes()[..64], &big.as_bytes()[big.len() - 8..]);
    let told = show(&world.relay.client_line_too_long(StreamId(1), head, tail, 64 << 20));
    assert_eq!(
        told,
        [
            "1< #4 error -32600: a message has at most 16777216 bytes, this one has 67108864; send less, or send it in parts"
        ]
    );
    assert_eq!(world.answer(2, "1").len(), 1);
}

#[test]
fn an_answer_that_is_too_long_is_an_error_for_the_call_it_answers() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.call(2, "1", "write");
    let upstream = world.upstream(1, "1");
    let (head, tail) =
        (br#"{"result":{"content":[{"text":"xxxx"#, format!(r#"xx"}}]}},"jsonrpc":"2.0","id":{upstream}}}"#));
    let told = show(&world.relay.server_line_too_long(head, tail.as_bytes(), 64 << 20, &world.now));
    assert!(
        told[0]
            .starts_with("1< #1 error -32603: the server's answer is not passed on: a message has at most"),
        "{told:?}"
    );
    assert_eq!(
        world.holders(),
        ["local/s2 files/write mutating 0.000s"],
        "it was an answer: that work is over"
    );
    assert_eq!(show(&world.relay.server_line_too_long(b"xx", b"yy", 64 << 20, &world.now)), [""; 0]);
    assert_eq!(world.relay.counters().junk_lines, 1);
}

#[test]
fn an_answer_that_cannot_be_read_is_an_error_for_the_call_it_answers() {
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    for (line, why) in [
        (format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{deep}}}"#), "a message nests at most"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":null}"#.into(),
            "this is not a JSON-RPC 2.0 message",
        ),
        (r#"{"result":{},"jsonrpc":"1.0","id":ID}"#.into(), "this is not a JSON-RPC 2.0 message"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}"#.into(), "the key \"result\" is there twice"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"text":NaN}}"#.into(), "this is not JSON"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"tex{"jsonrpc":"2.0""#.into(), "this is not JSON"),
    ] {
        let mut world = World::ready();
        world.call(1, "1", "write");
        world.call(2, "1", "write");
        let told = world.server(&line.replace("ID", &world.upstream(1, "1").to_string()));
        let expected = format!("1< #1 error -32603: the server's answer is not passed on: {why}");
        assert!(told.len() == 1 && told[0].starts_with(&expected), "{line}: {told:?}");
        assert_eq!(world.holders(), ["local/s2 files/write mutating 0.000s"], "it was an answer: {line}");
    }
}

#[test]
fn an_answer_that_is_not_utf_8_is_an_error_for_the_call_it_answers() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{},"result":"caf"#, world.upstream(1, "1")).into_bytes();
    line.extend(b"\xe9\"}");
    let told = show(&world.relay.server_line(line, &world.now));
    assert!(told[0].starts_with("1< #1 error -32603: the server's answer is not passed on"), "{told:?}");
    assert_eq!(world.holders(), [""; 0]);
}

#[test]
fn the_id_of_half_a_message_is_found_where_it_can_be() {
    for (head, tail, expected) in [
        (r#"{"jsonrpc":"2.0","id":7,"method":"#, "", Some("7")),
        (r#"{"id" : "a\"b" ,"#, "", Some(r#""a\"b""#)),
        (r#"{"params":{"id":3},"id":8,"#, "", Some("8")),
        (r#"{"x":"\"id\":1","y"#, r#"x"},"id":9}"#, Some("9")),
        (r#"{"x":"#, r#"x"},"id": "k" } "#, Some(r#""k""#)),
        (r#"{"x":"#, r#"x","id":9},"z":1}"#, None),
        (r#"{"id":{"a":1}"#, "", None),
        (r#"{"id":nul"#, "", None),
        (r#"{"id":12"#, "", None),
        (r#"{"id"#, "}", None),
        ("", "", None),
        ("rubbish", "rubbish", None),
    ] {
        let found = salvage_id(head.as_bytes(), tail.as_bytes());
        assert_eq!(found.as_ref().map(tidegate_relay::RawId::as_json), expected, "{head} … {tail}");
    }
}

#[test]
fn a_server_that_asks_without_end_gets_errors() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    for id in 0..MAX_ASKS {
        assert!(
            world.server(&request(&id.to_string(), "sampling/createMessage", "{}"))[0].starts_with("1< ")
        );
    }
    assert!(world.server(&request("999", "sampling/createMessage", "{}"))[0].starts_with("> "), "bounded");
}

#[test]
fn odd_framing_is_the_same_message() {
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r",
        " {\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1} ",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"x\":\"\u{2028}\"}",
    ] {
        let mut world = World::ready();
        assert_eq!(world.client(1, line), [r#"1< {"jsonrpc":"2.0","id":1,"result":{}}"#]);
    }
    let error = Message::parse(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec()).unwrap_err();
    assert!(error.to_string().starts_with("this is not JSON: invalid utf-8"), "{error}");
}
