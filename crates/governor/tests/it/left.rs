//! What is left behind and settles later: calls whose client is gone, restarts that had failed, and what was approved and
//! not begun.

use crate::support::finish;
use crate::world::{World, name};
use tidegate_checkpoints::{CallState, Checkpoint, Checkpoints, NextAction, key, next_action};
use tidegate_core::{Generation, IncidentId, LateAnswer, OpenCall, SessionId, WorkClass};
use tidegate_governor::{Ask, Caller, Phase, Upkeep};
use tidegate_incidents::{IncidentState, WhoIsNext};
use tidegate_store::{Fault, Store as _, View};

fn upkeep(world: &World) -> Upkeep {
    let parts = world.parts();
    Upkeep::new(parts.store, parts.clock, parts.entropy)
}

fn s1() -> SessionId {
    name("local/s1")
}

fn call(id: &str) -> OpenCall {
    OpenCall {
        session: s1(),
        component: name("files"),
        tool: "write".to_owned(),
        class: WorkClass::Mutating,
        id: id.to_owned(),
    }
}

fn checkpoint(world: &World) -> Checkpoint {
    let record = finish(world.store.inner.get(&key(&s1()))).unwrap();
    View::new(Default::default(), Default::default(), record).read(&key(&s1())).unwrap().unwrap()
}

/// The states of its calls, and what it is told of the outcome; `Continue` is `gone`.
#[track_caller]
fn check(world: &World, calls: &[CallState], told: Result<Option<LateAnswer>, &str>) {
    let checkpoint = checkpoint(world);
    assert_eq!(checkpoint.calls.iter().map(|call| call.state).collect::<Vec<_>>(), calls);
    let next = match next_action(&checkpoint) {
        NextAction::VerifyThenRetry { answer, .. } => Ok(answer),
        other => Err(other.kind()),
    };
    assert_eq!(next, told);
}

fn sessions(world: &World) -> Checkpoints {
    let parts = world.parts();
    Checkpoints::new(parts.store, parts.clock, parts.entropy, parts.probe)
}

fn tell(world: &World) {
    let resume = finish(sessions(world).resume(&s1())).unwrap();
    finish(sessions(world).told(&resume)).unwrap();
}

/// Ends the session, which leaves these calls running.
fn end(world: &World, running: &[&str]) -> Vec<IncidentId> {
    finish(sessions(world).end(&s1(), &name("ops"), true, "over")).unwrap();
    let running: Vec<_> = running.iter().map(|id| (call(id), CallState::Detached)).collect();
    finish(upkeep(world).left_running(&running)).unwrap()
}

#[test]
fn whoever_comes_back_to_a_running_write_is_told_to_look_and_then_how_it_was_answered() {
    for answer in [LateAnswer::Result, LateAnswer::Error] {
        let world = World::of(&["files"]);
        let upkeep = upkeep(&world);
        assert_eq!(finish(upkeep.detached(&call("1-1"))).unwrap(), None);
        check(&world, &[CallState::Detached], Ok(None));
        tell(&world);
        check(&world, &[CallState::Detached], Err("Continue"));
        finish(upkeep.answered_late(&call("1-1"), answer)).unwrap();
        finish(upkeep.answered_late(&call("1-1"), answer)).unwrap();
        check(&world, &[], Ok(Some(answer)));
        tell(&world);
        check(&world, &[], Err("Continue"));
        assert_eq!(world.open_incidents(), []);
    }
}

#[test]
fn a_late_answer_says_nothing_of_the_other_calls_of_that_tool() {
    let world = World::of(&["files"]);
    let upkeep = upkeep(&world);
    for id in ["1-1", "1-2"] {
        finish(upkeep.detached(&call(id))).unwrap();
    }
    finish(upkeep.answered_late(&call("1-1"), LateAnswer::Result)).unwrap();
    check(&world, &[CallState::Detached], Ok(None));
    finish(upkeep.answered_late(&call("1-2"), LateAnswer::Result)).unwrap();
    check(&world, &[], Ok(Some(LateAnswer::Result)));
}

#[test]
fn when_its_server_or_its_daemon_dies_the_outcome_is_unknown_and_that_is_told_again() {
    for daemon in [false, true] {
        let world = World::of(&["files"]);
        let upkeep = upkeep(&world);
        finish(upkeep.detached(&call("1-1"))).unwrap();
        tell(&world);
        if daemon {
            assert_eq!(finish(upkeep.settle_left()).unwrap(), 1);
            assert_eq!(finish(upkeep.settle_left()).unwrap(), 0, "once");
        } else {
            finish(upkeep.unknown(&call("1-1"))).unwrap();
        }
        check(&world, &[CallState::Unknown], Ok(None));
        let [incident] = &world.open_incidents()[..] else { panic!("one incident") };
        assert_eq!((incident.who_is_next, incident.count), (WhoIsNext::Session, 1));
    }
}

#[test]
fn an_end_reports_what_goes_on_without_a_client_and_nothing_twice() {
    let world = World::of(&["files"]);
    let upkeep = upkeep(&world);
    finish(upkeep.detached(&call("1-1"))).unwrap();
    finish(upkeep.unknown(&call("1-2"))).unwrap();
    finish(upkeep.detached(&call("1-3"))).unwrap();
    let [id] = &end(&world, &["1-1"])[..] else { panic!("of one call") };
    assert_eq!(end(&world, &["1-1"]), std::slice::from_ref(id), "it is on record already");
    let of_it =
        |world: &World| world.open_incidents().into_iter().filter(|it| it.id == *id).collect::<Vec<_>>();
    let [incident] = &of_it(&world)[..] else { panic!("one incident") };
    assert_eq!((incident.who_is_next, incident.count), (WhoIsNext::Operator, 1));
    finish(upkeep.answered_late(&call("1-1"), LateAnswer::Result)).unwrap();
    assert_eq!(of_it(&world), [], "its answer settles it");
    end(&world, &["1-1"]);
    assert_eq!(of_it(&world), [], "whoever looked before the answer came changes nothing");
}

#[test]
fn a_call_that_could_not_be_recorded_is_on_record_before_anybody_is_told_that_its_session_has_ended() {
    let world = World::of(&["files"]);
    let upkeep = upkeep(&world);
    finish(upkeep.detached(&call("1-0"))).unwrap();
    world.store.inner.set_faults(|_: &_| Fault::Reject);
    finish(upkeep.detached(&call("1-1"))).unwrap_err();
    world.store.inner.clear_faults();
    let running = |id: &str, class, state| (OpenCall { class, ..call(id) }, state);
    finish(sessions(&world).end(&s1(), &name("ops"), true, "over")).unwrap();
    let calls = [
        running("1-1", WorkClass::Mutating, CallState::Detached),
        running("1-2", WorkClass::ReadOnly, CallState::Detached),
        running("1-3", WorkClass::Mutating, CallState::Written),
    ];
    assert_eq!(finish(upkeep.left_running(&calls)).unwrap().len(), 1);
    let [incident] = &world.open_incidents()[..] else { panic!("one incident") };
    assert_eq!((incident.who_is_next, incident.dedup.as_str()), (WhoIsNext::Operator, "files/local/s1/1-1"));
}

#[test]
fn of_a_session_that_was_ended_it_is_an_operators_business_until_the_answer_comes() {
    let world = World::of(&["files"]);
    let upkeep = upkeep(&world);
    finish(upkeep.detached(&call("1-1"))).unwrap();
    finish(upkeep.answered_late(&call("1-1"), LateAnswer::Result)).unwrap();
    end(&world, &[]);
    let reported = finish(upkeep.detached(&call("1-2"))).unwrap().unwrap();
    let [incident] = &world.open_incidents()[..] else { panic!("one incident") };
    assert_eq!((&incident.id, incident.who_is_next), (&reported, WhoIsNext::Operator));
    assert!(incident.next_prompt.contains("look with a read-only call"), "{}", incident.next_prompt);
    finish(upkeep.answered_late(&call("1-2"), LateAnswer::Error)).unwrap();
    let all = finish(tidegate_incidents::list(&world.store.inner)).unwrap();
    let [incident] = &all[..] else { panic!("one incident") };
    assert_eq!(incident.state, IncidentState::Resolved);
    assert_eq!(incident.history.last().unwrap().note, "the server answered the call with an error");
}

#[test]
fn a_call_of_an_ended_session_whose_server_dies_is_one_incident_that_stays() {
    let world = World::of(&["files"]);
    let upkeep = upkeep(&world);
    finish(upkeep.detached(&call("1-1"))).unwrap();
    assert_eq!(end(&world, &["1-1"]).len(), 1);
    finish(upkeep.unknown(&call("1-1"))).unwrap();
    let [incident] = &world.open_incidents()[..] else { panic!("one incident") };
    assert_eq!((incident.who_is_next, incident.count), (WhoIsNext::Operator, 2));
    assert_eq!(incident.evidence["why"], "the server ended before it answered");
}

#[test]
fn a_failed_restart_is_settled_when_every_component_of_it_serves_again_and_not_before() {
    let world = World::of(&["files", "mail"]);
    world.state().bad_starts = [(name("files"), 9), (name("mail"), 9)].into();
    let id = world.approved("op-1");
    assert_eq!(finish(world.governor().run(&id, &world)).unwrap().phase, Phase::Failed);
    let ready = |names: &[&str]| names.iter().map(|it| (name(it), Generation(7))).collect();
    let settle = |names: &[&str]| finish(upkeep(&world).settle_restarts(&ready(names))).unwrap();
    for some in [&[][..], &["files"], &["mail", "other"]] {
        assert_eq!(settle(some), [], "{some:?}");
    }
    let [incident] = &world.open_incidents()[..] else { panic!("one incident") };
    assert_eq!(settle(&["files", "mail"]), std::slice::from_ref(&incident.id));
    assert_eq!(settle(&["files", "mail"]), []);
    let all = finish(tidegate_incidents::list(&world.store.inner)).unwrap();
    let note = &all[0].history.last().unwrap().note;
    assert_eq!(
        (all[0].state, note.as_str()),
        (IncidentState::Resolved, "files serves as generation 7, mail serves as generation 7")
    );
}

#[test]
fn what_an_earlier_process_was_to_begin_is_never_begun_its_own_end_least_of_all() {
    let world = World::of(&["files"]);
    let ask = Ask::takeover(name("op-1"), vec![name("files")], "a new version");
    finish(world.governor().request(&Caller::operator(name("ops")), &ask, &world)).unwrap();
    assert_eq!(world.operation(&ask.id).phase, Phase::Approved);

    let successor = world.governor();
    assert_eq!(finish(successor.undriven()).unwrap(), [], "nothing was settled yet");
    world.store.inner.set_faults(|_: &_| Fault::Reject);
    finish(successor.recover(&world)).unwrap_err();
    world.store.inner.clear_faults();
    assert_eq!(finish(successor.undriven()).unwrap(), [], "it couldn't be settled yet");
    finish(successor.recover(&world)).unwrap();
    assert_eq!(world.operation(&ask.id).phase, Phase::Failed);
    assert_eq!(finish(successor.undriven()).unwrap(), []);

    let id = world.approved("op-2");
    assert_eq!(
        finish(successor.undriven()).unwrap(),
        std::slice::from_ref(&id),
        "its approver has lost the answer"
    );
    finish(successor.run(&id, &world)).unwrap();
    assert_eq!(finish(successor.undriven()).unwrap(), []);
}
