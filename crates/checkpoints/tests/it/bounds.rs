//! Nothing grows without an end, and nothing acknowledged is dropped to make room.

use crate::fixture::{World, call, process, session, wait};
use tidegate_checkpoints::{
    Actions, CallFact, CallState, Checkpoint, CheckpointError, Clear, Draft, Fact, MAX_CALLS, MAX_ENDED,
    MAX_LEASES, MAX_NOTE_BYTES, MAX_NOTES, MAX_PENDING, MAX_SESSIONS, MAX_STEALS, MAX_STREAMS,
    MAX_TOOL_BYTES, NextAction, StreamFact, Subscription, key,
};
use tidegate_core::WorkClass;
use tidegate_store::{Store, Txn};

#[test]
fn full_notes_refuse_one_more_and_are_summed_up() {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    for n in 0..MAX_NOTES {
        wait(world.sessions.note(&session("work"), &format!("note {n}"))).unwrap();
    }
    let refused = wait(world.sessions.note(&session("work"), "one more")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "session local/work already has 32 notes; replace them by one note that sums them up"
    );
    let sum = Fact::SumUp { id: "sum".to_owned(), text: "all of it".to_owned() };
    wait(world.sessions.record(&session("work"), std::slice::from_ref(&sum))).unwrap();
    wait(world.sessions.note(&session("work"), "one more")).unwrap();
    wait(world.sessions.record(&session("work"), &[sum])).unwrap();
    let notes = wait(world.sessions.get(&session("work"))).unwrap().unwrap().notes;
    assert_eq!(notes.iter().map(|n| n.text.as_str()).collect::<Vec<_>>(), ["all of it", "one more"]);
}

#[test]
fn what_is_too_long_or_too_much_is_refused_whole() {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    let record = |facts: &[Fact]| wait(world.sessions.record(&session("work"), facts));
    let before = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
    let long = |text: &str| text.repeat(MAX_NOTE_BYTES + 1);
    let subscription = Subscription { component: "files".parse().unwrap(), uri: long("u") };
    for fact in [
        Fact::Note { id: "1".to_owned(), text: long("x") },
        Fact::Subscribed(subscription),
        Fact::LogLevel { component: "files".parse().unwrap(), level: long("d") },
        Fact::LeaseHeld(long("k")),
    ] {
        let facts = [Fact::LeaseHeld("files/a".to_owned()), fact];
        assert!(matches!(record(&facts), Err(CheckpointError::TooLong { .. })), "{facts:?}");
    }
    let leases: Vec<Fact> = (0..=MAX_LEASES).map(|n| Fact::LeaseHeld(format!("files/{n}"))).collect();
    assert!(matches!(record(&leases), Err(CheckpointError::Full { what: "leases", .. })));
    assert_eq!(wait(world.sessions.get(&session("work"))).unwrap().unwrap(), before);
}

#[test]
fn pending_actions_beyond_the_bound_drop_the_least_pressing_and_say_so() {
    let world = World::new();
    let lost = |n: usize| call(&n.to_string(), &format!("tool_{n}"), WorkClass::Mutating, CallState::Unknown);
    let mut draft = Draft::new(session("work"));
    draft.actions = Actions::add(
        (0..10).map(|n| NextAction::ReacquireLease { lease: format!("files/{n}"), unnamed: false }),
    );
    draft.calls = (0..MAX_PENDING).map(lost).collect();
    wait(world.sessions.checkpoint(&[draft])).unwrap();
    let checkpoint = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
    assert_eq!(checkpoint.pending.len(), MAX_PENDING);
    assert_eq!(checkpoint.pending_dropped, 10);
    assert!(checkpoint.pending.iter().all(|p| p.action.kind() == "VerifyThenRetry"));
}

#[test]
fn calls_beyond_the_bound_drop_the_least_dangerous_and_say_so() {
    let world = World::new();
    let mut draft = Draft::new(session("work"));
    draft.calls = (0..MAX_CALLS)
        .map(|n| call(&n.to_string(), "read_file", WorkClass::ReadOnly, CallState::Written))
        .collect();
    let long = "m".repeat(2 * MAX_TOOL_BYTES);
    draft.calls.push(call(&long, &long, WorkClass::Mutating, CallState::Detached));
    wait(world.sessions.checkpoint(&[draft])).unwrap();
    let checkpoint = wait(world.sessions.get(&session("work"))).unwrap().unwrap();
    assert_eq!((checkpoint.calls.len(), checkpoint.calls_dropped), (MAX_CALLS, 1));
    let CallFact { id, tool, .. } = &checkpoint.calls[0];
    assert!(id.starts_with('m') && id.len() <= MAX_TOOL_BYTES && tool.len() <= MAX_TOOL_BYTES);
}

#[test]
fn a_session_has_so_many_connections_and_no_more() {
    let world = World::new();
    for n in 0..MAX_STREAMS {
        world.attach(1, "work", &format!("c{n}")).unwrap();
    }
    assert!(matches!(world.attach(1, "work", "one more"), Err(CheckpointError::Full { .. })));
    world.attach(1, "work", "c3").unwrap();
    wait(world.sessions.detach(&session("work"), Some("c3"))).unwrap();
    world.attach(1, "work", "one more").unwrap();
}

#[test]
fn only_the_newest_take_overs_are_kept() {
    let world = World::new();
    for pid in 1..40 {
        let mut connection = crate::fixture::connection(pid, "work", &format!("c{pid}"));
        connection.wanted.steal = true;
        wait(world.sessions.attach(&connection)).unwrap();
    }
    let steals = wait(world.sessions.get(&session("work"))).unwrap().unwrap().steals;
    assert_eq!(steals.len(), MAX_STEALS);
    assert_eq!(steals[MAX_STEALS - 1].stream, "c39");
}

#[test]
fn one_more_session_ends_an_idle_one_and_never_one_in_use() {
    let world = World::new();
    let name = |n: usize| format!("s{n}");
    let view = world.view();
    let txn = (0..MAX_SESSIONS).fold(Txn::new(), |txn, n| {
        world.clock.advance_to(n as u64 * 1_000);
        let session = session(&name(n));
        let attached = Checkpoint {
            client: Some(process(u32::try_from(n).unwrap())),
            streams: vec![StreamFact { stream: format!("c{n}"), component: None, cut: Vec::new() }],
            ..Checkpoint::new(session.clone(), &world.now())
        };
        txn.put(&view, &key(&session), &attached)
    });
    wait(world.store.commit(txn)).unwrap();
    let full = world.attach(9_999, "more", "more").unwrap_err();
    assert!(matches!(full, CheckpointError::TooManySessions { .. }), "{full}");

    wait(world.sessions.note(&session("s3"), "something to come back for")).unwrap();
    wait(world.sessions.record(&session("s4"), &[Fact::LeaseHeld("files/a".to_owned())])).unwrap();
    for n in [3, 4, 5, 6] {
        wait(world.sessions.detach(&session(&name(n)), None)).unwrap();
    }
    let ended_for = |more: &str| {
        world.attach(9_999, more, more).unwrap();
        let sessions = wait(world.sessions.list()).unwrap();
        let ended = sessions.iter().filter(|c| c.ended.is_some());
        ended.map(|c| c.session.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ended_for("more-1"), "s5");
    assert_eq!(ended_for("more-2"), "s5 s6");
    assert_eq!(ended_for("more-3"), "s3 s5 s6", "one with a note only when no other is idle");
    assert_eq!(wait(world.sessions.get(&session("s3"))).unwrap().unwrap().notes.len(), 1);
    assert!(world.attach(9_998, "more-4", "more-4").is_err(), "a lease is held in s4");
}

#[test]
fn ended_sessions_are_kept_up_to_a_number() {
    let world = World::new();
    let local = "local".parse().unwrap();
    for n in 0..MAX_ENDED + 5 {
        world.clock.advance_to(n as u64 * 1_000);
        world.attach(1, &format!("s{n}"), &format!("c{n}")).unwrap();
        wait(world.sessions.end(&session(&format!("s{n}")), &local, false, "done")).unwrap();
    }
    assert_eq!(wait(world.sessions.list()).unwrap().len(), MAX_ENDED);
    assert!(wait(world.sessions.get(&session("s4"))).unwrap().is_none());
    assert!(wait(world.sessions.get(&session("s5"))).unwrap().is_some());
}

#[test]
fn fields_of_a_newer_version_survive_a_rewrite() {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    let key = key(&session("work"));
    let mut record: serde_json::Value = world.view().read(&key).unwrap().unwrap();
    record["mood"] = "calm".into();
    wait(world.store.commit(Txn::new().put(&world.view(), &key, &record))).unwrap();
    wait(world.sessions.note(&session("work"), "x")).unwrap();
    let clear = Actions::clear([Clear::ToldUpTo(1)]);
    wait(world.sessions.change_actions(&[(session("work"), clear)].into())).unwrap();
    assert_eq!(wait(world.sessions.get(&session("work"))).unwrap().unwrap().extra["mood"], "calm");
}
