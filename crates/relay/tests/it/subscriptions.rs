//! Subscriptions and log level: in force at the next generation without the client doing anything, and one session's
//! "stop" doesn't stop another's.

use crate::world::{TOOLS, World, notification, request};
use tidegate_relay::StreamId;

fn subscribe(world: &mut World, stream: u64, uri: &str) -> Vec<String> {
    world.client(stream, &request("\"s\"", "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
    world.answer(stream, "\"s\"")
}

fn level(world: &mut World, stream: u64, level: &str) -> Vec<String> {
    world.client(stream, &request("\"l\"", "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#)))
}

#[test]
fn what_the_server_agreed_to_is_a_fact_before_the_client_hears_of_it() {
    let mut world = World::ready();
    assert_eq!(
        subscribe(&mut world, 1, "file:///a"),
        ["facts of 1", r#"1< {"jsonrpc":"2.0","id":"s","result":{"ok":true}}"#]
    );
    assert!(world.relay.facts(StreamId(1)).subscriptions.contains("file:///a"));
    world.client(1, &request("2", "resources/subscribe", r#"{"uri":"file:///b"}"#));
    let upstream = world.upstream(1, "2");
    world.server(&format!(r#"{{"jsonrpc":"2.0","id":{upstream},"error":{{"code":-1,"message":"no"}}}}"#));
    assert!(!world.relay.facts(StreamId(1)).subscriptions.contains("file:///b"), "refused is not agreed");
}

#[test]
fn updates_go_to_those_who_subscribed() {
    let mut world = World::ready();
    subscribe(&mut world, 2, "file:///a");
    let update =
        |uri: &str| notification("notifications/resources/updated", &format!(r#"{{"uri":"{uri}"}}"#));
    assert_eq!(world.server(&update("file:///a")), [format!("2< {}", update("file:///a"))]);
    assert_eq!(world.server(&update("file:///b")), [""; 0]);
}

#[test]
fn both_are_in_force_at_the_next_generation_before_anything_else_is_written() {
    let mut world = World::ready();
    subscribe(&mut world, 1, "file:///a");
    subscribe(&mut world, 2, "file:///a");
    level(&mut world, 2, "debug");
    world.answer(2, "\"l\"");
    world.close();
    world.call(1, "1", "read");
    world.die();
    assert_eq!(world.generation(2, TOOLS), [""; 0], "nothing reaches the server before the gate opens");
    let written = world.reopen();
    assert!(
        written[0].contains(r#""method":"resources/subscribe","params":{"uri":"file:///a"}"#),
        "{written:?}"
    );
    assert!(written[1].contains(r#""method":"logging/setLevel","params":{"level":"debug"}"#), "{written:?}");
    assert_eq!(written[2], "mark 1#1 read-only read");
    assert_eq!(written.len(), 4);
}

#[test]
fn one_sessions_stop_does_not_stop_anothers() {
    let mut world = World::ready();
    subscribe(&mut world, 1, "file:///a");
    subscribe(&mut world, 2, "file:///a");
    let stop = request("9", "resources/unsubscribe", r#"{"uri":"file:///a"}"#);
    assert_eq!(world.client(1, &stop), ["facts of 1", r#"1< {"jsonrpc":"2.0","id":9,"result":{}}"#]);
    assert_eq!(
        world.client(2, &stop).iter().filter(|line| line.starts_with("> ")).count(),
        1,
        "the last one goes"
    );

    level(&mut world, 1, "debug");
    world.answer(1, "\"l\"");
    assert_eq!(level(&mut world, 2, "error"), ["facts of 2", r#"2< {"jsonrpc":"2.0","id":"l","result":{}}"#]);
}
