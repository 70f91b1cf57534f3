//! Whose answer is whose.

use crate::world::{World, request};

#[test]
fn ids_are_echoed_byte_for_byte_with_their_type() {
    for id in [
        r#""1""#,
        "1",
        "9007199254740993",
        r#""init-1""#,
        "0",
        "-7",
        "1.5",
        r#""""#,
        r#""\u0031""#,
        r#""ü \" }""#,
        "123456789012345678901234567890",
    ] {
        let mut world = World::ready();
        world.call(1, id, "read");
        assert_eq!(
            world.answer(1, id),
            [format!(r#"1< {{"jsonrpc":"2.0","id":{id},"result":{{"ok":true}}}}"#)]
        );
    }
}

#[test]
fn two_sessions_that_use_id_1_at_once_get_their_own_answers() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.call(2, "1", "write");
    let (first, second) = (world.upstream(1, "1"), world.upstream(2, "1"));
    let answer = |id: u64, n: u8| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":{n}}}}}"#);
    assert_eq!(world.server(&answer(second, 2)), [r#"2< {"jsonrpc":"2.0","id":1,"result":{"n":2}}"#]);
    assert_eq!(world.server(&answer(first, 1)), [r#"1< {"jsonrpc":"2.0","id":1,"result":{"n":1}}"#]);
}

#[test]
fn one_and_the_string_one_are_two_requests_of_one_stream() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.call(1, r#""1""#, "read");
    assert_ne!(world.upstream(1, "1"), world.upstream(1, r#""1""#));
}

#[test]
fn a_null_id_is_refused_and_nothing_is_forwarded() {
    let mut world = World::ready();
    assert_eq!(
        world.call(1, "null", "write"),
        ["1< #null error -32600: the id must be a string or a number, not null; nothing was forwarded"]
    );
    assert_eq!(world.holders(), [""; 0]);
}

#[test]
fn an_id_that_is_in_flight_cannot_be_used_again_until_it_is_answered() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    assert_eq!(
        world.call(1, "1", "write"),
        ["1< #1 error -32600: the id 1 belongs to a request that is in flight; use another one"]
    );
    assert_eq!(world.holders().len(), 1);
    world.answer(1, "1");
    world.call(1, "1", "write");
    assert_eq!(world.holders().len(), 1);
}

#[test]
fn a_late_or_second_answer_is_dropped_and_counted() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    let upstream = world.upstream(1, "1");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{upstream},"result":{{}}}}"#);
    assert_eq!(world.server(&answer).len(), 1);
    for stray in [
        answer.as_str(),
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":99,"error":{}}"#,
    ] {
        assert_eq!(world.server(stray), [""; 0]);
    }
    assert_eq!(world.relay.counters().late_answers, 3);
}

#[test]
fn an_ordinary_error_of_the_server_passes_as_it_is() {
    let mut world = World::ready();
    world.client(1, &request("7", "resources/read", r#"{"uri":"a"}"#));
    let upstream = world.upstream(1, "7");
    let line =
        |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32002,"message":"no such"}}}}"#);
    assert_eq!(world.server(&line(upstream)), ["1< #7 error -32002: no such"]);
    assert!(world.relay.is_ready(), "no restart, no retry");
}

#[test]
fn junk_on_the_servers_stdout_is_skipped_and_counted() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    for junk in [
        "Server listening",
        "",
        "  ",
        r#"{"level":"info"}"#,
        "[]",
        "null",
        "{",
        r#"{"level":"info","id":2}"#,
        r#"{"level":"error","id":2,"error":"said by a log"}"#,
        r#"{"jsonrpc":"2.0","id":2}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{},"error":{}}"#,
        r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#,
        "\u{1b}[32mready",
    ] {
        assert_eq!(world.server(junk), [""; 0], "{junk}");
    }
    assert_eq!(world.relay.counters().junk_lines, 14);
    assert_eq!(world.answer(1, "1").len(), 1, "the call still gets its answer");
}
