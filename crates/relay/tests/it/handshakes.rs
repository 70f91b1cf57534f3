//! Both halves of `initialize`.

use crate::world::{INITIALIZE, TOOLS, World, notification, request, show};
use tidegate_relay::{
    HandshakeError, InitializeResult, RawId, RelayConfig, Unavailable, initialize_request,
    initialized_notification,
};

fn hello(id: &str, version: &str) -> String {
    request(
        id,
        "initialize",
        &format!(r#"{{"protocolVersion":"{version}","capabilities":{{"roots":{{}}}},"clientInfo":{{}}}}"#),
    )
}

#[test]
fn the_gateway_says_hello_with_empty_capabilities() {
    let line = String::from_utf8(initialize_request(&RawId::number(1), "0.1.0")).unwrap();
    assert_eq!(
        line,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tidegate","version":"0.1.0"}}}"#
    );
    assert_eq!(initialized_notification(), br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
}

/// The version a client gets that asks for `asked` of a server that speaks `spoken`.
#[track_caller]
fn version(asked: &str, spoken: &str, expected: &str) {
    let known = InitializeResult::new(&INITIALIZE.replace("2025-11-25", spoken)).unwrap();
    let answer = String::from_utf8(known.answer(&RawId::number(1), Some(asked))).unwrap();
    assert!(answer.contains(&format!(r#""protocolVersion":"{expected}""#)), "{asked} of {spoken}: {answer}");
}

#[test]
fn a_client_gets_its_own_version_where_the_server_is_not_older() {
    version("2025-11-25", "2025-11-25", "2025-11-25");
    version("2025-06-18", "2025-11-25", "2025-06-18");
    version("2024-11-05", "2025-11-25", "2024-11-05");
    version("2025-11-25", "2025-06-18", "2025-06-18");
    version("2026-07-28", "2025-11-25", "2025-11-25");
    version("2025-07-01", "2025-11-25", "2025-11-25");
    version("latest", "2025-03-26", "2025-03-26");
}

#[test]
fn only_version_and_tasks_are_rewritten() {
    let rest = r#""x": 1.0,"capabilities":{"tools":{ "listChanged":true }%},"serverInfo":{"name":"ü","version":"1e2"},"instructions":"a\u0062""#;
    let result = |version: &str, tasks: &str| {
        format!(r#"{{"protocolVersion":"{version}",{}}}"#, rest.replace('%', tasks))
    };
    let known = InitializeResult::new(&result("2025-11-25", r#","tasks":{"list":{}}"#)).unwrap();
    assert_eq!(known.server_version.as_deref(), Some("1e2"));
    let answer = String::from_utf8(known.answer(&RawId::new("\"i\"").unwrap(), Some("2025-06-18"))).unwrap();
    assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":"i","result":{}}}"#, result("2025-06-18", "")));
}

#[test]
fn a_servers_answer_is_read_or_refused_with_a_reason() {
    let id = RawId::number(1);
    let read = |line: &str| InitializeResult::from_answer(line.as_bytes(), &id);
    let result = |json: &str| read(&format!(r#"{{"result":{json},"jsonrpc":"2.0","id":1}}"#));
    assert_eq!(result(INITIALIZE).unwrap().as_json(), INITIALIZE);
    assert_eq!(read(&notification("notifications/message", "{}")), Err(HandshakeError::NotTheAnswer));
    assert_eq!(read(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#), Err(HandshakeError::NotTheAnswer));
    for (got, expected) in [
        (read("listening on 80"), "the server's answer to initialize can't be read: this is not JSON"),
        (result("{}"), "the server's answer to initialize has no protocolVersion"),
        (result("7"), "the server's answer to initialize has no result object"),
        (
            result(r#"{"protocolVersion":"2099-01-01"}"#),
            "the server speaks protocol 2099-01-01, Tidegate speaks 2024-11-05,",
        ),
        (
            read(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#),
            r#"the server refused initialize: {"jsonrpc":"2.0","id":1,"error":{"code":-1"#,
        ),
    ] {
        let error = got.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_client_that_comes_before_the_server_is_answered_when_the_server_is_ready() {
    let mut world = World::with(RelayConfig::default());
    assert_eq!(world.client(1, &hello("\"i\"", "2025-06-18")), [""; 0]);
    assert_eq!(world.relay.next_deadline(), Some(60_000));
    let cancel = notification("notifications/cancelled", r#"{"requestId":"i"}"#);
    assert_eq!(world.client(1, &cancel), [""; 0], "initialize can't be cancelled");
    let answers = world.generation(1, TOOLS);
    assert_eq!(answers.len(), 1);
    assert!(
        answers[0].starts_with(r#"1< {"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-06-18""#),
        "{answers:?}"
    );
    assert_eq!(world.client(1, &notification("notifications/initialized", "{}")), [""; 0]);
}

#[test]
fn initialize_is_answered_from_cache_at_a_closed_gate_and_while_the_server_is_away() {
    let mut world = World::ready();
    world.close();
    assert_eq!(world.client(1, &hello("1", "2025-11-25")).len(), 1);
    world.die();
    assert_eq!(world.client(2, &hello("1", "2025-11-25")).len(), 1);
}

#[test]
fn a_server_that_exits_during_initialize_gives_the_client_the_end_of_its_stderr() {
    let mut world = World::with(RelayConfig::default());
    world.client(1, &hello("1", "2025-11-25"));
    let message = "it exited with status 1: no such file: /srv".to_owned();
    let why = Unavailable { incident: Some("inc-1".parse().unwrap()), message };
    let told = show(&world.relay.server_unavailable(why, &world.now));
    assert_eq!(told, ["1< #1 unavailable → ContactOperator"]);
    let line =
        world.relay.client_message(tidegate_relay::StreamId(2), hello("9", "2025-11-25").into(), &world.now);
    let text = format!("{line:?}");
    assert_eq!(show(&line), ["2< #9 unavailable → ContactOperator"], "{text}");
    assert_eq!(world.call(1, "2", "write"), ["1< #2 unavailable → ContactOperator"]);
    world.generation(1, TOOLS);
    assert_eq!(world.call(1, "3", "read").len(), 2, "and it is over when the server is ready");
}

#[test]
fn an_initialize_that_waits_too_long_or_is_overtaken_is_told() {
    let mut world = World::with(RelayConfig::default());
    world.client(1, &hello("1", "2025-11-25"));
    assert_eq!(
        world.client(1, &hello("2", "2025-11-25")),
        ["1< #1 error -32600: another initialize followed before this one was answered"]
    );
    assert_eq!(world.at(59_999).tick(), [""; 0]);
    assert_eq!(world.at(60_000).tick(), ["1< #2 error 4503: the server is not ready yet; initialize again"]);
    assert_eq!(world.relay.next_deadline(), None);
}

#[test]
fn a_client_of_the_next_era_is_told_both() {
    let mut world = World::ready();
    let told = world.client(1, &request("1", "server/discover", "{}"));
    assert!(told[0].contains("2026-07-28") && told[0].contains("2025-11-25"), "{told:?}");
}

#[test]
fn tasks_are_refused_by_name() {
    let mut world = World::ready();
    let call = world.client(1, &request("1", "tools/call", r#"{"name":"write","task":{"ttl":1}}"#));
    assert!(call[0].starts_with("1< #1 error -32602: params.task is not available"), "{call:?}");
    let get = world.client(1, &request("2", "tasks/get", "{}"));
    assert_eq!(get, ["1< #2 error -32601: tasks/get is not available: the tasks capability is not offered"]);
    assert_eq!(world.holders(), [""; 0]);
}
