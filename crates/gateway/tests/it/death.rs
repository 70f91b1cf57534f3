//! A server dies: what becomes of the calls, and how often they are executed. The ledger is the truth.

use serde_json::{Value, json};
use tidegate_suite::harness::{Client, Plan, Rig};

fn start_of(result: &Value) -> &Value {
    &result["structuredContent"]["start"]
}

#[test]
fn a_server_that_exits_in_a_call_ends_that_call_once_and_touches_no_other_component() {
    let rig = Plan::new().fault("files", &[]).fault("other", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let mut c2 = rig.connect("other", "c2");
    let server = rig.server("other").clone();
    let latch = server.latch("beside");
    let beside = c2.call("append", json!({ "text": "beside", "until_file": latch.path() }));
    server.arrives("beside");

    let call = c1.call("append", json!({ "text": "lost", "die": "before-commit" }));
    let refusal = c1.refused(&call);
    assert_eq!(
        (&refusal["kind"], &refusal["retryable"]),
        (&json!("outcome_unknown"), &json!(false)),
        "{refusal}"
    );
    assert_eq!(rig.server("files").times("lost"), 0);
    latch.open();
    assert_eq!(start_of(&c2.result(&beside)), 1);
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "next" }))), 2);
    assert_eq!(c1.unanswered(), []);
}

#[test]
fn a_mutating_call_that_was_committed_is_of_unknown_outcome_once_and_never_repeated() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let call = c1.call("append", json!({ "text": "paid", "die": "after-commit" }));
    let answer = c1.answer(&call);
    let refusal = tidegate_suite::harness::refusal(&answer).unwrap();
    assert_eq!(refusal["kind"], "outcome_unknown");
    assert_eq!(refusal["next_action"]["kind"], "VerifyThenRetry");
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        answer["result"]["content"][0]["text"], refusal["next_action"]["prompt"],
        "a model always sees what to do"
    );
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "next" }))), 2);
    assert_eq!(rig.server("files").executed(), ["paid", "next"]);
    let unknown = rig.open_incidents().into_iter().filter(|it| it["kind"] == "outcome_unknown").count();
    assert_eq!(unknown, 1);
}

fn read_dies_once(rig: &Rig, client: &mut Client) -> Value {
    // The call waits; its server is killed under it; the next one has the latch open.
    let server = rig.server("files");
    let latch = server.latch("read");
    let call = client.call("read", json!({ "text": "read", "key": "k", "until_file": latch.path() }));
    server.arrives("read");
    server.die();
    latch.open();
    client.answer(&call)
}

#[test]
fn a_read_only_call_of_a_trusted_server_is_replayed_once() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let answer = read_dies_once(&rig, &mut c1);
    assert_eq!(start_of(&answer["result"]), 2, "{answer}");
    assert_eq!(rig.server("files").arrived("read"), 2);

    // Once: when the next one dies under it too, that is the end.
    let call = c1.call("read", json!({ "text": "cursed", "key": "k", "die": "after-commit" }));
    let refusal = c1.refused(&call);
    assert_eq!(refusal["next_action"]["kind"], "RetryCall", "{refusal}");
    assert_eq!(rig.server("files").arrived("cursed"), 2);
}

#[test]
fn a_read_is_not_replayed_without_trust_with_contradictory_hints_or_for_its_name() {
    for (flags, settings) in [
        (&[][..], "trust_annotations = false"),
        (&["--annotations", "contradictory"][..], "trust_annotations = true"),
        (&["--annotations", "none"][..], "trust_annotations = true"),
    ] {
        let rig = Plan::new().fault_with("files", flags, settings).start();
        let mut c1 = rig.connect("files", "c1");
        let answer = read_dies_once(&rig, &mut c1);
        let refusal = tidegate_suite::harness::refusal(&answer)
            .unwrap_or_else(|| panic!("{flags:?} {settings}: {answer}"));
        assert_eq!(refusal["kind"], "outcome_unknown");
        assert_eq!(rig.server("files").arrived("read"), 1, "{flags:?} {settings}");
    }
}

#[test]
fn a_server_that_has_died_unnoticed_costs_the_next_call_nothing() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "first" }))), 1);
    rig.server("files").die();
    // At once: whether the gateway has noticed by now is a matter of luck, and must not matter.
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "second" }))), 2);
    assert_eq!(rig.server("files").executed(), ["first", "second"]);

    // The same, and the next one dies after it has committed: that is where it stops.
    rig.is_ready("files");
    rig.server("files").die();
    let call = c1.call("append", json!({ "text": "third", "die": "after-commit" }));
    assert_eq!(c1.refused(&call)["kind"], "outcome_unknown");
    assert_eq!(rig.server("files").times("third"), 1);
}

#[test]
fn a_request_between_a_death_and_the_next_start_waits_for_it() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let server = rig.server("files").clone();
    server.script(&["--start-delay-ms", "700"]);
    server.die();
    tidegate_suite::harness::eventually("the next one is starting", || server.starts().len() == 2);
    let calls: Vec<_> = (0..5).map(|n| c1.call("append", json!({ "text": format!("queued-{n}") }))).collect();
    for call in &calls {
        assert_eq!(start_of(&c1.result(call)), 2);
    }
    let executed = server.executed();
    assert_eq!(executed.len(), 5, "{executed:?}");
    assert_eq!(c1.unanswered(), []);
}

#[test]
fn an_ordinary_error_is_passed_through_and_restarts_nothing() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let call = c1.call("append", json!({ "text": "e", "error": { "code": -32042, "message": "no" } }));
    assert_eq!(c1.answer(&call)["error"], json!({ "code": -32042, "message": "no" }));
    let call = c1.call("append", json!({ "text": "e", "is_error": true }));
    assert_eq!(c1.answer(&call)["result"]["isError"], true);
    assert_eq!(rig.server("files").times("e"), 2);
    assert_eq!(rig.component("files")["generation"], 1);
}

#[test]
fn a_server_that_exits_in_its_handshake_is_told_with_what_it_said() {
    let rig =
        Plan::new().fault("files", &["--die-at", "initialize", "--die-message", "no licence found"]).start();
    let mut c1 = rig.shim("files", "c1");
    let answer = c1.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }));
    let refusal = &answer["error"]["data"];
    assert_eq!(
        (&answer["error"]["code"], &refusal["kind"]),
        (&json!(4507), &json!("unavailable")),
        "{answer}"
    );
    assert!(answer.to_string().contains("no licence found"), "{answer}");
    // It is tried again with pauses, not in a tight loop, and not given up.
    let starts = rig.server("files").starts().len();
    assert!((2..20).contains(&starts), "{starts} starts");
    let incidents = rig.open_incidents();
    assert!(
        incidents
            .iter()
            .any(|it| it["kind"] == "component_crashed" && it.to_string().contains("no licence found")),
        "{incidents:?}"
    );
    rig.server("files").script(&[]);
}

#[test]
fn a_server_that_recovers_serves_again_without_anybody_doing_anything() {
    let rig = Plan::new().fault("files", &["--die-at", "start:1-2"]).start();
    let mut c1 = rig.connect("files", "c1");
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "a" }))), 3);
}

#[test]
fn a_late_answer_to_a_cancelled_call_is_dropped() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let server = rig.server("files").clone();
    let latch = server.latch("late");
    let call = c1.call("append", json!({ "text": "late", "answer_until_file": latch.path() }));
    server.executes("late");
    c1.cancel(&call);
    tidegate_suite::harness::eventually("the cancellation arrives", || {
        server.received().iter().any(|it| it["message"]["method"] == "notifications/cancelled")
    });
    latch.open();
    tidegate_suite::harness::eventually("it is over", || rig.component("files")["in_flight"] == 0);
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "next" }))), 1);
    assert!(!c1.has_answered(&call), "the client has given it up");
}
