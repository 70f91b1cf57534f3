//! What a shared server says of its own accord, and to whom.

use crate::world::{TOOLS, World, notification, request, session};
use tidegate_relay::StreamId;

fn handshake(world: &mut World, stream: u64) {
    let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}"#;
    world.client(stream, &request("\"init\"", "initialize", params));
}

#[test]
fn a_question_goes_to_the_session_whose_call_the_server_is_working_on() {
    let mut world = World::ready();
    world.call(2, "1", "write");
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        let told = world.server(&request("\"q\"", method, "{}"));
        assert!(told.len() == 1 && told[0].starts_with("2< "), "{told:?}");
    }
}

#[test]
fn a_question_that_could_be_for_several_or_for_nobody_fails_upstream() {
    let nobody = |id: &str| {
        format!(
            r#"> {{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"there is no one session to put roots/list to; a component with sharing = \"per-session\" asks the session it belongs to"}}}}"#
        )
    };
    let mut world = World::ready();
    assert_eq!(world.server(&request("0", "roots/list", "{}")), [nobody("0")], "two sessions, no call");
    world.call(1, "1", "write");
    world.call(2, "1", "write");
    assert_eq!(
        world.server(&request("\"a\"", "roots/list", "{}")),
        [nobody("\"a\"")],
        "two sessions, two calls"
    );
    world.answer(2, "1");
    world.gone(1);
    assert_eq!(world.server(&request("5", "roots/list", "{}")), [nobody("5")], "the owner is gone");
}

#[test]
fn the_questions_of_a_session_that_goes_away_fail_upstream() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.server(&request("\"q\"", "elicitation/create", "{}"));
    assert_eq!(
        world.gone(1),
        [
            "detached local/s1 write g1",
            r#"> {"jsonrpc":"2.0","id":"q","error":{"code":-32603,"message":"the session that was asked is gone"}}"#
        ]
    );
}

#[test]
fn a_question_that_is_withdrawn_or_whose_server_dies_is_cancelled_at_the_client() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.server(&request("\"q\"", "elicitation/create", "{}"));
    world.server(&request("\"r\"", "elicitation/create", "{}"));
    let withdrawn = |id: &str| {
        notification("notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":"never mind"}}"#))
    };
    assert_eq!(world.server(&withdrawn("\"q\"")), [format!("1< {}", withdrawn("1"))]);
    assert_eq!(world.server(&withdrawn("\"q\"")), [""; 0]);
    let dead = notification("notifications/cancelled", r#"{"requestId":2,"reason":"the server has ended"}"#);
    assert_eq!(world.die()[2], format!("1< {dead}"));
    assert_eq!(world.client(1, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#), [""; 0], "too late");
    assert_eq!(world.relay.counters().late_client_answers, 1);
}

#[test]
fn an_answer_counts_only_from_the_stream_that_was_asked() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.server(&request("\"q\"", "elicitation/create", "{}"));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(world.client(2, answer), [""; 0]);
    assert_eq!(world.client(1, answer), [r#"> {"jsonrpc":"2.0","id":"q","result":{}}"#]);
}

#[test]
fn a_servers_ping_is_answered_without_any_client() {
    let mut world = World::ready();
    assert_eq!(
        world.server(&request("\"p\"", "ping", "{}")),
        [r#"> {"jsonrpc":"2.0","id":"p","result":{}}"#]
    );
}

#[test]
fn list_changes_go_to_every_stream_past_its_handshake() {
    let mut world = World::ready();
    handshake(&mut world, 1);
    handshake(&mut world, 2);
    world.relay.stream_opened(StreamId(3), session("s3"));
    for (method, changed) in [
        ("notifications/tools/list_changed", &["changed tools/list"][..]),
        ("notifications/prompts/list_changed", &["changed prompts/list"]),
        (
            "notifications/resources/list_changed",
            &["changed resources/list", "changed resources/templates/list"],
        ),
    ] {
        let line = notification(method, "{}");
        let mut expected: Vec<String> = changed.iter().map(|line| (*line).to_owned()).collect();
        expected.extend([format!("1< {line}"), format!("2< {line}")]);
        assert_eq!(world.server(&line), expected);
    }
}

#[test]
fn a_log_message_goes_to_the_session_whose_call_it_is_about_and_to_nobody_else() {
    let mut world = World::ready();
    let log = notification("notifications/message", r#"{"level":"info","data":"secret of s1"}"#);
    world.call(1, "1", "read");
    assert_eq!(world.server(&log), [format!("1< {log}")]);
    world.call(2, "1", "read");
    assert_eq!(world.server(&log), [""; 0], "it can't be told whose it is");
    world.answer(1, "1");
    world.answer(2, "1");
    assert_eq!(world.server(&log), [""; 0]);
    assert_eq!(world.relay.counters().dropped_notifications, 2);
    world.gone(2);
    assert_eq!(world.server(&log), [format!("1< {log}")], "there is only one session");
}

#[test]
fn a_third_session_that_comes_and_goes_during_a_restart_is_nothing_to_the_others() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.close();
    world.call(2, "1", "write");
    world.relay.stream_opened(StreamId(3), session("s3"));
    world.call(3, "1", "write");
    world.die();
    assert_eq!(world.gone(3), [""; 0]);
    world.generation(2, TOOLS);
    let written = world.reopen();
    assert_eq!(written.iter().filter(|line| line.starts_with("mark")).count(), 2);
    assert_eq!((world.answer(1, "1").len(), world.answer(2, "1").len()), (1, 1));
}
