//! The server dies: every call that was written is settled exactly once.

use crate::world::{TOOLS, World, show};
use tidegate_core::WorkClass::{self, Idempotent, Mutating, ReadOnly};
use tidegate_relay::{
    Classified, Classifier, LostFacts, RelayConfig, Settled, Unavailable, settle, settle_marked,
};

/// The fate of a lost call. Words: `allowed` (idempotent replay), `again` (replayed), `late`, `disturbed`, `unwanted`.
#[track_caller]
fn check(class: WorkClass, words: &str, expected: Settled) {
    let has = |word| words.split_whitespace().any(|w| w == word);
    let facts = LostFacts {
        class,
        replay_allowed: has("allowed"),
        replayed: has("again"),
        deadline_passed: has("late"),
        undisturbed: !has("disturbed"),
        wanted: !has("unwanted"),
    };
    assert_eq!(settle(&facts), expected, "{class} {words}");
}

#[test]
fn a_lost_call_is_replayed_retried_or_unknown() {
    check(ReadOnly, "", Settled::Replay);
    check(ReadOnly, "disturbed", Settled::Replay);
    check(ReadOnly, "again", Settled::Retry);
    check(ReadOnly, "late", Settled::Retry);
    check(ReadOnly, "unwanted", Settled::Retry);
    check(Idempotent, "", Settled::Unknown);
    check(Idempotent, "allowed", Settled::Replay);
    check(Idempotent, "allowed disturbed", Settled::Unknown);
    check(Idempotent, "allowed again", Settled::Unknown);
    check(Idempotent, "allowed late", Settled::Unknown);
    check(Idempotent, "allowed unwanted", Settled::Unknown);
    check(Mutating, "", Settled::Unknown);
    check(Mutating, "allowed", Settled::Unknown);
}

#[test]
fn after_a_crash_of_the_daemon_only_a_read_inside_its_deadline_may_be_written_again() {
    for (class, late, expected) in [
        (ReadOnly, false, Settled::Replay),
        (ReadOnly, true, Settled::Retry),
        (Idempotent, false, Settled::Unknown),
        (Idempotent, true, Settled::Unknown),
        (Mutating, false, Settled::Unknown),
        (Mutating, true, Settled::Unknown),
    ] {
        assert_eq!(settle_marked(class, late), expected, "{class} {late}");
    }
}

#[test]
fn a_mutating_call_that_loses_its_server_is_unknown_exactly_once() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    assert_eq!(world.die(), ["unknown local/s1 write g1", "1< #1 outcome_unknown → VerifyThenRetry"]);
    assert_eq!(world.die(), [""; 0], "end of file and exit status are one death");
    assert_eq!(world.generation(2, TOOLS), [""; 0], "it is never written again");
    assert_eq!(world.at(600_000).tick(), [""; 0]);
}

#[test]
fn an_unknown_call_holds_until_the_server_is_proved_dead() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.close();
    world.die();
    assert_eq!(world.holders(), ["local/s1 files/write mutating 0.000s detached"]);
    world.relay.server_proved_dead();
    assert_eq!(world.holders(), [""; 0]);
}

#[test]
fn an_idempotent_call_that_will_be_replayed_holds_until_then_too() {
    let mut world = World::ready();
    world.call(1, "1", "touch");
    world.call(2, "1", "read");
    world.close();
    assert_eq!(world.die(), [""; 0]);
    assert_eq!(world.holders(), ["local/s1 files/touch idempotent 0.000s detached"]);
    world.relay.server_proved_dead();
    assert_eq!(world.holders(), [""; 0]);
}

#[test]
fn a_call_that_waits_to_be_replayed_is_unknown_when_there_will_be_no_server() {
    let mut world = World::ready();
    world.call(1, "1", "touch");
    assert_eq!(world.die(), [""; 0]);
    world.call(2, "1", "write");
    let why = Unavailable { incident: None, message: "it does not start".into() };
    assert_eq!(
        show(&world.relay.server_unavailable(why, &world.now)),
        [
            "unknown local/s1 touch g1",
            "1< #1 outcome_unknown → VerifyThenRetry",
            "2< #1 unavailable → ContactOperator"
        ],
        "the first may have taken effect, the second never reached the server"
    );
}

#[test]
fn a_read_is_replayed_once_inside_its_first_deadline_and_before_anything_new() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.call(2, "1", "read");
    let first = world.upstream(1, "1");
    assert_eq!(world.die(), [""; 0]);
    world.call(1, "2", "write");
    let written = world.at(1_000).generation(2, TOOLS);
    let order: Vec<&String> = written.iter().filter(|line| !line.starts_with('>')).collect();
    assert_eq!(
        order,
        [
            "mark 1#1 read-only read",
            "replayed local/s1 read g2",
            "mark 2#1 read-only read",
            "replayed local/s2 read g2",
            "mark 1#2 mutating write",
            "unsafe possible g2",
        ]
    );
    assert_ne!(world.upstream(1, "1"), first, "a late answer of the old server finds nothing");
    assert_eq!(world.server(&format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{}}}}"#)), [""; 0]);
    assert_eq!(world.answer(1, "1").len(), 1);
    assert_eq!(
        world.die(),
        [
            "2< #1 outcome_unknown → RetryCall, retryable",
            "unknown local/s1 write g2",
            "1< #2 outcome_unknown → VerifyThenRetry",
        ]
    );
}

#[test]
fn a_read_whose_first_deadline_passes_is_for_its_caller_to_retry() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.at(50_000).die();
    assert_eq!(world.relay.next_deadline(), Some(60_000), "the deadline spans hold and replay");
    assert_eq!(world.at(60_000).tick(), ["1< #1 outcome_unknown → RetryCall, retryable"]);
    assert_eq!(world.generation(2, TOOLS), [""; 0]);

    let mut world = World::ready();
    world.call(1, "1", "read");
    assert_eq!(world.at(60_000).die(), ["1< #1 outcome_unknown → RetryCall, retryable"]);
}

#[test]
fn reads_left_by_a_drain_are_replayed_on_the_next_generation() {
    let mut world = World::ready();
    world.call(1, "1", "read");
    world.close();
    world.call(2, "1", "write");
    world.at(10_000).die();
    assert_eq!(world.relay.gate().in_flight(), 0);
    assert_eq!(world.at(12_000).generation(2, TOOLS), [""; 0], "the gate is still closed");
    let written = world.reopen();
    assert_eq!(
        (written[0].as_str(), written[3].as_str()),
        ("mark 1#1 read-only read", "mark 2#1 mutating write")
    );
}

#[test]
fn an_idempotent_call_is_replayed_only_by_the_operators_word_and_undisturbed() {
    let mut world = World::ready();
    world.call(1, "1", "touch");
    world.call(2, "1", "read");
    assert_eq!(world.die(), [""; 0]);
    assert_eq!(world.generation(2, TOOLS)[0], "mark 1#1 idempotent touch");

    let mut world = World::ready();
    world.call(1, "1", "touch");
    world.call(2, "1", "write");
    world.answer(2, "1");
    assert_eq!(
        world.die(),
        ["unknown local/s1 touch g1", "1< #1 outcome_unknown → VerifyThenRetry"],
        "another write was admitted since, though it has ended"
    );

    let mut world = World::ready();
    world.call(1, "1", "write");
    world.call(2, "1", "touch");
    world.answer(1, "1");
    assert_eq!(world.die(), [""; 0], "what was admitted before doesn't disturb");

    let mut world = World::ready();
    world.call(1, "1", "mark");
    assert_eq!(world.die().len(), 2, "idempotent, but nobody allowed a replay");
}

#[test]
fn what_may_not_be_repeated_by_the_word_of_today_is_not_written_again() {
    let of = |class, replay| Classified { class, replay };
    let unknown = ["unknown local/s1 touch g2", "1< #1 outcome_unknown → VerifyThenRetry"];
    for (now, written) in [
        (of(Idempotent, true), true),
        (of(Idempotent, false), false),
        (of(Mutating, false), false),
        (of(ReadOnly, false), true),
    ] {
        let mut world = World::ready();
        world.call(1, "1", "touch");
        world.die();
        let classifier = Classifier::new([("touch".to_owned(), now)], false);
        world.relay.reconfigure(RelayConfig { classifier, ..RelayConfig::default() });
        let told = world.generation(2, TOOLS);
        match written {
            true => assert_eq!(told[0], "mark 1#1 idempotent touch", "{now:?}"),
            false => assert_eq!(told, unknown, "{now:?}"),
        }
    }
}

#[test]
fn an_idempotent_replay_that_comes_too_late_is_unknown() {
    let mut world = World::ready();
    world.call(1, "1", "touch");
    world.die();
    assert_eq!(
        world.at(60_000).tick(),
        ["unknown local/s1 touch g1", "1< #1 outcome_unknown → VerifyThenRetry"]
    );
}

#[test]
fn a_detached_call_that_loses_its_server_is_reported_and_answered_to_nobody() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    world.gone(1);
    assert_eq!(world.die(), ["unknown local/s1 write g1"]);
}

#[test]
fn a_dead_server_that_nobody_noticed_costs_nothing_when_nothing_was_written() {
    let mut world = World::ready();
    world.die();
    world.call(1, "1", "write");
    world.generation(2, TOOLS);
    assert_eq!(world.answer(1, "1"), [r#"1< {"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#]);
}

#[test]
fn a_call_that_the_pipe_never_took_was_never_written() {
    let mut world = World::ready();
    world.call(1, "\"a\"", "write");
    let id = world.upstream(1, "\"a\"");
    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"write"}}}}"#);
    world.relay.never_written(format!("{line}\n").as_bytes());
    assert_eq!(world.die(), [""; 0], "nothing is lost");
    assert_eq!(world.relay.held(), 1);
    let written = world.generation(2, TOOLS).join("\n");
    assert!(written.contains("write"), "{written}");
    assert_eq!(world.answer(1, "\"a\"").len(), 1, "its own answer, once");
}

#[test]
fn a_call_that_was_never_written_and_that_nobody_waits_for_is_forgotten() {
    let mut world = World::ready();
    world.call(1, "1", "write");
    let id = world.upstream(1, "1");
    let now = world.now;
    world.relay.stream_gone(tidegate_relay::StreamId(1), &now);
    world.relay.never_written(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#).as_bytes());
    assert_eq!(world.die(), [""; 0]);
    assert_eq!(world.relay.gate().in_flight(), 0);
}
