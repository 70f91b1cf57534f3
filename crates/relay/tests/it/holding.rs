//! A closed gate: what is held, what passes, what is answered from cache, and what is refused at once.

use crate::world::{TOOLS, World, notification, request, show};
use std::time::Duration;
use tidegate_core::CallState;
use tidegate_relay::{Effect, MAX_HELD, RelayConfig, StreamId};

#[test]
fn new_calls_are_held_at_a_closed_gate_and_written_in_order_when_it_opens() {
    let mut world = World::ready();
    world.close();
    assert_eq!(world.call(1, "1", "read"), [""; 0]);
    assert_eq!(world.call(2, "1", "read"), [""; 0]);
    assert_eq!(world.client(1, &request("2", "prompts/get", r#"{"name":"p"}"#)), [""; 0]);
    assert_eq!((world.relay.held(), world.holders().len()), (3, 0));
    assert!(world.relay.calls().iter().all(|(_, state)| *state == CallState::Queued));
    let written = world.reopen();
    let marks: Vec<&String> = written.iter().filter(|line| line.starts_with("mark")).collect();
    assert_eq!(
        marks,
        ["mark 1#1 read-only read", "mark 2#1 read-only read", "mark 1#2 read-only prompts/get"]
    );
    assert_eq!((world.relay.held(), world.holders().len()), (0, 3));
}

#[test]
fn a_call_that_arrives_just_after_the_gate_opened_does_not_overtake_those_that_wait() {
    let mut world = World::ready();
    world.close();
    world.call(1, "1", "read");
    // The gate is open, and the relay hasn't been told yet.
    world.relay.gate().reopen(&"d1".parse().unwrap()).unwrap();
    let written = world.call(2, "1", "read");
    let marks: Vec<&String> = written.iter().filter(|line| line.starts_with("mark")).collect();
    assert_eq!(marks, ["mark 1#1 read-only read", "mark 2#1 read-only read"]);
}

#[test]
fn a_write_is_marked_first_and_the_first_unsafe_one_of_a_generation_said_in_between() {
    let mut world = World::ready();
    let first = world.call(1, "1", "write");
    assert_eq!(first[..2], ["mark 1#1 mutating write", "unsafe possible g1"]);
    assert!(first[2].starts_with("> {"), "{first:?}");
    let second = world.call(1, "2", "write");
    assert_eq!((second.len(), second[0].as_str()), (2, "mark 1#2 mutating write"));
    let read = world.call(1, "3", "read");
    assert_eq!((read.len(), read[0].as_str()), (2, "mark 1#3 read-only read"));
    world.die();
    world.generation(2, TOOLS);
    assert_eq!(world.call(1, "4", "write")[1], "unsafe possible g2");
}

#[test]
fn work_admitted_before_the_close_gets_its_own_answer_once() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.close();
    assert_eq!(world.answer(1, "1"), [r#"1< {"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#]);
    assert_eq!(world.relay.gate().in_flight(), 0);
}

#[test]
fn a_held_call_is_refused_when_holding_has_lasted_long_enough() {
    let mut world = World::ready();
    world.close();
    world.call(1, "1", "write");
    world.at(10_000).client(2, &request("7", "resources/read", "{}"));
    assert_eq!(world.relay.next_deadline(), Some(45_000));
    assert_eq!(world.at(44_999).tick(), [""; 0]);
    assert_eq!(world.at(45_000).tick(), ["1< #1 draining → WaitForRestart, retryable"]);
    assert_eq!(world.at(55_000).tick(), ["2< #7 draining → WaitForRestart, retryable"]);
    assert_eq!(world.reopen(), [""; 0], "what was refused is never written");
}

#[test]
fn a_hold_of_zero_refuses_at_once() {
    let mut world = World::with(RelayConfig { hold: Duration::ZERO, ..RelayConfig::default() });
    world.generation(1, TOOLS);
    world.close();
    assert_eq!(world.call(1, "1", "write"), ["1< #1 draining → WaitForRestart, retryable"]);
}

#[test]
fn ping_and_lists_are_answered_from_cache_while_the_gate_is_closed() {
    let mut world = World::ready();
    let list = request("1", "tools/list", "{}");
    assert_eq!(world.client(1, &list).len(), 2, "an open gate lets the question through");
    world.close();
    let list = request("2", "tools/list", "{}");
    assert_eq!(world.client(1, &list), [format!(r#"1< {{"jsonrpc":"2.0","id":2,"result":{TOOLS}}}"#)]);
    assert_eq!(world.client(1, &request("3", "ping", "{}")), [r#"1< {"jsonrpc":"2.0","id":3,"result":{}}"#]);
    assert_eq!(
        world.client(1, &request("4", "tools/list", r#"{"cursor":"x"}"#)),
        [""; 0],
        "a page can't be guessed"
    );
}

#[test]
fn answers_progress_and_cancellations_pass_a_closed_gate() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"_meta":{"progressToken":"t"}}}"#;
    assert_eq!(world.server(ask), [format!("1< {}", ask.replace(r#""q""#, "1"))]);
    world.close();
    let progress = notification("notifications/progress", r#"{"progressToken":"t","progress":1}"#);
    assert_eq!(world.client(1, &progress), [format!("> {progress}")]);
    assert_eq!(world.client(2, &progress), [""; 0], "it is not that stream's token");
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#;
    assert_eq!(world.client(1, answer), [format!("> {}", answer.replace("\"id\":1", "\"id\":\"q\""))]);
    assert_eq!(world.client(1, answer), [""; 0], "it is answered once");
    let upstream = world.upstream(1, "1");
    let cancel =
        |id: u64| notification("notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":"r"}}"#));
    assert_eq!(world.client(1, &cancel(1)), [format!("> {}", cancel(upstream))]);
    assert_eq!(world.client(1, &notification("x/y", "{}")), [""; 0], "nothing else does");
    assert_eq!(world.relay.counters().dropped_notifications, 1);
}

#[test]
fn a_session_that_owes_the_server_an_answer_is_refused_at_once() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.close();
    world.call(1, "2", "write");
    world.call(2, "2", "write");
    // The server asks the session whose call it is working on: that session must not wait for the server.
    let told = world.server(&request("5", "elicitation/create", "{}"));
    assert_eq!(told[1..], ["1< #2 draining → WaitForRestart, retryable"]);
    assert_eq!(world.call(1, "3", "write"), ["1< #3 draining → WaitForRestart, retryable"]);
    assert_eq!(world.relay.held(), 1, "the other session is still held");
    world.client(1, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(world.call(1, "4", "write"), [""; 0], "once it has answered it can wait");
}

#[test]
fn closing_the_gate_refuses_what_is_held_of_a_session_that_owes_an_answer() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.server(&request("5", "elicitation/create", "{}"));
    // Held for want of room, not of an open gate.
    for id in 2..=8 {
        world.call(2, &id.to_string(), "write");
    }
    assert_eq!(world.call(1, "9", "write"), [""; 0]);
    assert_eq!(world.close(), ["1< #9 draining → WaitForRestart, retryable"]);
}

#[test]
fn a_full_gate_holds_what_comes_and_lets_it_in_as_room_appears() {
    let mut world = World::ready();
    for id in 1..=8 {
        assert!(!world.call(1, &id.to_string(), "write").is_empty());
    }
    assert_eq!(world.call(2, "1", "write"), [""; 0]);
    assert_eq!(world.call(2, "2", "write"), [""; 0]);
    assert_eq!(world.answer(1, "3")[1], "mark 2#1 mutating write");
    assert_eq!(world.relay.held(), 1);
}

#[test]
fn the_queue_is_bounded_in_number_and_in_bytes() {
    let mut world = World::ready();
    world.close();
    for id in 0..MAX_HELD {
        assert_eq!(world.call(1, &id.to_string(), "write"), [""; 0]);
    }
    assert_eq!(world.call(2, "1", "write"), ["2< #1 draining → WaitForRestart, retryable"]);

    let mut world = World::ready();
    world.close();
    let big = format!(r#"{{"name":"write","arguments":"{}"}}"#, "x".repeat(12 << 20));
    assert_eq!(world.client(1, &request("1", "tools/call", &big)), [""; 0]);
    assert_eq!(world.client(1, &request("2", "tools/call", &big)), [""; 0]);
    assert_eq!(
        world.client(1, &request("3", "tools/call", &big)),
        ["1< #3 draining → WaitForRestart, retryable"]
    );
    assert_eq!(world.call(1, "4", "write"), [""; 0], "a small one still fits");
    // One that is gone leaves its room, and no more than that.
    world.client(1, &notification("notifications/cancelled", r#"{"requestId":1}"#));
    assert_eq!(world.client(1, &request("5", "tools/call", &big)), [""; 0]);
    assert_eq!(
        world.client(1, &request("6", "tools/call", &big)),
        ["1< #6 draining → WaitForRestart, retryable"]
    );
}

#[test]
fn a_call_that_arrives_between_two_generations_waits_for_the_next() {
    let mut world = World::ready();
    world.die();
    assert_eq!(world.call(1, "1", "write"), [""; 0]);
    let written = world.generation(2, TOOLS);
    assert_eq!(written[..2], ["mark 1#1 mutating write", "unsafe possible g2"]);
    assert_eq!(world.answer(1, "1").len(), 1);
}

#[test]
fn a_refusal_names_the_operation_only_while_it_is_under_way() {
    let refused = |world: &mut World| {
        let line = request("1", "tools/call", r#"{"name":"write"}"#);
        world.relay.client_message(tidegate_relay::StreamId(1), line.into(), &world.now)
    };
    let mut world = World::with(RelayConfig { hold: Duration::ZERO, ..RelayConfig::default() });
    world.generation(3, TOOLS);
    world.close();
    let line = format!("{:?}", show(&refused(&mut world)));
    assert!(line.contains("draining"), "{line}");
    let tidegate_relay::Effect::ToClient { line, .. } = refused(&mut world).remove(0) else {
        panic!("refused")
    };
    let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
    let refusal = &value["result"]["_meta"]["tidegate/refusal"];
    assert_eq!((&refusal["operation"], &refusal["generation"]), (&"op-1".into(), &3.into()));
    assert_eq!(refusal["retry_after_ms"], 5_000);
}

#[test]
fn a_held_call_has_the_class_that_its_tool_has_when_it_is_written() {
    let hints = |read_only: bool| {
        format!(r#"{{"tools":[{{"name":"t","annotations":{{"readOnlyHint":{read_only}}}}}]}}"#)
    };
    for (before, after, expected) in [(true, false, "mutating"), (false, true, "read-only")] {
        let mut world = World::trusting();
        world.generation(1, &hints(before));
        world.close();
        world.call(1, "1", "t");
        world.die();
        world.generation(2, &hints(after));
        world.reopen();
        assert_eq!(world.holders(), [format!("local/s1 files/t {expected} 0.000s")]);
    }
}

#[test]
fn what_may_not_be_written_before_its_mark_is_durable_waits_for_it_and_is_refused_in_time() {
    let lines = |written: &[Effect]| -> Vec<Vec<u8>> {
        let line = |effect: &Effect| match effect {
            Effect::WriteServer { line } => Some(line.clone()),
            _ => None,
        };
        written.iter().filter_map(line).collect()
    };
    let mut world = World::ready();
    for attempt in 1..=3 {
        let effects = match attempt {
            1 => {
                let call = request("1", "tools/call", r#"{"name":"write"}"#);
                world.relay.client_message(StreamId(1), call.into(), &world.now)
            }
            _ => world.relay.tick(&world.now),
        };
        assert_eq!(show(&effects)[1], "unsafe possible g1", "said again at attempt {attempt}");
        world.relay.unsafe_not_marked(&world.now);
        for line in lines(&effects).iter().rev() {
            world.relay.never_written(line);
        }
        assert_eq!(world.holders(), [""; 0], "nothing of it is executing");
        assert_eq!(world.relay.held(), 1);
        let again = world.relay.next_deadline().unwrap();
        world.at(again);
    }
    world.at(45_000);
    assert_eq!(world.tick(), ["1< #1 draining → WaitForRestart, retryable"]);
}
