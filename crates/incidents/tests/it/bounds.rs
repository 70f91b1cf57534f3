//! Nothing grows without an end.

use crate::fixture::{World, actor, crashed, wait};
use tidegate_incidents::{
    IncidentKind, MAX_DEDUP_BYTES, MAX_EVIDENCE, MAX_EVIDENCE_BYTES, MAX_EVIDENCE_NAME_BYTES, MAX_HISTORY,
    MAX_INCIDENTS, MAX_INPUT_BYTES, MAX_PROMPT_BYTES, MAX_RECENT_REPORTS, MAX_TITLE_BYTES, Outcome, Report,
    Severity, Step,
};

#[test]
fn a_report_without_measure_is_cut_to_measure() {
    let world = World::new();
    let long = "é\n".repeat(MAX_INPUT_BYTES);
    let mut report = Report::new(IncidentKind::StartFailed, long.clone(), Severity::Info, long.clone());
    report.next_prompt = Some(long.clone());
    for n in 0..2 * MAX_EVIDENCE {
        report
            .evidence
            .insert(format!("{n}{}", "n".repeat(MAX_EVIDENCE_NAME_BYTES)), "é\n".repeat(MAX_EVIDENCE_BYTES));
    }
    let first = wait(world.incidents.report(&report)).unwrap();
    assert_eq!(
        wait(world.incidents.report(&report)).unwrap().id,
        first.id,
        "a cut dedup key is the same again"
    );
    let incident = wait(world.incidents.get(&first.id)).unwrap();
    assert!(incident.dedup.len() <= MAX_DEDUP_BYTES);
    assert!(incident.title.len() <= MAX_TITLE_BYTES && incident.title.ends_with('…'));
    assert!(incident.next_prompt.len() <= MAX_PROMPT_BYTES);
    assert_eq!(incident.evidence.len(), MAX_EVIDENCE);
    for (name, value) in &incident.evidence {
        assert!(name.len() <= MAX_EVIDENCE_NAME_BYTES && value.len() <= MAX_EVIDENCE_BYTES);
    }
}

#[test]
fn a_secret_that_would_be_cut_in_half_is_taken_out_first() {
    let world = World::new();
    let padding = "x ".repeat(MAX_EVIDENCE_BYTES / 2 - 10);
    let report =
        crashed("files").evidence("stderr", format!("{padding}password=hunter2hunter2hunter2hunter2"));
    let id = wait(world.incidents.report(&report)).unwrap().id;
    let incident = wait(world.incidents.get(&id)).unwrap();
    assert!(!incident.evidence["stderr"].contains("hunter"), "{}", incident.evidence["stderr"]);
}

#[test]
fn evidence_of_many_reports_stays_bounded_and_the_newest_word_counts() {
    let world = World::new();
    for n in 0..100 {
        let report = crashed("files").evidence("status", n.to_string()).evidence(format!("seen_{n:03}"), "1");
        wait(world.incidents.report(&report)).unwrap();
    }
    let incident = &wait(world.incidents.list()).unwrap()[0];
    assert_eq!(incident.evidence.len(), MAX_EVIDENCE);
    assert_eq!(incident.evidence["status"], "99");
    assert_eq!(incident.count, 100);
    assert_eq!(incident.recent_reports.len(), MAX_RECENT_REPORTS);
}

#[test]
fn a_long_history_keeps_its_beginning_and_its_end() {
    let world = World::new();
    for _ in 0..100 {
        let id = wait(world.incidents.report(&crashed("files"))).unwrap().id;
        wait(world.incidents.resolve(&id, &actor("ops"), "")).unwrap();
    }
    let incident = &wait(world.incidents.list()).unwrap()[0];
    assert_eq!(incident.history.len(), MAX_HISTORY);
    assert!(incident.history_dropped > 0);
    assert_eq!(incident.history[0].step, Step::Opened);
    assert_eq!(incident.history[MAX_HISTORY - 1].step, Step::Resolved);
    assert_eq!(incident.count, 100);
}

#[test]
fn resolved_incidents_make_room_and_open_ones_are_never_dropped() {
    let world = World::new();
    let report = |n: usize| wait(world.incidents.report(&crashed(&format!("c{n}")))).unwrap();
    let ids: Vec<_> = (0..MAX_INCIDENTS).map(|n| report(n).id).collect();
    wait(world.incidents.resolve(&ids[7], &actor("ops"), "")).unwrap();

    assert_eq!(report(1_000).outcome, Outcome::Opened, "the resolved one made room");
    assert!(wait(world.incidents.get(&ids[7])).is_err());
    assert_eq!(wait(world.incidents.outbox()).unwrap().len(), MAX_INCIDENTS);

    let overflow = report(1_001);
    assert_eq!(report(1_002).id, overflow.id, "further ones are counted in one");
    let incident = wait(world.incidents.get(&overflow.id)).unwrap();
    assert_eq!((incident.kind, incident.count), (IncidentKind::TooManyIncidents, 2));
    assert_eq!(incident.evidence["last_dedup"], "c1002");
    for kept in ids.iter().enumerate().filter(|(n, _)| *n != 7).map(|(_, id)| id) {
        assert!(wait(world.incidents.get(kept)).unwrap().is_open());
    }
}
