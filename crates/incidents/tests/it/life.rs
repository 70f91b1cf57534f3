//! Acknowledged, resolved, reopened, flapping: beyond what the scenarios tell.

use crate::fixture::{World, actor, crashed, wait};
use std::time::Duration;
use tidegate_core::NextAction;
use tidegate_incidents::{
    FLAP_QUIET, FLAP_WINDOW, IncidentKind, IncidentState, Outcome, Report, Severity, Step, WhoIsNext,
};

const KIND: IncidentKind = IncidentKind::ComponentCrashed;

fn fail_and_recover(world: &World, times: u32, every: Duration) -> bool {
    let mut flapping = false;
    for _ in 0..times {
        flapping = wait(world.incidents.report(&crashed("files"))).unwrap().flapping;
        wait(world.incidents.recovered(KIND, "files", "it runs again")).unwrap();
        world.clock.advance_to(world.now().boot_ms + u64::try_from(every.as_millis()).unwrap());
    }
    flapping
}

#[test]
fn failing_now_and_then_is_not_flapping() {
    assert!(!fail_and_recover(&World::new(), 20, FLAP_WINDOW));
}

#[test]
fn failing_all_the_time_is_flapping_and_writes_no_news_for_each_time() {
    let world = World::new();
    assert!(fail_and_recover(&world, 4, Duration::from_secs(3)));
    let news = wait(world.incidents.outbox()).unwrap();
    assert!(fail_and_recover(&world, 16, Duration::from_secs(3)));
    assert_eq!(wait(world.incidents.outbox()).unwrap(), news);
    assert_eq!(news.len(), 1);
    assert_eq!(news[0].step, Step::Flapping);
}

#[test]
fn an_operator_resolves_what_flaps_and_it_flaps_again_when_it_goes_on() {
    let world = World::new();
    fail_and_recover(&world, 10, Duration::from_secs(3));
    let id = wait(world.incidents.list()).unwrap()[0].id.clone();
    let incident = wait(world.incidents.resolve(&id, &actor("ops"), "switched off")).unwrap();
    assert_eq!((incident.state, incident.flapping), (IncidentState::Resolved, false));
    let reported = wait(world.incidents.report(&crashed("files"))).unwrap();
    assert_eq!((reported.id, reported.outcome, reported.flapping), (id, Outcome::Reopened, true));
}

#[test]
fn what_flaps_is_not_quiet_while_it_still_fails() {
    let world = World::new();
    fail_and_recover(&world, 10, Duration::from_secs(3));
    wait(world.incidents.report(&crashed("files"))).unwrap();
    world.clock.advance_to(world.now().boot_ms + 10 * FLAP_QUIET.as_millis() as u64);
    assert!(wait(world.incidents.settle()).unwrap().is_empty(), "it has not recovered");
}

#[test]
fn what_has_recovered_does_not_recover_again() {
    let recovers_once = |failures| {
        let world = World::new();
        fail_and_recover(&world, failures, Duration::from_secs(3));
        let once = world.raw();
        let state = wait(world.incidents.recovered(KIND, "files", "it runs again")).unwrap();
        assert_eq!(world.raw(), once);
        state
    };
    assert_eq!(recovers_once(0), None);
    assert_eq!(recovers_once(1), Some(IncidentState::Resolved));
    assert_eq!(
        recovers_once(10),
        Some(IncidentState::Open),
        "it flaps, and the quiet began when it recovered first"
    );
}

#[test]
fn an_incident_says_what_its_last_report_said() {
    let world = World::new();
    let id = wait(world.incidents.report(&crashed("files"))).unwrap().id;
    world.clock.advance_to(5_000);
    let last = Report {
        title: "files ended with status 2".to_owned(),
        scope: Some("files".parse().unwrap()),
        operation: Some("op-2".parse().unwrap()),
        session: Some("local/s2".parse().unwrap()),
        ..crashed("files")
    };
    wait(world.incidents.report(&last)).unwrap();
    let incident = wait(world.incidents.get(&id)).unwrap();
    assert_eq!(incident.title, last.title);
    assert_eq!(
        (incident.scope, incident.operation, incident.session),
        (last.scope, last.operation, last.session)
    );
    assert_eq!(incident.last_seen, world.now().wall);
    assert!(incident.first_seen < incident.last_seen);
}

#[test]
fn an_acknowledged_incident_stays_acknowledged_when_it_is_reported_again_and_keeps_its_worst_severity() {
    let world = World::new();
    let id = wait(world.incidents.report(&crashed("files"))).unwrap().id;
    wait(world.incidents.acknowledge(&id, &actor("s1"), "")).unwrap();
    for severity in [Severity::Critical, Severity::Info] {
        let report = Report { severity, ..crashed("files") };
        wait(world.incidents.report(&report)).unwrap();
    }
    let incident = wait(world.incidents.get(&id)).unwrap();
    assert_eq!(incident.state, IncidentState::Acknowledged);
    assert_eq!(incident.severity, Severity::Critical);
    assert_eq!(incident.count, 3);
}

#[test]
fn a_resolved_incident_asks_nothing_of_anybody() {
    let world = World::new();
    let id = wait(world.incidents.report(&crashed("files"))).unwrap().id;
    let open = wait(world.incidents.get(&id)).unwrap();
    assert_eq!(open.who_is_next, WhoIsNext::Operator);
    assert_eq!(open.next_action, NextAction::ContactOperator { incident: Some(id.clone()) });
    let resolved = wait(world.incidents.resolve(&id, &actor("ops"), "")).unwrap();
    assert_eq!(resolved.who_is_next, WhoIsNext::Nobody);
    assert_eq!(resolved.next_action, NextAction::Continue);
}

#[test]
fn the_json_has_the_names_of_the_contract() {
    let world = World::new();
    let id = wait(world.incidents.report(&crashed("files").evidence("status", "1"))).unwrap().id;
    let json = wait(world.incidents.get(&id)).unwrap().to_json();
    for name in [
        "id",
        "kind",
        "state",
        "severity",
        "count",
        "first_seen",
        "last_seen",
        "who_is_next",
        "next_action",
        "next_prompt",
        "evidence",
    ] {
        assert!(!json[name].is_null(), "{name} is missing in {json}");
    }
    assert_eq!(json["kind"], "component_crashed");
    assert_eq!(json["state"], "open");
    assert_eq!(json["first_seen"], "2026-01-01T00:00:00.000Z");
    assert_eq!(json["next_action"]["kind"], "ContactOperator");
}

#[test]
fn spellings_read_back_and_a_wrong_one_names_the_right_ones() {
    for kind in IncidentKind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(*kind));
        assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\""));
    }
    let error = "mild".parse::<Severity>().unwrap_err();
    assert_eq!(error, "a severity is one of info, warning, critical; \"mild\" is not");
}

#[test]
fn fields_of_a_newer_version_survive_a_rewrite() {
    let world = World::new();
    let id = wait(world.incidents.report(&crashed("files"))).unwrap().id;
    let mut incident = serde_json::to_value(wait(world.incidents.get(&id)).unwrap()).unwrap();
    incident["ticket"] = "T-1".into();
    let txn = tidegate_store::Txn::new().put(&world.view(), &tidegate_incidents::key(&id), &incident);
    wait(tidegate_store::Store::commit(&world.store, txn)).unwrap();
    wait(world.incidents.report(&crashed("files"))).unwrap();
    wait(world.incidents.acknowledge(&id, &actor("s1"), "")).unwrap();
    assert!(world.raw().contains("\"ticket\":\"T-1\""), "{}", world.raw());
}
