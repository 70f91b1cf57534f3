//! Who may ask, approve, deny and cancel, and what becomes of an approval when something changes.

use crate::support::{AllAlive, Counter, finish, nudge, pause};
use crate::world::{World, launch, name};
use std::sync::Arc;
use tidegate_checkpoints::{Checkpoints, Draft};
use tidegate_core::{Clock, Generation, NextAction, OperationId, SessionId};
use tidegate_governor::{
    Approved, Ask, Caller, Change, Changes, Governor, GovernorError, Launches, MAX_REASON_BYTES, MAX_SCOPE,
    Operation, Phase, Policy, PolicyError, Stamp, decide_expire, decide_request,
};
use tidegate_store::Fault;

fn ops() -> Caller {
    Caller::operator(name("ops"))
}

fn ops2() -> Caller {
    Caller::operator(name("ops2"))
}

fn reviewer() -> Caller {
    Caller::principal(name("reviewer"))
}

fn worker() -> Caller {
    Caller::principal(name("worker"))
}

fn ask(id: &str) -> Ask {
    Ask::restart(name(id), vec![name("files")], "it is stale")
}

fn with(change: impl FnOnce(&mut Policy)) -> World {
    let mut world = World::of(&["files", "mail"]);
    change(&mut world.policy);
    world
}

/// What an answer says: the phase, or the refusal.
fn said<T>(answer: Result<T, GovernorError>, phase: impl FnOnce(T) -> String) -> String {
    answer.map_or_else(|error| error.to_string(), phase)
}

fn request(world: &World, caller: &Caller, ask: &Ask) -> Result<Operation, GovernorError> {
    finish(world.governor().request(caller, ask, world))
}

fn approve(world: &World, caller: &Caller, id: &str) -> Result<Approved, GovernorError> {
    finish(world.governor().approve(caller, &name(id), world))
}

#[track_caller]
fn check_request(world: &World, caller: &Caller, ask: &Ask, expected: &str) {
    let got = said(request(world, caller, ask), |operation| operation.phase.to_string());
    assert!(got.contains(expected), "{caller:?}: {got}");
}

#[track_caller]
fn check_approve(world: &World, caller: &Caller, id: &str, expected: &str) {
    let got = said(approve(world, caller, id), |a| format!("{} counted {:?}", a.operation.phase, a.counted));
    assert!(got.contains(expected), "{caller:?}: {got}");
}

#[test]
fn an_agent_waits_for_somebody_else_and_an_operator_does_not() {
    let world = with(|policy| policy.approvers.push("reviewer".to_owned()));
    check_request(&world, &Caller::local(), &ask("a"), "Requested");
    check_request(&world, &worker(), &ask("b"), "Requested");
    check_request(&world, &reviewer(), &ask("c"), "Requested");
    check_request(&world, &ops(), &ask("d"), "Approved");
}

#[test]
fn the_policy_can_ask_a_second_operator() {
    let world = with(|policy| policy.operator_approvals = 1);
    check_request(&world, &ops(), &ask("a"), "Requested");
    check_approve(&world, &ops(), "a", "ops asked for operation a and can't approve it");
    check_approve(&world, &ops2(), "a", "Approved counted Now");
}

#[test]
fn nobody_without_a_credential_approves_under_any_name() {
    let world = World::of(&["files"]);
    check_request(&world, &worker(), &ask("a"), "Requested");
    check_approve(&world, &Caller::local(), "a", "every caller without one is the principal `local`");
    check_approve(&world, &Caller::signal(), "a", "takes a credential");
    let denied = finish(world.governor().deny(&Caller::local(), &name("a")));
    assert!(said(denied, |o| o.phase.to_string()).contains("to deny operation a takes a credential"));
}

#[test]
fn two_sessions_of_one_agent_are_one_principal_and_approve_nothing() {
    let world = World::of(&["files"]);
    let mut first = ask("a");
    first.session = Some(name("local/s1"));
    check_request(&world, &Caller::local(), &first, "Requested");
    // A second session, a second connection, a shell beside it: all of them are this caller.
    check_approve(&world, &Caller::local(), "a", "takes a credential, and none was given");
    assert_eq!(world.operation(&name("a")).approvals, []);
}

#[test]
fn a_requester_never_approves_whatever_the_list_says() {
    let world = with(|policy| policy.approvers = vec!["reviewer".to_owned(), "operator".to_owned()]);
    check_request(&world, &reviewer(), &ask("a"), "Requested");
    check_approve(&world, &reviewer(), "a", "reviewer asked for operation a and can't approve it");
    // A second connection with the same token is the same principal.
    check_approve(&world, &Caller::principal(name("reviewer")), "a", "can't approve it");
    check_approve(
        &world,
        &worker(),
        "a",
        "worker may not approve operation a: policy.approvers doesn't list it",
    );
    check_approve(&world, &ops(), "a", "Approved");
}

#[test]
fn an_operator_approves_only_where_the_list_says_so() {
    let world = with(|policy| policy.approvers = vec!["reviewer".to_owned()]);
    check_request(&world, &worker(), &ask("a"), "Requested");
    check_approve(&world, &ops(), "a", "ops may not approve");
    check_approve(&world, &reviewer(), "a", "Approved");
}

#[test]
fn an_approval_counts_once() {
    let world = with(|policy| policy.approvals = 2);
    check_request(&world, &Caller::local(), &ask("a"), "Requested");
    check_approve(&world, &ops(), "a", "Requested counted Now");
    check_approve(&world, &ops(), "a", "Requested counted Before");
    check_approve(&world, &ops2(), "a", "Approved counted Now");
    check_approve(&world, &ops2(), "a", "Approved counted Before");
    assert_eq!(world.operation(&name("a")).approvals.len(), 2);
}

#[test]
fn an_uncertain_approval_is_counted_once_and_says_so() {
    for fault in [Fault::UncertainApplied, Fault::UncertainLost] {
        let world = World::of(&["files"]);
        check_request(&world, &Caller::local(), &ask("a"), "Requested");
        let mut faults = vec![fault];
        world.store.inner.set_faults(move |_: &_| faults.pop().unwrap_or(Fault::None));
        check_approve(&world, &ops(), "a", "Approved counted Now");
        assert_eq!(world.operation(&name("a")).approvals.len(), 1);
    }
}

#[test]
fn an_approval_is_void_when_what_was_asked_has_changed() {
    let changes: [fn(&mut tidegate_governor::LaunchIdentity); 4] = [
        |launch| launch.command = "bun".to_owned(),
        |launch| launch.args.push("--all".to_owned()),
        |launch| drop(launch.env.insert("DEBUG".to_owned(), "1".to_owned())),
        |launch| launch.executable_sha256 = "00".repeat(32),
    ];
    for change in changes {
        let world = World::of(&["files"]);
        check_request(&world, &Caller::local(), &ask("a"), "Requested");
        change(world.state().launches.get_mut(&name("files")).unwrap());
        check_approve(
            &world,
            &ops(),
            "a",
            "has changed since (how files is started), so its approvals are void",
        );
        world.state().launches.insert(name("files"), launch("node"));
        check_approve(&world, &ops(), "a", "Approved");
    }
}

#[test]
fn what_changes_between_the_approval_and_the_drain_is_not_started() {
    let world = World::of(&["files"]);
    let id = world.approved("a");
    world.state().launches.insert(name("files"), launch("bun"));
    let operation = finish(world.governor().run(&id, &world)).unwrap();
    assert_eq!(operation.phase, Phase::Expired);
    assert!(operation.note.contains("how files is started"), "{}", operation.note);
    assert_eq!(world.state().diary, Vec::<String>::new());
    assert_eq!(world.keys("operation-lock/"), Vec::<String>::new());
}

#[test]
fn an_approval_after_expiry_is_refused_swept_or_not() {
    let world = World::of(&["files"]);
    check_request(&world, &Caller::local(), &ask("a"), "Requested");
    world.clock.advance(15 * 60_000 - 1);
    assert_eq!(finish(world.governor().expire_due()).unwrap(), []);
    world.clock.advance(1);
    check_approve(&world, &ops(), "a", "operation a has expired; request the restart again");
    let expired = finish(world.governor().expire_due()).unwrap();
    assert_eq!(expired.iter().map(|o| o.phase).collect::<Vec<_>>(), [Phase::Expired]);
    check_approve(&world, &ops(), "a", "operation a has expired");
    assert_eq!(finish(world.governor().expire_due()).unwrap(), []);
}

#[test]
fn what_was_answered_before_it_was_swept_does_not_expire() {
    let swept = |answer: fn(&World), minutes: u64| {
        let world = World::of(&["files"]);
        check_request(&world, &Caller::local(), &ask("a"), "Requested");
        answer(&world);
        world.clock.advance(minutes * 60_000);
        let stamp = Stamp::fresh(&Counter::default());
        decide_expire(&world.view(), &name("a"), &world.clock.now(), &stamp).unwrap().reply.phase
    };
    let denied = |world: &World| drop(finish(world.governor().deny(&ops(), &name("a"))).unwrap());
    let approved = |world: &World| drop(approve(world, &ops(), "a").unwrap());
    assert_eq!(swept(|_| (), 14), Phase::Requested);
    assert_eq!(swept(|_| (), 15), Phase::Expired);
    assert_eq!(swept(denied, 15), Phase::Denied);
    assert_eq!(swept(approved, 15), Phase::Approved);
}

#[test]
fn a_request_that_nobody_could_approve_is_refused_at_once() {
    let too_few = |policy: &mut Policy| policy.approvals = 3;
    check_request(
        &with(too_few),
        &Caller::local(),
        &ask("a"),
        "3 approval(s) of a request by local and only 2",
    );
    let nobody = |policy: &mut Policy| policy.operators.clear();
    check_request(&with(nobody), &worker(), &ask("a"), "only 0 other principal(s) could give one");
    let alone = |policy: &mut Policy| {
        policy.operators.remove(&name("ops2"));
        policy.operator_approvals = 1;
    };
    check_request(&with(alone), &ops(), &ask("a"), "only 0 other principal(s)");
}

#[test]
fn a_policy_without_approvals_is_not_served() {
    let world = with(|policy| policy.approvals = 0);
    assert_eq!(Governor::new(world.parts()).err(), Some(PolicyError::NoApprovals));
}

#[test]
fn breaking_the_glass_is_for_operators_and_leaves_an_incident() {
    let world = with(|policy| policy.operator_approvals = 1);
    let mut glass = ask("a");
    glass.break_glass = true;
    check_request(
        &world,
        &Caller::local(),
        &glass,
        "only an operator may break the glass, and local is none",
    );
    check_request(&world, &reviewer(), &glass, "only an operator");
    assert_eq!(world.open_incidents(), []);
    check_request(&world, &ops(), &glass, "Approved");
    check_request(&world, &ops(), &glass, "Approved");
    let incidents = world.open_incidents();
    assert_eq!(incidents.len(), 1);
    assert_eq!((incidents[0].kind.as_str(), incidents[0].count), ("break_glass", 1));
}

#[test]
fn the_same_request_twice_is_one_operation_with_one_answer() {
    let world = World::of(&["files", "mail"]);
    let first = request(&world, &Caller::local(), &ask("a")).unwrap();
    world.clock.advance(5_000);
    assert_eq!(request(&world, &Caller::local(), &ask("a")).unwrap(), first);
    check_request(&world, &worker(), &ask("a"), "operation a was asked for with another requester");
    let other = Ask { reason: "it is wedged".to_owned(), ..ask("a") };
    check_request(&world, &Caller::local(), &other, "another reason; use a new id");
    let other = Ask { scope: vec![name("mail")], ..ask("a") };
    check_request(&world, &Caller::local(), &other, "another scope");
    let twice = Ask { scope: vec![name("files"), name("files")], ..ask("a") };
    assert_eq!(request(&world, &Caller::local(), &twice).unwrap(), first, "naming one twice is naming it");
    world.state().launches.insert(name("files"), launch("bun"));
    check_request(&world, &Caller::local(), &ask("a"), "another launch identity");
}

#[test]
fn two_requests_with_one_id_in_the_same_moment_are_one_operation() {
    let world = World::of(&["files"]);
    let governors = [world.governor(), world.governor()];
    let (caller, ask) = (Caller::local(), ask("a"));
    let [mut one, mut two] = governors.each_ref().map(|g| Box::pin(g.request(&caller, &ask, &world)));
    finish(async {
        let (mut first, mut second) = (None, None);
        while first.is_none() || second.is_none() {
            if first.is_none() {
                first = nudge(&mut one).await;
            }
            if second.is_none() {
                second = nudge(&mut two).await;
            }
        }
        assert_eq!(first.unwrap().unwrap(), second.unwrap().unwrap());
    });
    assert_eq!(world.keys("operation/"), ["operation/a"]);
}

#[test]
fn requests_coexist_and_only_one_of_them_is_approved() {
    let world = World::of(&["files", "mail"]);
    check_request(&world, &Caller::local(), &ask("a"), "Requested");
    let both = Ask { scope: vec![name("mail"), name("files")], ..ask("b") };
    check_request(&world, &worker(), &both, "Requested");
    let mail = Ask { scope: vec![name("mail")], ..ask("c") };
    check_request(&world, &worker(), &mail, "Requested");
    check_approve(&world, &ops(), "a", "Approved");
    check_approve(&world, &ops(), "b", "files belongs to operation a until that one has ended");
    check_request(&world, &ops2(), &ask("d"), "files belongs to operation a");
    check_approve(&world, &ops(), "c", "Approved");
    assert_eq!(world.operation(&name("b")).approvals, [], "a refused approval leaves nothing");

    finish(world.governor().deny(&ops(), &name("b"))).unwrap();
    check_request(&world, &worker(), &Ask { scope: vec![name("files")], ..ask("e") }, "Requested");
    finish(world.governor().cancel(&worker(), &name("e"))).unwrap();
    let locks = ["operation-lock/files", "operation-lock/mail"];
    assert_eq!(world.keys("operation-lock/"), locks, "what ends elsewhere gives up nothing of a's and c's");

    check_request(&world, &worker(), &Ask { scope: vec![name("files")], ..ask("f") }, "Requested");
    let refusal = approve(&world, &ops(), "f").unwrap_err();
    let expected = NextAction::WaitForRestart {
        component: name("files"),
        operation: Some(name("a")),
        retry_after_ms: tidegate_governor::RETRY_AFTER_MS,
    };
    assert_eq!(refusal.next_action(), expected);

    finish(world.governor().run(&name("a"), &world)).unwrap();
    finish(world.governor().run(&name("c"), &world)).unwrap();
    check_approve(&world, &ops(), "f", "Approved");
}

#[test]
fn waiting_requests_are_bounded() {
    let world = World::of(&["files"]);
    for n in 0..tidegate_governor::MAX_REQUESTED {
        check_request(&world, &Caller::local(), &ask(&format!("r{n}")), "Requested");
    }
    check_request(&world, &Caller::local(), &ask("one-more"), "64 requests are waiting for approval already");
    check_request(&world, &Caller::local(), &ask("r3"), "Requested");
}

#[test]
fn ended_operations_are_forgotten_oldest_first() {
    let world = World::of(&["files"]);
    let keep = tidegate_governor::MAX_ENDED;
    world.cancelled((0..keep + 2).map(|n| name(&format!("r{n:04}"))));
    check_request(&world, &Caller::local(), &ask("s"), "Requested");
    let kept = world.keys("operation/");
    assert_eq!((kept.len(), kept[0].as_str()), (keep, "operation/r0003"));
}

#[test]
fn bad_requests_say_what_is_wrong() {
    let world = World::of(&["files"]);
    let (local, signal) = (Caller::local(), Caller::signal());
    let check = |caller: &Caller, ask: Ask, expected: &str| check_request(&world, caller, &ask, expected);
    let of = |count: usize| Ask { scope: (0..count).map(|n| name(&format!("c{n}"))).collect(), ..ask("a") };
    let because = |reason: &str| Ask { reason: reason.to_owned(), ..ask("a") };
    check(&local, of(0), "name at least one component");
    check(&local, of(MAX_SCOPE), "no component c0");
    check(&local, of(MAX_SCOPE + 1), "at most 64 components, not 65");
    check(&local, because("  "), "at most 2048 bytes, and not only spaces");
    check(&local, because(&"x".repeat(MAX_REASON_BYTES + 1)), "this one has 2049");
    check(&ops(), Ask::shutdown(name("a"), vec![name("files")]), "only a signal ends");
    check(&signal, ask("a"), "only a signal ends");
    check(&ops(), Ask { abandon_unsafe: true, ..ask("a") }, "it goes with --break-glass only");
    check_approve(&world, &ops(), "nowhere", "there is no operation nowhere");
    assert_eq!(world.keys("operation/"), Vec::<String>::new());
}

#[test]
fn the_longest_reason_and_the_widest_rights_are_no_mistake() {
    let world = World::of(&["files"]);
    let long = Ask { reason: "x".repeat(MAX_REASON_BYTES), ..ask("a") };
    check_request(&world, &Caller::local(), &long, "Requested");
    check_request(&world, &ops(), &Ask { break_glass: true, abandon_unsafe: true, ..ask("b") }, "Approved");
}

#[test]
fn an_upgrade_is_asked_for_with_what_it_changes() {
    let world = World::of(&["files"]);
    let upgrade = Ask::upgrade(name("u"), name("files"), Change::Configured, "the configuration is new");
    let launches = Launches::from([(name("files"), launch("deno"))]);
    let (now, stamp) = (world.clock.now(), Stamp::fresh(&Counter::default()));
    let decided =
        decide_request(&world.view(), &world.policy, &Caller::local(), &upgrade, &launches, &now, &stamp);
    let changes = decided.unwrap().reply.upgrade.changes;
    assert_eq!(changes, Changes::from([(name("files"), Change::Configured)]));
}

#[test]
fn approvers_deny_and_nothing_follows() {
    let world = World::of(&["files"]);
    let deny = |caller: &Caller| finish(world.governor().deny(caller, &name("a")));
    check_request(&world, &Caller::local(), &ask("a"), "Requested");
    assert!(said(deny(&worker()), |o| o.note).contains("worker may not deny"));
    assert_eq!(said(deny(&ops()), |o| o.note), "denied by ops");
    check_approve(&world, &ops2(), "a", "operation a is Denied: there is nothing left to approve");
    assert!(said(deny(&ops()), |o| o.note).contains("nothing left to deny"));
}

#[test]
fn the_requester_and_any_operator_cancel() {
    let world = World::of(&["files"]);
    let cancel = |caller: &Caller, id: &str| finish(world.governor().cancel(caller, &name(id)));
    for id in ["a", "b"] {
        check_request(&world, &worker(), &ask(id), "Requested");
    }
    let refused = said(cancel(&Caller::local(), "a"), |o| o.note);
    assert!(refused.contains("local may not cancel operation a: only worker, who asked for it"), "{refused}");
    assert_eq!(said(cancel(&worker(), "a"), |o| o.note), "cancelled by worker");
    assert_eq!(said(cancel(&ops(), "b"), |o| o.note), "cancelled by ops");
    assert!(said(cancel(&ops(), "b"), |o| o.note).contains("nothing left to cancel"));
}

#[test]
fn an_approved_operation_that_is_cancelled_gives_its_components_up() {
    let world = World::of(&["files"]);
    let id: OperationId = world.approved("a");
    finish(world.governor().cancel(&ops(), &id)).unwrap();
    check_request(&world, &ops(), &ask("b"), "Approved");
    let ran = finish(world.governor().run(&id, &world)).unwrap();
    assert_eq!((ran.phase, world.state().diary.len()), (Phase::Cancelled, 0));
}

#[test]
fn what_has_been_stopped_is_not_cancelled() {
    let world = World::of(&["files"]);
    let id = world.approved("a");
    let governor: Governor = world.governor();
    let refusal = finish(async {
        let mut run = Box::pin(governor.run(&id, &world));
        loop {
            assert!(nudge(&mut run).await.is_none(), "it never was past return");
            if governor.get(&id).await.unwrap().phase.is_past_return() {
                break governor.cancel(&ops(), &id).await.unwrap_err();
            }
            pause().await;
        }
    });
    assert!(refusal.to_string().contains("so it can only be carried forward"), "{refusal}");
}

#[test]
fn a_refusal_is_an_object_with_a_next_action() {
    let world = World::of(&["files"]);
    request(&world, &worker(), &ask("a")).unwrap();
    let refusal = approve(&world, &Caller::local(), "a").unwrap_err();
    assert!(refusal.is_refusal());
    let json = refusal.to_json();
    assert_eq!(json["kind"], "restart_refused");
    assert_eq!(json["operation"], "a");
    assert_eq!(json["next_action"]["kind"], "RequestApproval");
    assert!(json["next_action"]["prompt"].as_str().unwrap().contains("tidegate restart approve a"));
}

#[test]
fn the_session_that_asks_waits_for_an_approval_from_the_request_to_the_answer_and_no_longer() {
    let session: SessionId = name("local/s1");
    type Answer = fn(&World, &OperationId);
    let answers: [(&str, Answer); 4] = [
        ("approved", |world, id| drop(finish(world.governor().approve(&ops(), id, world)).unwrap())),
        ("denied", |world, id| drop(finish(world.governor().deny(&ops(), id)).unwrap())),
        ("cancelled", |world, id| drop(finish(world.governor().cancel(&Caller::local(), id)).unwrap())),
        ("expired", |world, _| {
            world.clock.advance(world.policy.request_ttl.as_millis().try_into().unwrap());
            finish(world.governor().expire_due()).unwrap();
        }),
    ];
    for (what, answer) in answers {
        let world = World::of(&["files"]);
        let mut known = Draft::new(session.clone());
        known.generations.insert(name("files"), Generation(1));
        finish(sessions(&world).checkpoint(&[known])).unwrap();
        let ask = Ask { session: Some(session.clone()), ..ask("a") };
        let id = request(&world, &Caller::local(), &ask).unwrap().id;
        let told = || finish(sessions(&world).resume(&session)).unwrap().next_action;
        assert_eq!(told(), NextAction::RequestApproval { operation: id.clone() }, "{what}");
        answer(&world, &id);
        assert_eq!(told(), NextAction::Continue, "{what}");
    }
}

fn sessions(world: &World) -> Checkpoints {
    let (clock, ids) = (world.clock.clone(), Arc::new(Counter::default()));
    Checkpoints::new(Arc::new(world.store.clone()), clock, ids, Arc::new(AllAlive))
}
