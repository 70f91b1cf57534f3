//! The state machine as tables: where an operation is, what happens to it, what comes of that.

use super::*;
use crate::{AskDigest, CallerKind, Effect, Generations, LaunchIdentity, effect_of};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::{BootId, Deadline, Entropy, Generation, WallTime, WorkClass};

struct One;
impl Entropy for One {
    fn bits(&self) -> u128 {
        1
    }
}

fn now() -> Now {
    Now { boot: BootId(1), boot_ms: 10_000, wall: WallTime(0) }
}

fn names(list: &[&str]) -> Vec<ComponentName> {
    list.iter().map(|name| name.parse().unwrap()).collect()
}

fn launches(command: &str) -> Launches {
    let launch = LaunchIdentity {
        command: command.to_owned(),
        args: Vec::new(),
        cwd: None,
        env: BTreeMap::new(),
        executable: command.to_owned(),
        executable_sha256: String::new(),
        settings: String::new(),
    };
    names(&["a", "b"]).into_iter().map(|name| (name, launch.clone())).collect()
}

/// A restart of `a` and `b` in this phase, as it is on the way there.
fn at(phase: Phase) -> Operation {
    let launches = launches("node");
    let drains = phase != Phase::Approved && phase != Phase::Requested;
    let deadline = Deadline { boot: BootId(1), at_ms: 60_000 };
    let started = matches!(phase, Phase::Starting | Phase::Verifying);
    let after = started.then_some(Generation(2));
    let scope = names(&["a", "b"]);
    Operation {
        id: "op".parse().unwrap(),
        phase,
        intent: Intent::Restart,
        generations: scope
            .iter()
            .map(|name| (name.clone(), Generations { before: Generation(1), after }))
            .collect(),
        pending: if phase.is_past_return() { scope.iter().cloned().collect() } else { BTreeSet::new() },
        scope,
        reason: "stale".to_owned(),
        requested_by: "ops".parse().unwrap(),
        requester: CallerKind::Operator,
        session: None,
        requested_at: WallTime(0),
        expires: deadline,
        digest: AskDigest::of(&launches, "stale"),
        launches,
        approvals_needed: 0,
        approvals: Vec::new(),
        break_glass: false,
        abandon_unsafe: false,
        abandoned: Vec::new(),
        upgrade: crate::Upgrade::default(),
        drain_deadline: Duration::from_secs(60),
        drain: drains.then(|| Drain { id: "drain".parse().unwrap(), deadline, began_ms: 0, settled_ms: 0 }),
        holders: Vec::new(),
        interrupted: Vec::new(),
        sessions: BTreeSet::new(),
        starts: u32::from(started),
        failing: BTreeMap::new(),
        failures: BTreeMap::new(),
        verified: BTreeMap::new(),
        incident: None,
        ended_at: None,
        reopened_at: None,
        note: String::new(),
        stamp: "before".to_owned(),
        extra: serde_json::Map::new(),
    }
}

fn join_text(join: &Join) -> String {
    match join {
        Join::EndDrain(End::Drained) => "drained".to_owned(),
        Join::EndDrain(End::Refused { .. }) => "refused".to_owned(),
        Join::EndDrain(End::Reopened { .. }) => "reopened".to_owned(),
        Join::Checkpoint(_) => "checkpoint".to_owned(),
        Join::Incident(trouble) => format!("incident {trouble:?}"),
        Join::Dead(names) => format!("dead {}", list(names)),
        Join::State(names, state) => format!("{} {}", list(names), format!("{state:?}").to_lowercase()),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a ComponentName>) -> String {
    names.into_iter().map(ComponentName::as_str).collect::<Vec<_>>().join("+")
}

fn effect_text(effect: &Effect) -> String {
    match effect {
        Effect::Drain { .. } => "drain".to_owned(),
        Effect::Stop(names) => format!("stop {}", list(names)),
        Effect::Start(launches) => format!("start {}", list(launches.iter().map(|(name, ..)| name))),
        Effect::Verify(names) => format!("verify {}", list(names)),
        Effect::Reopen { resumed, unavailable, .. } => {
            let resumed = list(resumed.iter().map(|r| &r.component));
            let unavailable = list(unavailable.iter().map(|(name, _)| name));
            format!("reopen, resumed {resumed:?}, unavailable {unavailable:?}")
        }
        other => format!("{other:?}").to_lowercase(),
    }
}

/// `PHASE: what is written with it -> what to do then`, or `nothing`.
#[track_caller]
fn check(operation: &Operation, event: &Event, expected: &str) -> Operation {
    let stamp = Stamp::fresh(&One);
    let Some(step) = step(operation, event, &now(), &stamp) else {
        assert_eq!("nothing", expected, "{event:?}");
        return operation.clone();
    };
    let joins: Vec<String> = step.joins.iter().map(join_text).collect();
    let mut then = step.operation.clone();
    if joins.iter().any(|join| join.starts_with("incident")) {
        then.incident = Some("inc".parse().unwrap());
    }
    let got = format!("{}: {} -> {}", then.phase, joins.join(", "), effect_text(&effect_of(&then)));
    assert_eq!(got, expected);
    assert!(then.stamp == stamp, "what is written carries the stamp of the write");
    then
}

fn identified(command: &str) -> Event {
    Event::Identified {
        current: launches(command),
        previous: Launches::new(),
        drain: "drain".parse().unwrap(),
    }
}

fn holder(class: WorkClass) -> Holder {
    Holder {
        session: "local/s1".parse().unwrap(),
        component: "a".parse().unwrap(),
        tool: "t".into(),
        class,
        age_ms: 1,
        detached: false,
        abandoned: false,
    }
}

fn results<T: Clone>(ok: &[&str], value: T, bad: &[&str]) -> BTreeMap<ComponentName, Result<T, String>> {
    let ok = names(ok).into_iter().map(|name| (name, Ok(value.clone())));
    ok.chain(names(bad).into_iter().map(|name| (name, Err("it said no".to_owned())))).collect()
}

fn stopped(ok: &[&str], bad: &[&str]) -> Event {
    Event::Stopped(results(ok, (), bad))
}

fn started(ok: &[&str], bad: &[&str]) -> Event {
    Event::Started(results(ok, (), bad))
}

fn verified(ok: &[&str], bad: &[&str]) -> Event {
    Event::Verified(results(ok, Verified::default(), bad))
}

#[test]
fn an_approved_operation_begins_if_it_still_is_what_was_approved() {
    let approved = at(Phase::Approved);
    check(&approved, &identified("node"), "Draining: begindrain, a+b draining -> drain");
    check(&approved, &identified("bun"), "Expired: release -> none");
    let late = Operation { expires: Deadline { boot: BootId(1), at_ms: 10_000 }, ..approved.clone() };
    check(&late, &identified("node"), "Expired: release -> none");
    let other_boot = Operation { expires: Deadline { boot: BootId(0), at_ms: u64::MAX }, ..approved };
    check(&other_boot, &identified("node"), "Expired: release -> none");
}

#[test]
fn a_drain_ends_in_exactly_one_way() {
    let draining = at(Phase::Draining);
    let verdict = |verdict| Event::Drained(verdict);
    let read_only = vec![holder(WorkClass::ReadOnly)];
    check(&draining, &verdict(Verdict::Drained { read_only: vec![] }), "Checkpointing: drained -> gather");
    check(&draining, &verdict(Verdict::Drained { read_only }), "Checkpointing: drained -> gather");
    check(&draining, &verdict(Verdict::Wait), "nothing");
    let refused = check(
        &draining,
        &verdict(Verdict::Refused {
            holders: vec![holder(WorkClass::ReadOnly), holder(WorkClass::Mutating)],
        }),
        "Refused: incident Refused, refused, restore -> reopen, resumed \"\", unavailable \"\"",
    );
    assert!(refused.note.contains("1 unsafe call(s)"), "{}", refused.note);
    check(
        &draining,
        &Event::NotClosed("it is another's".to_owned()),
        "Failed: incident NotClosed, reopened, restore -> reopen, resumed \"\", unavailable \"\"",
    );
}

#[test]
fn the_checkpoint_is_durable_with_the_phase_that_stops_servers() {
    check(
        &at(Phase::Checkpointing),
        &Event::Gathered(vec![]),
        "Stopping: checkpoint, settleleases, a+b stopping -> stop a+b",
    );
}

#[test]
fn servers_are_stopped_started_and_verified() {
    let starting = check(
        &at(Phase::Stopping),
        &stopped(&["a", "b"], &[]),
        "Starting: dead a+b, begingenerations -> start ",
    );
    assert_eq!(starting.starts, 1, "the generations are filled in by the commit");
    check(&at(Phase::Starting), &started(&["a", "b"], &[]), "Verifying: a+b verifying -> verify a+b");
    check(
        &at(Phase::Verifying),
        &verified(&["a", "b"], &[]),
        "Completed: reopened, restore, settleleases, tell -> reopen, resumed \"a+b\", unavailable \"\"",
    );
}

#[test]
fn what_fails_once_is_stopped_and_started_once_more() {
    let one = check(&at(Phase::Starting), &started(&["a"], &["b"]), "Verifying: a verifying -> verify a");
    let again = check(&one, &verified(&["a"], &[]), "Stopping: b stopping -> stop b");
    let second = check(&again, &stopped(&["b"], &[]), "Starting: dead b, begingenerations -> start b");
    assert_eq!(second.starts, 2);
    let none = check(&at(Phase::Starting), &started(&[], &["a", "b"]), "Stopping: a+b stopping -> stop a+b");
    check(&none, &stopped(&["a", "b"], &[]), "Starting: dead a+b, begingenerations -> start a+b");
    let last = check(&second, &started(&[], &["b"]), "Stopping: b stopping -> stop b");
    check(
        &last,
        &stopped(&["b"], &[]),
        "Failed: dead b, incident NotRestarted, reopened, restore, settleleases, tell -> reopen, resumed \"a\", unavailable \"b\"",
    );
}

/// An upgrade of `a`, with `b` in the same operation.
fn upgrade(phase: Phase) -> Operation {
    let change = crate::Change::Command(crate::Replacement {
        command: vec!["bun".to_owned()],
        instead_of: vec!["node".to_owned()],
    });
    let changes = BTreeMap::from([("a".parse().unwrap(), change)]);
    let upgrade = crate::Upgrade { changes, previous: launches("old"), ..crate::Upgrade::default() };
    Operation { upgrade, ..at(phase) }
}

fn started_with(operation: &Operation) -> Vec<String> {
    let Effect::Start(launches) = effect_of(operation) else { return Vec::new() };
    launches.into_iter().map(|(name, _, launch)| format!("{name}={}", launch.command)).collect()
}

#[test]
fn what_was_started_before_an_upgrade_is_remembered_when_it_begins() {
    let previous = launches("old");
    let event = Event::Identified {
        current: launches("node"),
        previous: previous.clone(),
        drain: "d".parse().unwrap(),
    };
    let begun = check(&at(Phase::Approved), &event, "Draining: begindrain, a+b draining -> drain");
    assert_eq!(begun.upgrade.previous, previous);
}

#[test]
fn an_upgrade_that_fails_goes_back_as_a_whole_and_at_once() {
    assert_eq!(started_with(&upgrade(Phase::Starting)), ["a=node", "b=node"]);
    let failed =
        check(&upgrade(Phase::Verifying), &verified(&["b"], &["a"]), "Stopping: a+b stopping -> stop a+b");
    let back =
        check(&failed, &stopped(&["a", "b"], &[]), "Starting: dead a+b, begingenerations -> start a+b");
    assert_eq!(started_with(&back), ["a=old", "b=old"]);
    let verifying = check(&back, &started(&["a", "b"], &[]), "Verifying: a+b verifying -> verify a+b");
    let ended = check(
        &verifying,
        &verified(&["a", "b"], &[]),
        "RolledBack: incident RolledBack, reopened, restore, settleleases, tell -> reopen, resumed \"a+b\", unavailable \"\"",
    );
    assert_eq!(ended.upgrade.rejected.len(), 1, "{:?}", ended.upgrade.rejected);
}

#[test]
fn a_way_back_that_fails_is_a_failure_and_one_that_is_interrupted_is_gone_on_with() {
    let rejected = BTreeMap::from([("a".parse().unwrap(), "it said no".to_owned())]);
    let mut back = upgrade(Phase::Verifying);
    (back.upgrade.rejected, back.starts) = (rejected, MAX_STARTS);
    let stopping = check(&back, &verified(&["b"], &["a"]), "Stopping: a stopping -> stop a");
    check(
        &stopping,
        &stopped(&["a"], &[]),
        "Failed: dead a, incident NotRestarted, reopened, restore, settleleases, tell -> reopen, resumed \"b\", unavailable \"a\"",
    );
    let again = check(&back, &Event::Interrupted, "Stopping: a+b stopping -> stop a+b");
    let starting =
        check(&again, &stopped(&["a", "b"], &[]), "Starting: dead a+b, begingenerations -> start a+b");
    assert_eq!(started_with(&starting), ["a=old", "b=old"]);
}

#[test]
fn unsafe_calls_are_cut_at_the_deadline_only_where_an_operator_has_said_so() {
    let verdict = Event::Drained(Verdict::Refused {
        holders: vec![holder(WorkClass::ReadOnly), holder(WorkClass::Mutating)],
    });
    let operation = Operation { break_glass: true, abandon_unsafe: true, ..at(Phase::Draining) };
    let cut = check(&operation, &verdict, "Checkpointing: incident Abandoned, drained -> gather");
    assert_eq!((cut.abandoned.len(), cut.interrupted.len(), cut.holders.len()), (1, 1, 0));
}

#[test]
fn whether_the_version_really_changed_is_said() {
    let outcome = |before: Option<&str>, after: Option<&str>| {
        let seen = Verified {
            version: after.map(str::to_owned),
            previous_version: before.map(str::to_owned),
            ..Verified::default()
        };
        upgrade(Phase::Verifying).upgrade.outcome(&BTreeMap::from([("a".parse().unwrap(), seen)]))
    };
    assert_eq!(outcome(Some("1.0"), Some("1.1")), "a went from version 1.0 to 1.1");
    assert!(outcome(Some("1.0"), Some("1.0")).contains("this was no upgrade"));
    assert!(outcome(None, Some("1.0")).contains("not known"));
    assert!(outcome(Some("1.0"), None).contains("does not state"));
}

#[test]
fn a_server_that_can_not_be_proved_dead_is_given_up_and_the_others_go_on() {
    let stopping = at(Phase::Stopping);
    let one = check(&stopping, &stopped(&["a"], &["b"]), "Starting: dead a, begingenerations -> start ");
    assert_eq!(list(&one.pending), "a");
    check(
        &stopping,
        &stopped(&[], &["a", "b"]),
        "Failed: dead , incident NotRestarted, reopened, restore, settleleases, tell -> reopen, resumed \"\", unavailable \"a+b\"",
    );
}

#[test]
fn a_shutdown_starts_nothing_and_opens_nothing() {
    let shutdown = Operation { intent: Intent::Shutdown, ..at(Phase::Stopping) };
    check(
        &shutdown,
        &stopped(&["a", "b"], &[]),
        "Completed: dead a+b, reopened, restore, settleleases, tell, release -> none",
    );
    check(
        &shutdown,
        &stopped(&["a"], &["b"]),
        "Failed: dead a, incident NotRestarted, reopened, restore, settleleases, tell, release -> none",
    );
}

#[test]
fn an_interruption_undoes_until_servers_are_stopped_and_carries_on_from_there() {
    let undone = "Failed: incident Interrupted, reopened, restore -> reopen, resumed \"\", unavailable \"\"";
    for (phase, expected) in [
        (Phase::Requested, "nothing"),
        (Phase::Approved, "Failed: incident Interrupted, release -> none"),
        (Phase::Draining, undone),
        (Phase::Checkpointing, undone),
        (Phase::Stopping, "Stopping: a+b stopping -> stop a+b"),
        (Phase::Starting, "Stopping: a+b stopping -> stop a+b"),
        (Phase::Verifying, "Stopping: a+b stopping -> stop a+b"),
        (Phase::Completed, "nothing"),
        (Phase::Failed, "nothing"),
    ] {
        check(&at(phase), &Event::Interrupted, expected);
    }
}

#[test]
fn an_interrupted_attempt_does_not_count_and_there_is_always_one_more() {
    for (phase, before, after) in [
        (Phase::Stopping, 0, 0),
        (Phase::Stopping, 1, 1),
        (Phase::Stopping, 2, 1),
        (Phase::Starting, 1, 0),
        (Phase::Starting, 2, 1),
        (Phase::Verifying, 2, 1),
    ] {
        let operation = Operation { starts: before, ..at(phase) };
        let next = check(&operation, &Event::Interrupted, "Stopping: a+b stopping -> stop a+b");
        assert_eq!(next.starts, after, "{phase} {before}");
    }
    let given_up = BTreeMap::from([("b".parse().unwrap(), "pid 9 is still there".to_owned())]);
    let operation = Operation { failures: given_up, ..at(Phase::Starting) };
    check(&operation, &Event::Interrupted, "Stopping: a stopping -> stop a");
}

#[test]
fn what_was_verified_before_an_interruption_is_verified_again_or_given_up() {
    let half = BTreeMap::from([("a".parse().unwrap(), Verified::default())]);
    let interrupted = Operation { verified: half, starts: 2, ..at(Phase::Verifying) };
    let again = check(&interrupted, &Event::Interrupted, "Stopping: a+b stopping -> stop a+b");
    let starting = check(&again, &stopped(&["b"], &["a"]), "Starting: dead b, begingenerations -> start b");
    let verifying = check(&starting, &started(&["b"], &[]), "Verifying: b verifying -> verify b");
    check(
        &verifying,
        &verified(&["b"], &[]),
        "Failed: incident NotRestarted, reopened, restore, settleleases, tell -> reopen, resumed \"b\", unavailable \"a\"",
    );
}

#[test]
fn the_components_are_given_up_once_the_gates_are_open() {
    for phase in [Phase::Completed, Phase::Refused, Phase::Cancelled, Phase::Failed] {
        let ended = at(phase);
        let over = check(&ended, &Event::Reopened, &format!("{phase}: release -> none"));
        check(&over, &Event::Reopened, "nothing");
    }
}

#[test]
fn an_event_out_of_place_changes_nothing() {
    let events =
        [Event::Changed, Event::Reopened, stopped(&["a"], &[]), started(&["a"], &[]), verified(&["a"], &[])];
    for phase in [Phase::Requested, Phase::Approved, Phase::Draining, Phase::Checkpointing] {
        for event in &events {
            check(&at(phase), event, "nothing");
        }
    }
    check(&at(Phase::Stopping), &started(&["a"], &[]), "nothing");
    check(&at(Phase::Starting), &verified(&["a"], &[]), "nothing");
    check(&at(Phase::Verifying), &stopped(&["a"], &[]), "nothing");
    check(&at(Phase::Cancelled), &Event::Drained(Verdict::Drained { read_only: vec![] }), "nothing");
}

#[test]
fn cancelling_reopens_what_was_closed() {
    let by = Caller::operator("ops".parse().unwrap());
    for (phase, expected) in
        [(Phase::Requested, "release"), (Phase::Approved, "release"), (Phase::Draining, "reopened, restore")]
    {
        let step = cancel(&at(phase), &by, &now(), &Stamp::fresh(&One));
        let joins: Vec<String> = step.joins.iter().map(join_text).collect();
        assert_eq!((step.operation.phase, joins.join(", ").as_str()), (Phase::Cancelled, expected));
    }
}
