//! Callers that cancel, time out or vanish: the answer isn't wanted, the work may go on.

use crate::world::{TOOLS, World, notification, request};
use std::time::Duration;
use tidegate_relay::RelayConfig;

fn cancel(id: &str) -> String {
    notification("notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":"changed my mind"}}"#))
}

#[test]
fn a_held_call_that_is_cancelled_leaves_the_queue_and_never_reaches_the_server() {
    let mut world = World::ready();
    world.close();
    world.call(1, "1", "write");
    world.call(1, "2", "read");
    assert_eq!(world.client(2, &cancel("1")), [""; 0], "it isn't that stream's");
    assert_eq!(world.client(1, &cancel("1")), [""; 0]);
    assert_eq!(world.relay.held(), 1);
    assert_eq!(world.reopen()[0], "mark 1#2 read-only read");
    assert_eq!(world.relay.counters().dropped_cancellations, 1);
}

#[test]
fn a_written_call_that_is_cancelled_is_cancelled_upstream_with_the_mapped_id() {
    let mut world = World::ready();
    world.call(1, "\"a\"", "write");
    let upstream = world.upstream(1, "\"a\"").to_string();
    assert_eq!(world.client(1, &cancel("\"a\"")), [format!("> {}", cancel(&upstream))]);
    assert_eq!(world.holders(), ["local/s1 files/write mutating 0.000s detached"], "the server may go on");
    assert_eq!(world.client(1, &cancel("\"a\"")), [""; 0], "once");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{upstream},"result":{{}}}}"#);
    assert_eq!(world.server(&answer), [""; 0], "nobody waits for it");
    assert_eq!((world.holders().len(), world.relay.counters().late_answers), (0, 1));
}

#[test]
fn a_read_only_call_ends_with_its_cancellation() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.client(1, &cancel("1"));
    assert_eq!(world.holders(), [""; 0]);
    world.call(1, "1", "read");
    assert_eq!(world.answer(1, "1").len(), 1, "and its id may be used again");
}

#[test]
fn an_id_that_comes_back_after_its_call_was_cancelled_is_another_call() {
    let mut world = World::ready();
    let answer = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    world.call(1, "1", "write");
    let first = world.upstream(1, "1");
    world.client(1, &cancel("1"));
    world.call(1, "1", "write");
    let second = world.upstream(1, "1");
    assert_ne!(first, second);
    assert_eq!(world.server(&answer(first)), [""; 0], "the late answer of the first is nobody's");
    assert_eq!(world.holders(), ["local/s1 files/write mutating 0.000s"]);
    assert_eq!(world.server(&answer(second)), [r#"1< {"jsonrpc":"2.0","id":1,"result":{}}"#]);

    world.call(1, "1", "write");
    world.client(1, &cancel("1"));
    world.call(1, "1", "write");
    let third = world.upstream(1, "1").to_string();
    assert_eq!(
        world.client(1, &cancel("1")),
        [format!("> {}", cancel(&third))],
        "the one that is waited for"
    );
    assert_eq!(world.gone(1), ["detached local/s1 write g1"; 2]);
}

#[test]
fn a_call_that_waits_to_be_written_again_has_an_unknown_outcome_though_nobody_wants_it() {
    let lost = || {
        let mut world = World::ready();
        world.call(1, "1", "touch");
        world.call(1, "2", "read");
        assert_eq!(world.die(), [""; 0]);
        world
    };
    let unknown = "unknown local/s1 touch g1";
    let mut world = lost();
    assert_eq!(world.client(1, &cancel("1")), [unknown]);
    assert_eq!(world.client(1, &cancel("2")), [""; 0], "it read only");
    assert_eq!(world.generation(2, TOOLS), [""; 0]);
    let mut world = lost();
    assert_eq!(world.gone(1), [unknown]);
    assert_eq!(world.generation(2, TOOLS), [""; 0]);

    let mut world = lost();
    world.generation(2, TOOLS);
    let again = world.upstream(1, "1");
    world.client(1, &cancel("1"));
    world.relay.never_written(request(&again.to_string(), "tools/call", r#"{"name":"touch"}"#).as_bytes());
    let dead = world.die();
    assert_eq!(
        dead.iter().filter(|it| it.starts_with("unknown")).count(),
        1,
        "it was written once: {dead:?}"
    );
}

#[test]
fn when_a_stream_is_gone_its_unsafe_calls_hold_and_its_held_calls_are_forgotten() {
    let mut world = World::ready();
    for (id, tool) in [("1", "read"), ("2", "write"), ("3", "touch")] {
        world.call(1, id, tool);
    }
    world.call(2, "1", "write");
    world.close();
    world.call(1, "4", "write");
    assert_eq!(world.gone(1), ["detached local/s1 write g1", "detached local/s1 touch g1"]);
    assert_eq!(
        world.holders(),
        [
            "local/s1 files/touch idempotent 0.000s detached",
            "local/s1 files/write mutating 0.000s detached",
            "local/s2 files/write mutating 0.000s",
        ]
    );
    assert_eq!(world.reopen(), [""; 0]);
    assert_eq!(world.call(1, "5", "write"), [""; 0], "a closed stream says nothing");
}

#[test]
fn a_call_times_out_only_where_the_component_says_so() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    assert_eq!(world.relay.next_deadline(), None);
    assert_eq!(world.at(86_400_000).tick(), [""; 0]);

    let config = RelayConfig { call_timeout: Some(Duration::from_secs(5)), ..RelayConfig::default() };
    let mut world = World::with(config);
    world.generation(1, TOOLS);
    world.call(1, "1", "write");
    world.call(2, "1", "read");
    let upstream = [1, 2].map(|stream| world.upstream(stream, "1"));
    let told = |id: u64| {
        notification(
            "notifications/cancelled",
            &format!(r#"{{"requestId":{id},"reason":"the call timed out"}}"#),
        )
    };
    assert_eq!(world.at(4_999).tick(), [""; 0]);
    assert_eq!(
        world.at(5_000).tick(),
        [
            "unknown local/s1 write g1".to_owned(),
            format!("> {}", told(upstream[0])),
            "1< #1 outcome_unknown → VerifyThenRetry".to_owned(),
            format!("> {}", told(upstream[1])),
            "2< #1 outcome_unknown → RetryCall, retryable".to_owned(),
        ]
    );
    assert_eq!(world.holders(), ["local/s1 files/write mutating 5.000s detached"]);
    assert_eq!((world.relay.next_deadline(), world.at(60_000).tick()), (None, vec![]), "once");
    assert_eq!(world.die(), [""; 0], "its outcome has been reported already");
}

#[test]
fn a_timed_out_call_that_is_answered_after_all_holds_no_longer() {
    let config = RelayConfig { call_timeout: Some(Duration::from_secs(5)), ..RelayConfig::default() };
    let mut world = World::with(config);
    world.generation(1, TOOLS);
    world.client(1, &request("1", "tools/call", r#"{"name":"write"}"#));
    let upstream = world.upstream(1, "1");
    world.at(5_000).tick();
    let late = format!(r#"{{"jsonrpc":"2.0","id":{upstream},"result":{{}}}}"#);
    assert_eq!(world.server(&late), [""; 0]);
    assert_eq!((world.holders().len(), world.relay.counters().late_answers), (0, 1));
}

#[test]
fn what_a_client_that_is_gone_has_left_is_said_once_and_how_it_was_answered() {
    let mut world = World::ready();
    for (id, tool) in [("1", "write"), ("2", "write"), ("3", "write"), ("4", "read")] {
        world.call(1, id, tool);
    }
    let upstream = ["1", "2", "3", "4"].map(|id| world.upstream(1, id));
    world.client(1, &cancel("2"));
    world.answer(1, "3");
    let gone = world.gone(1);
    assert_eq!(gone, ["detached local/s1 write g1"; 2], "whoever cancelled it is gone as well");
    let mut answered = |id: usize, what: &str| {
        world.server(&format!(r#"{{"jsonrpc":"2.0","id":{},{what}}}"#, upstream[id - 1]))
    };
    assert_eq!(answered(1, r#""result":{"content":[]}"#), ["late Result local/s1 write g1"]);
    assert_eq!(answered(1, r#""result":{}"#), [""; 0], "once");
    assert_eq!(answered(2, r#""result":{"isError":true}"#), ["late Error local/s1 write g1"]);
    assert_eq!(answered(4, r#""error":{"code":1,"message":"no"}"#), [""; 0], "it read only");
}

#[test]
fn a_call_whose_client_was_told_that_its_outcome_is_unknown_is_not_left_behind() {
    let config = RelayConfig { call_timeout: Some(Duration::from_secs(5)), ..RelayConfig::default() };
    let mut world = World::with(config);
    world.generation(1, TOOLS);
    world.call(1, "1", "write");
    world.at(5_000).tick();
    assert_eq!(world.gone(1), [""; 0]);
}
