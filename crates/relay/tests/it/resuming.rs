//! After a crash of the daemon: what shims report, settled by class.

use crate::world::{TOOLS, World, request, session, show};
use std::time::Duration;
use tidegate_core::WorkClass::{self, Idempotent, Mutating, ReadOnly};
use tidegate_relay::{Effect, Marked, RelayConfig, StreamFacts, StreamId};

fn marked(id: &str, class: WorkClass, tool: &str, age_s: u64) -> Marked {
    Marked {
        line: request(id, "tools/call", &format!(r#"{{"name":"{tool}"}}"#)).into(),
        class,
        tool: tool.to_owned(),
        age: Duration::from_secs(age_s),
    }
}

fn resume(world: &mut World, marked: Vec<Marked>) -> Vec<String> {
    let facts = StreamFacts { subscriptions: ["file:///a".to_owned()].into(), log_level: None };
    show(&world.relay.stream_resumed(StreamId(7), session("s7"), facts, marked, &world.now))
}

#[test]
fn marked_calls_are_settled_by_class_and_reads_are_written_again_within_their_deadline() {
    let mut world = World::with(RelayConfig::default());
    let told = resume(
        &mut world,
        vec![
            marked("1", Mutating, "write", 1),
            marked("2", ReadOnly, "read", 20),
            marked("3", Idempotent, "touch", 1),
            marked("4", ReadOnly, "read", 60),
        ],
    );
    assert_eq!(
        told,
        [
            "unknown local/s7 write g0",
            "7< #1 outcome_unknown → VerifyThenRetry",
            "unknown local/s7 touch g0",
            "7< #3 outcome_unknown → VerifyThenRetry",
            "7< #4 outcome_unknown → RetryCall, retryable",
        ]
    );
    assert_eq!(world.relay.next_deadline(), Some(40_000), "twenty seconds of its deadline are over");
    let written = world.generation(5, TOOLS);
    assert!(written[0].contains("resources/subscribe"), "{written:?}");
    assert_eq!(written[1], "mark 7#2 read-only read");
    assert_eq!(world.answer(7, "2").len(), 1);
}

#[test]
fn a_read_reported_after_a_crash_is_not_written_a_third_time() {
    let mut world = World::with(RelayConfig::default());
    world.generation(5, TOOLS);
    resume(&mut world, vec![marked("2", ReadOnly, "read", 1)]);
    assert_eq!(world.die(), ["7< #2 outcome_unknown → RetryCall, retryable"]);
}

#[test]
fn a_resumed_stream_is_past_its_handshake_and_its_unmarked_requests_are_ordinary_ones() {
    let mut world = World::with(RelayConfig::default());
    resume(&mut world, vec![]);
    assert_eq!(world.call(7, "1", "write"), [""; 0], "held until there is a server");
    world.generation(5, TOOLS);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    assert_eq!(world.server(changed), ["changed tools/list".to_owned(), format!("7< {changed}")]);
}

#[test]
fn a_report_that_is_no_request_is_skipped() {
    let mut world = World::with(RelayConfig::default());
    let mut broken = marked("1", Mutating, "write", 0);
    broken.line = b"rubbish".to_vec();
    assert_eq!(resume(&mut world, vec![broken]), [""; 0]);
}

#[test]
fn a_report_that_calls_a_mutation_read_only_does_not_have_it_written() {
    let mut world = World::with(RelayConfig::default());
    world.generation(5, TOOLS);
    let told = resume(&mut world, vec![marked("1", ReadOnly, "write", 1), marked("2", ReadOnly, "read", 1)]);
    assert_eq!(
        told[..3],
        ["unknown local/s7 write g5", "7< #1 outcome_unknown → VerifyThenRetry", "mark 7#2 read-only read",]
    );
    assert_eq!(world.holders(), ["local/s7 files/read read-only 0.000s"]);
}

#[test]
fn what_a_server_agreed_to_in_a_late_answer_is_remembered_and_the_one_that_serves_is_told() {
    for (answer, agreed) in [(r#""result":{}"#, true), (r#""error":{"code":1,"message":"no"}"#, false)] {
        let mut world = World::with(RelayConfig::default());
        world.generation(5, TOOLS);
        resume(&mut world, Vec::new());
        let line = request("9", "resources/subscribe", r#"{"uri":"file:///b"}"#).into();
        let tool = "resources/subscribe".to_owned();
        let call = Marked { line, class: Idempotent, tool, age: Duration::from_secs(1) };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":3,{answer}}}"#).into_bytes();
        let effects = world.relay.reported(StreamId(7), &session("s7"), call, Some(answer), &world.now);
        assert_eq!(world.relay.facts(StreamId(7)).subscriptions.contains("file:///b"), agreed);
        let durable_first = matches!(effects[..], [Effect::FactsChanged { .. }, Effect::ToClient { .. }, ..]);
        assert_eq!(durable_first, agreed, "{effects:?}");
        let told = |it: &Effect| matches!(it, Effect::WriteServer { line } if String::from_utf8_lossy(line).contains("file:///b"));
        assert_eq!(effects.iter().any(told), agreed, "{effects:?}");
    }
}
