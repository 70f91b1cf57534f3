//! Each invariant is shown a world in which it is broken and has to name it; and the same world unbroken.

use super::*;
use crate::observe::{Durable, Fact, Needed, Outcome, Seen, Truth};
use crate::story::Story;
use crate::world::{Executing, UP_MS, World};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::str::FromStr;
use tidegate_checkpoints::{Checkpoint, StreamFact};
use tidegate_core::{
    BootId, ComponentName, Fence, Generation, Now, OperationId, Revision, SessionId, WallTime, WorkClass,
};
use tidegate_governor::{Caller, Component, ComponentState, LaunchIdentity, Launches, Operation, Phase};
use tidegate_incidents::{Incident, IncidentKind, Report, Severity, decide_report};
use tidegate_store::View;

const NOW: Now = Now { boot: BootId(1), boot_ms: 1, wall: WallTime(0) };

fn name<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A world of one component `files` with the session `local/s1`, in which nothing is wrong.
struct Scene {
    truth: Truth,
    durable: Durable,
    news: Vec<Seen>,
    changed: bool,
}

impl Scene {
    fn new() -> Self {
        let truth = Truth::new(&World::new(Story::of(1)));
        let mut scene = Self { truth, durable: Durable::default(), news: Vec::new(), changed: true };
        scene.truth.policy = Default::default();
        scene.checkpoint(|_| {});
        scene
    }

    fn knows(mut self, seen: Seen) -> Self {
        self.truth.learn(&seen);
        self
    }

    fn sees(mut self, seen: Seen) -> Self {
        self.truth.learn(&seen);
        self.news = vec![seen];
        self
    }

    fn checkpoint(&mut self, change: impl FnOnce(&mut Checkpoint)) {
        let mut checkpoint = Checkpoint::new(s1(), &NOW);
        change(&mut checkpoint);
        self.durable.checkpoints.insert(s1(), checkpoint);
    }

    fn operation(mut self, phase: &str, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = json!({
            "id": "op", "phase": phase, "intent": "restart", "scope": ["files"], "reason": "stale",
            "requested_by": "local", "requester": "local", "requested_at": WallTime(0),
            "expires": { "boot": "1", "at_ms": 9 }, "digest": "d", "launches": {}, "approvals_needed": 1,
            "approvals": [], "break_glass": false, "drain_deadline_ms": 1_000, "holders": [], "stamp": "1",
            "generations": { "files": { "before": 1, "after": 2 } }, "incident": null,
            "drain": { "id": "d1", "deadline": { "boot": "1", "at_ms": UP_MS + 500 }, "began_ms": 0, "settled_ms": 0 },
        });
        change(&mut value);
        let operation: Operation = serde_json::from_value(value).unwrap();
        self.durable.operations.insert(operation.id.clone(), operation);
        self
    }

    fn asked(self, caller: Caller) -> Self {
        self.knows(Seen::Asked { operation: op(), caller })
    }

    fn call(self, id: &str, class: WorkClass) -> Self {
        self.call_of(s1(), id, class, None)
    }

    fn call_of(self, session: SessionId, id: &str, class: WorkClass, lease: Option<Needed>) -> Self {
        let component = files();
        self.knows(Seen::Serving { component: files() })
            .knows(Seen::Connected { session: s1(), component: files(), up: true })
            .knows(Seen::Sent {
                call: id.into(),
                session,
                component,
                class,
                replay: false,
                tool: "write".to_owned(),
                lease,
            })
    }

    fn found(&self, check: Check) -> String {
        let Self { truth, durable, news, changed } = self;
        check(&Observation { truth, durable, news, changed: *changed }).unwrap_or_default()
    }
}

fn s1() -> SessionId {
    name("local/s1")
}

fn files() -> ComponentName {
    name("files")
}

fn op() -> OperationId {
    name("op")
}

fn launch() -> LaunchIdentity {
    World::new(Story::of(1)).launch(&files()).unwrap()
}

fn stopping(executing: &[(&str, WorkClass)]) -> Seen {
    let executing =
        executing.iter().map(|(call, class)| Executing { call: (*call).into(), class: *class }).collect();
    Seen::Stopping {
        component: files(),
        generation: Generation(1),
        governed: true,
        orphaned: false,
        executing,
    }
}

fn refused(call: &str, kind: &str, action: &str) -> Seen {
    let text = |it: &str| it.to_owned();
    let refused = crate::observe::Refused { kind: text(kind), action: text(action), prompt: text("do it") };
    Seen::Delivered { call: call.into(), outcome: Outcome::Refused(refused), local: false }
}

fn answered(call: &str, text: &str) -> Seen {
    Seen::Delivered { call: call.into(), outcome: Outcome::Answered(text.to_owned()), local: false }
}

/// The check finds nothing in `good` and names what is wrong in `bad`.
#[track_caller]
fn check(check: Check, good: Scene, bad: Scene, expected: &str) {
    assert_eq!(good.found(check), "");
    let found = bad.found(check);
    assert!(found.contains(expected), "{found:?}");
}

#[test]
fn a_stop_without_approvals_is_named() {
    let scene = |caller: Caller, approver: Option<Caller>| {
        let scene = Scene::new().operation("Stopping", |_| {}).asked(caller);
        let approved = approver.map(|caller| Seen::Approving { operation: op(), caller });
        approved.into_iter().fold(scene, Scene::knows).sees(stopping(&[]))
    };
    let (ann, local) = (Caller::operator(name("ann")), Caller::local());
    let worker = Caller::principal(name("worker"));
    let rule = no_unilateral_restart;
    check(rule, scene(local.clone(), Some(ann.clone())), scene(local.clone(), None), "0 of 1 approvals");
    check(rule, scene(ann.clone(), None), scene(local.clone(), Some(local.clone())), "0 of 1 approvals");
    check(rule, scene(Caller::signal(), None), scene(local, Some(worker)), "0 of 1 approvals");
    let nobody = Scene::new().asked(ann.clone()).sees(stopping(&[]));
    check(rule, scene(ann, None), nobody, "no operation is stopping it");
}

#[test]
fn a_start_of_something_else_than_was_approved_is_named() {
    let started = |launch| Seen::Started { component: files(), generation: Generation(2), pid: 7, launch };
    let scene = || {
        let mut scene = Scene::new().operation("Starting", |_| {}).asked(Caller::operator(name("ann")));
        scene.truth.taken.insert(op(), Launches::from([(files(), launch())]));
        scene
    };
    let other = LaunchIdentity { executable_sha256: "other".to_owned(), ..launch() };
    let (good, bad) = (scene().sees(started(launch())), scene().sees(started(other)));
    check(no_unilateral_restart, good, bad, "something else than was asked for");
}

#[test]
fn work_that_gets_behind_a_closed_gate_is_named() {
    let scene = |decided| {
        let mut scene = Scene::new().call("c", WorkClass::ReadOnly);
        scene.truth.step = 10;
        let read = Seen::Received { call: "c".into(), component: files(), decided };
        scene.knows(Seen::GateClosed { component: files(), drain: name("d1") }).sees(read)
    };
    check(new_work_stops_during_drain, scene(9), scene(11), "behind a gate closed in step 10");
}

#[test]
fn a_request_behind_a_closed_gate_and_a_stop_behind_an_open_one_are_named() {
    let closed = || Seen::GateClosed { component: files(), drain: name("d1") };
    let own = |decided| {
        let mut scene = Scene::new();
        scene.truth.step = 10;
        scene.knows(closed()).sees(Seen::ReadOwn { component: files(), decided })
    };
    check(new_work_stops_during_drain, own(10), own(11), "files reads a request");
    let (good, bad) = (Scene::new().knows(closed()).sees(stopping(&[])), Scene::new().sees(stopping(&[])));
    check(new_work_stops_during_drain, good, bad, "files is stopped behind an open gate");
}

#[test]
fn work_that_a_drain_cuts_off_or_loses_is_named() {
    let scene = |now_ms| {
        let mut scene = Scene::new().operation("Stopping", |_| {}).call("c", WorkClass::ReadOnly);
        scene.truth.now_ms = now_ms;
        scene.sees(stopping(&[("c", WorkClass::ReadOnly)]))
    };
    check(active_safe_work_finishes, scene(500), scene(100), "400 ms before the drain's deadline");
    let read = || Scene::new().call("c", WorkClass::ReadOnly).knows(Seen::AnswerRead { call: "c".into() });
    let (good, bad) =
        (read().sees(answered("c", "c done")), read().sees(refused("c", "draining", "RetryCall")));
    check(active_safe_work_finishes, good, bad, "the server has answered c");
    let cut = || Seen::Cut { id: "a".into(), session: s1(), component: files() };
    let unknown = |scene: Scene| scene.sees(refused("c", "outcome_unknown", "RetryCall"));
    let late = Scene::new().call("c", WorkClass::ReadOnly).knows(cut());
    check(
        active_safe_work_finishes,
        unknown(late.knows(Seen::AnswerRead { call: "c".into() })),
        unknown(read().knows(cut())),
        "the server has answered c",
    );
    let connected =
        |scene: Scene| scene.knows(Seen::Connected { session: s1(), component: files(), up: true });
    let kept = |scene: Scene| scene.knows(Seen::LateAnswer { call: "c".into() });
    let call = || Scene::new().call("c", WorkClass::ReadOnly);
    check(
        active_safe_work_finishes,
        unknown(kept(call()).knows(cut())),
        unknown(kept(connected(call().knows(cut())))),
        "the server has answered c",
    );
    let closed = |stream: &str| {
        let mut scene = Scene::new();
        let cut = Vec::new();
        scene.checkpoint(|c| c.streams = vec![StreamFact { stream: stream.into(), component: None, cut }]);
        scene.sees(Seen::Cut { id: "a".into(), session: s1(), component: files() })
    };
    check(active_safe_work_finishes, closed("b"), closed("a"), "it is still that session's");
    let cancelled = |scene: Scene| scene.sees(Seen::CancelReceived { call: "c".into() });
    let (good, bad) = (cancelled(call().knows(Seen::GivenUp { call: "c".into() })), cancelled(call()));
    check(active_safe_work_finishes, good, bad, "its client did not do that");
}

#[test]
fn a_stop_under_an_unsafe_call_is_named() {
    let scene = |class| Scene::new().sees(stopping(&[("c", class)]));
    check(
        unsafe_mutation_blocks_restart,
        scene(WorkClass::ReadOnly),
        scene(WorkClass::Mutating),
        "executes c",
    );
    check(unsafe_mutation_blocks_restart, Scene::new(), scene(WorkClass::Idempotent), "executes c");
}

#[test]
fn a_fact_that_is_lost_is_named() {
    let scene = |noted: bool| {
        let mut scene = Scene::new();
        if noted {
            let note = tidegate_checkpoints::Note { id: "n".into(), at: WallTime(0), text: String::new() };
            scene.checkpoint(|c| c.notes.push(note));
        }
        scene.sees(Seen::Kept { session: s1(), fact: Fact::Note("n".into()) })
    };
    check(durable_checkpoints, scene(true), scene(false), "it is not durable");
    let unknown = || {
        let mut scene = Scene::new().operation("Stopping", |_| {}).call("c", WorkClass::ReadOnly);
        scene.durable.checkpoints.clear();
        scene.sees(stopping(&[]))
    };
    check(durable_checkpoints, Scene::new().sees(stopping(&[])), unknown(), "local/s1 has no checkpoint");
}

fn with_lease(state: &str, change: impl FnOnce(&mut Scene)) -> Scene {
    let mut scene = Scene::new();
    let lease = json!({
        "key": "k", "owner": { "session": "local/s1" }, "class": "mutating", "ttl_ms": 3_000, "nonce": "n",
        "deadline": { "boot": "1", "at_ms": 9 }, "state": state, "fence": "1.2",
    });
    scene.durable.leases.insert("k".to_owned(), serde_json::from_value(lease).unwrap());
    change(&mut scene);
    scene
}

#[test]
fn a_lease_that_gets_lost_silently_is_named() {
    let rule = no_silent_orphans;
    let told = |scene: &mut Scene| scene.incident(IncidentKind::LeaseOrphaned, "k");
    check(rule, with_lease("orphaned", told), with_lease("orphaned", |_| {}), "orphaned without an incident");
    let given = |scene: &mut Scene| scene.truth.learn(&Seen::LeaseGiven { key: "k".into() });
    check(rule, with_lease("released", given), with_lease("released", |_| {}), "nobody gave it back");
    check(rule, with_lease("held", |_| {}), with_lease("expired", |_| {}), "has expired without a record");
    let fallen = |scene: &mut Scene| scene.durable.fallen_fence = Some("k".into());
    check(rule, with_lease("held", |_| {}), with_lease("held", fallen), "the fence of k has fallen");
}

#[test]
fn two_holders_are_named() {
    let held = |session: &str, revision, pid| {
        let fence = Fence::new(tidegate_core::Epoch(1), Revision(revision));
        Seen::LeaseHeld { granted: true, session: name(session), key: "k".into(), fence, until_ms: 100, pid }
    };
    let second = || held("local/s2", 2, 8);
    let good = Scene::new().knows(held("local/s1", 1, 7)).knows(Seen::ClientDied { pid: 7 }).sees(second());
    let bad = Scene::new().knows(held("local/s1", 1, 7)).sees(second());
    check(no_silent_orphans, good, bad, "local/s2 holds k under 1.2, and another one still does under 1.1");
}

#[test]
fn a_fence_that_comes_again_and_a_release_by_an_old_one_are_named() {
    let fence = |epoch, revision| Fence::new(tidegate_core::Epoch(epoch), Revision(revision));
    let held = |fence| Seen::LeaseHeld {
        granted: true,
        session: s1(),
        key: "k".into(),
        fence,
        until_ms: 100,
        pid: 7,
    };
    let restored = || Scene::new().knows(held(fence(1, 9))).knows(Seen::Restored);
    let (good, bad) = (restored().sees(held(fence(2, 3))), restored().sees(held(fence(1, 5))));
    check(no_silent_orphans, good, bad, "before the restore 1.9 was given");
    let released = |by| {
        let given = |scene: &mut Scene| scene.truth.learn(&Seen::LeaseGiven { key: "k".into() });
        let scene = with_lease("released", given).knows(held(fence(1, 2)));
        move |left: bool| {
            let left = left.then(|| Seen::LeaseLeft { session: s1(), key: "k".into() });
            let scene = left.into_iter().fold(scene, Scene::knows);
            scene.sees(Seen::Released { key: "k".into(), fence: by })
        }
    };
    let (good, bad) = (released(fence(1, 2))(false), released(fence(1, 1))(false));
    check(no_silent_orphans, good, bad, "k under 1.2 was released by a word about 1.1");
    let (late, bad) = (released(fence(1, 1))(true), released(fence(1, 1))(false));
    check(no_silent_orphans, late, bad, "k under 1.2 was released by a word about 1.1");
}

#[test]
fn a_mutating_lease_that_is_taken_from_the_living_is_named() {
    let expired = |dead: bool| {
        with_lease("held", |scene| {
            let mut lease = serde_json::to_value(&scene.durable.leases["k"]).unwrap();
            lease["state"] = json!("expired");
            lease["owner"]["process"] =
                json!({ "boot": "1", "pid_ns": 1, "pid": 7, "start_ticks": 7, "nonce": "n" });
            lease["history"] =
                json!([{ "at": WallTime(0), "event": "expired", "session": "local/s1", "note": "" }]);
            scene.durable.leases.insert("k".to_owned(), serde_json::from_value(lease).unwrap());
            if dead {
                scene.truth.learn(&Seen::ClientDied { pid: 7 });
            }
        })
    };
    check(no_silent_orphans, expired(true), expired(false), "which may be changing something");
}

/// A scene in which `k` is held by `local/s1` under 1.2, but for what is changed.
fn held(change: impl FnOnce(&mut Value)) -> Scene {
    let mut scene = Scene::new();
    (scene.truth.now_ms, scene.truth.step) = (10, 1);
    scene.now_held(0, change);
    scene
}

impl Scene {
    fn now_held(&mut self, step: u64, change: impl FnOnce(&mut Value)) {
        let mut lease = json!({
            "key": "k", "owner": { "session": "local/s1" }, "class": "mutating", "ttl_ms": 3_000, "nonce": "n",
            "deadline": { "boot": "1", "at_ms": UP_MS + 5 }, "state": "held", "fence": "1.2",
        });
        change(&mut lease);
        self.durable.lease_is("k", step, serde_json::from_value(lease).unwrap());
    }

    fn needs(self, session: &str, id: &str, fence: Option<Fence>) -> Self {
        self.call_of(name(session), id, WorkClass::Mutating, Some(Needed { key: "k".to_owned(), fence }))
    }
}

fn gets(call: &str) -> Seen {
    Seen::Received { call: call.into(), component: files(), decided: 0 }
}

#[test]
fn a_call_that_runs_without_its_lease_and_one_refused_with_it_are_named() {
    let rule = work_under_leases;
    let looks = || Seen::LeasesLookedAt { component: files() };
    let good = || held(|_| {}).needs("local/s1", "c", None).knows(looks()).sees(gets("c"));
    let bad =
        |change: fn(&mut Value)| held(change).needs("local/s1", "c", None).knows(looks()).sees(gets("c"));
    check(rule, good(), bad(|it| it["owner"]["session"] = json!("local/s2")), "local/s1 does not hold k");
    check(rule, good(), bad(|it| it["state"] = json!("orphaned")), "local/s1 does not hold k");
    check(rule, good(), bad(|it| it["class"] = json!("idempotent")), "local/s1 does not hold k");
    let fence = |revision| Some(Fence::new(tidegate_core::Epoch(1), Revision(revision)));
    let under = |fence| held(|_| {}).needs("local/s1", "c", fence).knows(looks()).sees(gets("c"));
    check(rule, under(fence(2)), under(fence(1)), "local/s1 does not hold k under 1.1");
    let lost = |at| {
        let mut scene = held(|_| {}).needs("local/s1", "c", None);
        scene.truth.step = at;
        scene = scene.knows(looks());
        scene.now_held(5, |it| it["state"] = json!("released"));
        scene.sees(gets("c"))
    };
    check(rule, lost(5), lost(6), "local/s1 does not hold k");
    let refused = |session: &str| {
        held(|_| {}).needs(session, "c", None).sees(refused("c", "lease_required", "ReacquireLease"))
    };
    check(rule, refused("local/s2"), refused("local/s1"), "for want of a lease, and local/s1 holds k");
    let granted = |at| {
        let mut scene = Scene::new();
        scene.truth.step = 3;
        scene = scene.needs("local/s1", "c", None);
        scene.now_held(at, |_| {});
        scene.sees(super::tests::refused("c", "lease_required", "ReacquireLease"))
    };
    check(rule, granted(3), granted(2), "for want of a lease, and local/s1 holds k");
}

#[test]
fn two_calls_under_one_lease_are_named_unless_the_first_has_let_go() {
    let rule = work_under_leases;
    let both = |seen: Option<Seen>, class: &str| {
        let mut scene =
            held(|it| it["class"] = json!(class)).needs("local/s1", "a", None).needs("local/s2", "b", None);
        scene = scene.knows(gets("a"));
        scene.truth.step = 5;
        scene.now_held(3, |it| it["owner"]["session"] = json!("local/s2"));
        let scene = seen.into_iter().fold(scene, Scene::knows);
        scene.knows(Seen::LeasesLookedAt { component: files() }).sees(gets("b"))
    };
    let expected = "b runs under k while a of local/s1 does";
    check(
        rule,
        both(Some(Seen::Finished { call: "a".into() }), "mutating"),
        both(None, "mutating"),
        expected,
    );
    check(
        rule,
        both(Some(Seen::LeaseGiven { key: "k".into() }), "mutating"),
        both(None, "mutating"),
        expected,
    );
    check(rule, both(None, "idempotent"), both(None, "mutating"), expected);
}

#[test]
fn a_refusal_that_says_the_wrong_thing_is_named() {
    let rule = resume_or_next_action;
    let scene = |seen| Scene::new().call("c", WorkClass::Mutating).sees(seen);
    let good = || scene(refused("c", "draining", "WaitForRestart"));
    check(
        rule,
        good(),
        scene(refused("c", "draining", "Continue")),
        "is refused (draining), and told Continue",
    );
    let read = || {
        let read = Seen::Received { call: "c".into(), component: files(), decided: 1 };
        Scene::new().call("c", WorkClass::Mutating).knows(read)
    };
    let bad = read().sees(refused("c", "outcome_unknown", "RetryCall"));
    check(rule, good(), bad, "c may have happened");
}

#[test]
fn a_gate_outside_the_scope_and_a_request_that_was_there_after_all_are_named() {
    let closed = |scope: Value| {
        let closed = Seen::GateClosed { component: files(), drain: name("d1") };
        Scene::new().operation("Draining", |o| o["scope"] = scope).sees(closed)
    };
    check(scoped, closed(json!(["files"])), closed(json!(["mail"])), "which is outside its scope");
    let nothing = |scene: Scene| scene.knows(Seen::ToldNothing { operation: op() });
    let (good, bad) = (nothing(Scene::new()), nothing(Scene::new().operation("Requested", |_| {})));
    check(no_chat_reconstruction, good, bad, "was told that op was not taken");
}

#[test]
fn a_refusal_without_a_next_action_and_an_unrecorded_unknown_outcome_are_named() {
    let rule = resume_or_next_action;
    let scene = |seen| Scene::new().call("c", WorkClass::Mutating).sees(seen);
    let good = || scene(refused("c", "draining", "WaitForRestart"));
    check(rule, good(), scene(refused("c", "draining", "")), "without a next action");
    check(rule, good(), scene(refused("c", "outcome_unknown", "VerifyThenRetry")), "that is not on record");
    let told = |action: &str| Seen::Resumed { session: s1(), action: action.into(), prompt: action.into() };
    check(rule, scene(told("Continue")), scene(told("")), "is told nothing");
    let left = |received: bool| {
        let scene = Scene::new().knows(Seen::DaemonStarted).call("c", WorkClass::Mutating);
        let received = received.then(|| Seen::Received { call: "c".into(), component: files(), decided: 0 });
        let scene = received.into_iter().fold(scene, Scene::knows);
        scene.knows(Seen::Left { call: "c".into() }).sees(told("Continue"))
    };
    check(rule, left(false), left(true), "may be running");
    let ended = |finished: bool| {
        let mut scene =
            Scene::new().knows(Seen::DaemonStarted).call("c", WorkClass::Mutating).knows(gets("c"));
        scene.truth.step = 1;
        let seen = finished.then(|| Seen::Finished { call: "c".into() });
        let scene = seen.into_iter().fold(scene.knows(Seen::Ending { session: s1() }), Scene::knows);
        scene.sees(Seen::Ended { session: s1() })
    };
    check(rule, ended(true), ended(false), "in the middle of c, and no operator is told");
}

impl Scene {
    fn incident(&mut self, kind: IncidentKind, dedup: &str) {
        let id = name("inc");
        let report = Report::new(kind, dedup, Severity::Warning, "it went wrong");
        let decided = decide_report(&View::default(), &report, &id, &NOW).unwrap();
        let record = &decided.txn.writes[&tidegate_incidents::key(&id)];
        let incident: Incident = serde_json::from_slice(record.as_ref().unwrap()).unwrap();
        self.durable.incidents.insert(id, incident);
    }
}

#[test]
fn a_failure_without_an_open_incident_is_named() {
    let rule = failed_drain_leaves_work;
    let scene = |incident: bool, resolved: bool| {
        let mut scene = Scene::new().operation("Refused", |o| {
            if incident {
                o["incident"] = json!("inc");
            }
        });
        scene.incident(IncidentKind::DrainRefused, "files");
        if resolved {
            let all = scene.durable.incidents.values_mut();
            all.for_each(|it| it.state = tidegate_incidents::IncidentState::Resolved);
        }
        scene
    };
    check(rule, scene(true, false), scene(false, false), "is Refused without an incident");
    check(rule, scene(true, false), scene(true, true), "0 incidents are open about it");
    let opened = |phase| {
        let opened = Seen::GateOpened { component: files(), drain: name("d1") };
        Scene::new().operation(phase, |_| {}).sees(opened)
    };
    check(rule, opened("Completed"), opened("Draining"), "opens while op is Draining");
    check(rule, opened("Completed"), opened("Refused"), "and there is no incident");
}

#[test]
fn a_refusal_where_nothing_is_the_matter_is_named() {
    let scene = || Scene::new().call("c", WorkClass::ReadOnly);
    let good = scene().knows(Seen::GateClosed { component: files(), drain: name("d1") }).sees(refused(
        "c",
        "draining",
        "RetryCall",
    ));
    let bad = scene().sees(refused("c", "draining", "RetryCall"));
    check(scoped, good, bad, "nothing was the matter with files");
}

#[test]
fn what_somebody_was_told_and_is_not_durable_is_named() {
    let told = |phase| Seen::Told { operation: op(), phase };
    let scene = || Scene::new().operation("Draining", |_| {});
    check(
        no_chat_reconstruction,
        scene().sees(told(Phase::Draining)),
        scene().sees(told(Phase::Completed)),
        "op is Completed",
    );
    check(no_chat_reconstruction, scene(), Scene::new().sees(told(Phase::Requested)), "it is not durable");
}

#[test]
fn a_component_that_its_old_server_keeps_from_starting_is_on_record_as_unavailable_or_named() {
    let scene = |state: ComponentState| {
        let mut scene = Scene::new();
        scene.incident(IncidentKind::TreeSurvived, "files");
        let record = Component { state, incident: Some(name("inc")), ..Component::new(files()) };
        scene.durable.components.insert(files(), record);
        scene
    };
    let rule = no_chat_reconstruction;
    let survived = || Seen::Survived { component: files() };
    let good = || scene(ComponentState::Unavailable).sees(survived());
    check(rule, good(), scene(ComponentState::Ready).sees(survived()), "on record as Ready");
    let mut unsaid = good();
    unsaid.durable.incidents.clear();
    check(rule, good(), unsaid, "an incident that is not durable");
    let refused = Seen::StateNotRecorded { component: files() };
    let excused = || scene(ComponentState::Ready).knows(refused.clone());
    let serves_since = excused().knows(Seen::Serving { component: files() });
    check(rule, excused().sees(survived()), serves_since.sees(survived()), "on record as Ready");
    let drained = || scene(ComponentState::Draining);
    let owned = drained().operation("Draining", |_| {});
    check(rule, owned.sees(survived()), drained().sees(survived()), "on record as Draining");
}

#[test]
fn a_call_that_happens_twice_or_is_answered_wrongly_is_named() {
    let rule = every_call_once;
    let committed = || Seen::Committed { call: "c".into() };
    let call = || Scene::new().call("c", WorkClass::Mutating);
    check(
        rule,
        call().sees(committed()),
        call().knows(committed()).sees(committed()),
        "takes effect 2 times",
    );
    let done = || call().knows(committed());
    check(
        rule,
        done().sees(answered("c", "c done")),
        call().sees(answered("c", "c done")),
        "no server has carried it out",
    );
    check(
        rule,
        done().sees(answered("c", "c done")),
        done().sees(answered("c", "d done")),
        "belongs to another",
    );
    let twice = done().knows(answered("c", "c done")).sees(answered("c", "c done"));
    check(rule, done().sees(answered("c", "c done")), twice, "answered 2 times");
    let read = || Seen::Received { call: "c".into(), component: files(), decided: 1 };
    let draining = || refused("c", "draining", "WaitForRestart");
    check(
        rule,
        call().sees(draining()),
        call().knows(read()).sees(draining()),
        "as if it had not reached the server",
    );
    check(rule, call().sees(read()), call().knows(draining()).sees(read()), "and reaches it");
    let started =
        |pid| Seen::Started { component: files(), generation: Generation(1), pid, launch: launch() };
    check(
        rule,
        Scene::new().sees(started(1)),
        Scene::new().knows(started(1)).sees(started(2)),
        "beside an older one",
    );
}
