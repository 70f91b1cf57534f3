//! The texts that people read at three in the morning, from documents as the daemon makes them.

use super::text::{ago, duration, when};
use super::*;
use insta::assert_snapshot;
use serde_json::json;

/// The time at which everything here is read.
const NOW: &str = "2026-03-01T03:00:00.000Z";

fn now() -> WallTime {
    NOW.parse().unwrap()
}

#[test]
fn durations_are_told_in_the_two_units_that_matter() {
    #[track_caller]
    fn check(ms: u64, expected: &str) {
        assert_eq!(duration(&json!(ms)), expected);
    }
    check(0, "0 ms");
    check(999, "999 ms");
    check(1_000, "1.0 s");
    check(59_999, "59.9 s");
    check(250_000, "4 min 10 s");
    check(3_600_000, "1 h 0 min");
    check(90_000_000, "1 d 1 h");
    assert_eq!(duration(&Value::Null), "-");
}

#[test]
fn times_are_told_to_the_second_and_as_an_age() {
    #[track_caller]
    fn check(time: &str, expected: &str) {
        assert_eq!(ago(&json!(time), now()), expected);
    }
    check("2026-03-01T02:59:59.500Z", "now");
    check("2026-03-01T02:59:48.000Z", "12 s ago");
    check("2026-03-01T02:00:01.000Z", "59 min ago");
    check("2026-02-28T03:30:00.000Z", "23 h ago");
    check("2026-01-01T00:00:00.000Z", "59 d ago");
    check("2026-03-01T03:00:01.000Z", "2026-03-01T03:00:01.000Z");
    check("not a time", "not a time");
    assert_eq!(when(&json!("2026-03-01T02:56:59.900Z"), now()), "2026-03-01 02:56:59Z (3 min ago)");
}

fn holder() -> Value {
    json!({
        "session": "s1", "component": "files", "tool": "write_file", "class": "mutating", "age_ms": 12_300, "detached": true,
    })
}

#[test]
fn a_line_of_restart_wait_says_whose_call_it_is_and_how_long_it_has() {
    assert_eq!(progress(&json!({ "phase": "Draining" })), "Draining");
    assert_eq!(
        progress(&json!({ "holder": holder(), "drain_ends_in_ms": 47_700 })),
        "waiting for s1: write_file on files (mutating), running for 12.3 s, its caller is gone; 47.7 s until the deadline"
    );
    let mut safe = holder();
    safe["detached"] = false.into();
    assert_eq!(
        progress(&json!({ "holder": safe, "drain_ends_in_ms": null })),
        "waiting for s1: write_file on files (mutating), running for 12.3 s"
    );
}

fn an_operation(phase: &str) -> Value {
    json!({
        "id": "op-1", "phase": phase, "scope": ["files", "search"], "reason": "stale", "requested_by": "local", "session": "s2",
        "requested_at": "2026-03-01T02:58:00.000Z", "approvals": [], "approvals_needed": 1, "break_glass": false,
        "holders": [], "incident": null, "expires_in_ms": null, "drain_ends_in_ms": null, "failures": {}, "note": "",
        "ended_at": null, "generations": { "files": { "before": 1, "after": null } },
    })
}

#[test]
fn an_operation_always_says_what_to_type_next() {
    #[track_caller]
    fn check(phase: &str, expected: &str) {
        let mut op = an_operation(phase);
        op["incident"] = json!("inc-1");
        let text = operation(&json!({ "operation": op }), now());
        let next = text.lines().find_map(|line| line.strip_prefix("next          "));
        assert_eq!(next.unwrap_or_default(), expected, "{text}");
    }
    check("Requested", "an approver runs: tidegate restart approve op-1 --token-file FILE");
    check("Approved", "tidegate restart wait op-1");
    check("Draining", "tidegate restart wait op-1");
    check("Verifying", "tidegate restart wait op-1");
    check("Completed", "");
    for phase in ["Refused", "RolledBack", "Failed"] {
        check(phase, "tidegate incidents show inc-1");
    }
    for phase in ["Denied", "Expired", "Cancelled"] {
        check(phase, "to ask again: tidegate restart request files search --reason TEXT");
    }
    let mut takeover = an_operation("Denied");
    takeover["intent"] = json!("takeover");
    let text = operation(&json!({ "operation": takeover }), now());
    assert!(text.ends_with("next          to ask again: tidegate serve --takeover\n"), "{text}");
}

#[test]
fn a_request_shows_what_it_lacks_and_a_refusal_who_held_it_up() {
    let mut requested = an_operation("Requested");
    requested["expires_in_ms"] = json!(780_000);
    assert_snapshot!(operation(&json!({ "operation": requested }), now()), @r"
    op-1  Requested
    scope         files, search
    reason        stale
    requested by  local, session s2, 2026-03-01 02:58:00Z (2 min ago)
    approvals     0 of 1
    expires in    13 min 0 s
    generation    files: 1
    next          an approver runs: tidegate restart approve op-1 --token-file FILE
    ");
    let mut refused = an_operation("Refused");
    refused["approvals"] = json!([{ "principal": "ops", "at": "2026-03-01T02:58:30.000Z" }]);
    refused["holders"] = json!([holder()]);
    refused["incident"] = json!("inc-1");
    refused["ended_at"] = json!("2026-03-01T02:59:30.000Z");
    refused["note"] = json!("the deadline passed");
    assert_snapshot!("a_refused_operation", operation(&json!({ "operation": refused }), now()));
}

fn an_incident() -> Value {
    json!({
        "id": "inc-1", "kind": "component_crashed", "state": "acknowledged", "severity": "critical", "title": "search exited with status 3",
        "scope": "search", "operation": null, "session": null, "count": 4, "flapping": true,
        "first_seen": "2026-03-01T02:00:00.000Z", "last_seen": "2026-03-01T02:59:00.000Z", "who_is_next": "operator",
        "next_action": { "kind": "ContactOperator", "prompt": "…" }, "next_prompt": "Repair it.",
        "evidence": { "exit": "3", "stderr": "one\ntwo\n" },
        "history": [
            { "at": "2026-03-01T02:00:00.000Z", "step": "opened", "by": "tidegate" },
            { "at": "2026-03-01T02:30:00.000Z", "step": "acknowledged", "by": { "operator": "ops" } },
        ],
    })
}

#[test]
fn an_incident_is_told_with_its_evidence_and_its_end() {
    assert_snapshot!(incident(&json!({ "incidents": [an_incident()] }), now()));
}

#[test]
fn status_says_that_nothing_needs_anybody() {
    let doc = json!({ "components": [], "sessions": [], "leases": [], "operations": [], "incidents": [] });
    assert_snapshot!(plain(&status(&doc, now())), @r"
    Nothing needs you.

    There are no components, no sessions, no leases, no operations, no open incidents.
    ");
}

#[test]
fn status_says_first_what_needs_somebody_the_worst_before_the_rest() {
    let mut requested = an_operation("Requested");
    requested["expires_in_ms"] = json!(780_000);
    let mut draining = an_operation("Draining");
    draining["id"] = json!("op-2");
    draining["holders"] = json!([holder()]);
    draining["drain_ends_in_ms"] = json!(47_700);
    let component = |name: &str, state: &str, said: &str| {
        json!({
            "name": name, "state": state, "generation": 2, "pid": null, "in_flight": 1, "held": 0, "restarts": 1,
            "last_stderr": said, "incident": null,
        })
    };
    let mut lesser = an_incident();
    lesser["id"] = json!("inc-0");
    lesser["severity"] = json!("warning");
    lesser["title"] = json!("the outcome of write_file on files is unknown");
    lesser["scope"] = json!("files");
    lesser["session"] = json!("local/s1");
    lesser["who_is_next"] = json!("session");
    let doc = json!({
        "components": [
            component("files", "draining", ""),
            component("search", "unavailable", "0\n1\nconnecting\nrefused\n"),
            component("web", "unavailable", ""),
        ],
        "sessions": [
            { "name": "s1", "principal": "local", "streams": 1, "attached": true, "updated_at": NOW, "ended": null,
              "next_action": { "kind": "Continue" } },
            { "name": "s2", "principal": "local", "streams": 0, "attached": false, "updated_at": NOW, "ended": null,
              "next_action": { "kind": "VerifyThenRetry" } },
        ],
        "leases": [
            { "key": "repo/main", "session": "s9", "fence": "1.20", "class": "mutating", "expires_in_ms": 0, "state": "orphaned" },
        ],
        "operations": [requested, draining],
        "incidents": [lesser, an_incident()],
    });
    assert_snapshot!(plain(&status(&doc, now())));
}

#[test]
fn a_session_reads_its_next_action_first_and_each_action_once() {
    let doc = json!({
        "session": "s1",
        "next_action": { "kind": "VerifyThenRetry", "prompt": "Check it." },
        "facts": {
            "pending": [{ "prompt": "Set it up." }, { "prompt": "Check it." }],
            "generations": { "files": 3 }, "leases": ["repo/main"], "ended": null,
            "calls": [{ "tool": "write_file", "component": "files", "class": "mutating", "state": "unknown" }],
            "notes": [{ "text": "half done", "at": "2026-03-01T02:00:00.000Z" }],
        },
    });
    assert_snapshot!(resume(&doc, now()), @r"
    s1: Check it.
    then          Set it up.
    generation    files: 3 when this was recorded
    lease         repo/main
    call          write_file on files (mutating): unknown
    note          half done (1 h ago)
    ");
}

#[test]
fn an_orphaned_lease_says_how_it_is_given_to_somebody() {
    let doc = json!({ "lease": {
        "key": "repo/main", "session": "s1", "principal": "local", "fence": "1.20", "class": "mutating", "expires_in_ms": 0,
        "state": "orphaned",
        "history": [{ "at": "2026-03-01T02:00:00.000Z", "event": "granted", "session": "local/s1" }],
    } });
    assert_snapshot!(lease(&doc, now()), @r"
    repo/main  orphaned
    session       s1 of local
    class         mutating
    fence         1.20
    history       1 h ago  granted, local/s1
    next          look at what it protects, then an operator runs: tidegate leases adopt repo/main --session NAME
    ");
}

#[test]
fn nobody_writes_a_second_row_into_a_table() {
    let forged = json!({ "operations": [{ "id": "op-1", "reason": "x\nop-2  Requested  harmless" }] });
    let text = operations(&forged, now());
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains(r"x\nop-2"), "{text}");
}
