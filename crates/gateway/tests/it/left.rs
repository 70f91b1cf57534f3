//! A client is gone in the middle of a write: whoever comes back in its session is told, and never simply to go on.

use serde_json::{Value, json};
use tidegate_suite::harness::{Client, Latch, Plan, Rig, eventually};

const OWN: &str = "trust_annotations = true\nsharing = \"per-session\"";

/// One component whose server all sessions share, and one with a server for each.
fn rig() -> Rig {
    Plan::new().fault("shared", &[]).fault_with("own", &[], OWN).start()
}

/// A write of the session `NAME`, whose client is killed in the middle of it.
fn left(rig: &Rig, component: &str, name: &str) -> Latch {
    let mut client = rig.connect(component, name);
    let latch = rig.server(component).latch(name);
    client.call("append", json!({ "text": name, "until_file": latch.path() }));
    rig.server(component).arrives(name);
    client.kill();
    eventually("the daemon has seen that", || next(rig, name) == "VerifyThenRetry");
    latch
}

fn next(rig: &Rig, session: &str) -> Value {
    rig.resume(session)["next_action"]["kind"].clone()
}

fn calls(rig: &Rig, session: &str) -> Vec<Value> {
    let resume = rig.resume(session);
    resume["facts"]["calls"].as_array().unwrap().iter().map(|call| call["state"].clone()).collect()
}

/// What a client that comes back is told, once.
fn told(rig: &Rig, session: &str) -> Value {
    rig.control(session).tool("session_resume", json!({}))["structuredContent"]["next_action"].clone()
}

#[test]
fn a_client_that_comes_back_is_told_to_look_while_its_write_runs_and_how_it_ended_afterwards() {
    let rig = rig();
    for component in ["shared", "own"] {
        let latch = left(&rig, component, component);
        assert_eq!(calls(&rig, component), ["detached"]);
        let again = rig.connect(component, component);
        let while_it_runs = told(&rig, component);
        assert_eq!(while_it_runs["kind"], "VerifyThenRetry");
        assert!(while_it_runs["prompt"].as_str().unwrap().contains("or may still be"), "{while_it_runs}");
        assert_eq!(rig.component(component)["in_flight"], 1);
        latch.open();
        eventually("the answer is on record", || calls(&rig, component).is_empty());
        let afterwards = told(&rig, component);
        assert_eq!(
            (&afterwards["kind"], &afterwards["answer"]),
            (&json!("VerifyThenRetry"), &json!("result"))
        );
        assert!(
            afterwards["prompt"].as_str().unwrap().contains("Do not make that call again"),
            "{afterwards}"
        );
        assert_eq!(told(&rig, component)["kind"], "Continue");
        drop(again);
        assert_eq!(rig.server(component).times(component), 1);
    }
    assert_eq!(rig.open_incidents(), Vec::<Value>::new(), "its session alone is concerned");
}

#[test]
fn when_the_server_or_the_daemon_dies_under_such_a_write_its_outcome_is_unknown() {
    let mut rig = rig();
    left(&rig, "shared", "s1");
    rig.server("shared").die();
    eventually("that is on record", || calls(&rig, "s1") == ["unknown"]);
    let latch = left(&rig, "shared", "s2");
    rig.kill();
    latch.open();
    rig.serve();
    for session in ["s1", "s2"] {
        assert_eq!(
            (next(&rig, session), calls(&rig, session)),
            (json!("VerifyThenRetry"), vec![json!("unknown")])
        );
        let its = |it: &Value| it["kind"] == "outcome_unknown" && it["session"] == format!("local/{session}");
        assert_eq!(rig.open_incidents().into_iter().filter(its).count(), 1);
    }
}

#[test]
fn a_session_that_is_ended_in_the_middle_of_a_write_leaves_an_incident_until_it_is_answered() {
    let rig = rig();
    for component in ["shared", "own"] {
        let mut client = rig.connect(component, component);
        let latch = rig.server(component).latch(component);
        let call = client.call("append", json!({ "text": component, "until_file": latch.path() }));
        rig.server(component).arrives(component);
        let ended = rig.ops(&["sessions", "end", component]).done();
        assert_eq!(ended["sessions"][0]["unanswered"][0]["state"], "detached", "{ended}");
        assert_eq!(client.refused(&call)["kind"], "outcome_unknown");
        let open = rig.open_incidents();
        assert_eq!(
            (open.len(), &open[0]["kind"], &open[0]["who_is_next"]),
            (1, &json!("outcome_unknown"), &json!("operator"))
        );
        let id = open[0]["id"].as_str().unwrap();
        latch.open();
        eventually("the answer settles it", || rig.open_incidents().is_empty());
        let settled = rig.local(&["incidents", "show", id]).done();
        let history = settled["incidents"][0]["history"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(history["note"], "the server answered the call with a result", "{settled}");
    }
}

#[test]
fn so_does_one_whose_client_was_dead_already() {
    let rig = rig();
    let latch = left(&rig, "shared", "s1");
    rig.ops(&["sessions", "end", "s1"]).done();
    let open = rig.open_incidents();
    assert_eq!((open.len(), &open[0]["who_is_next"]), (1, &json!("operator")));
    latch.open();
    eventually("the answer settles it", || rig.open_incidents().is_empty());
}

#[test]
fn whoever_takes_a_session_over_knows_of_the_write_that_it_was_in() {
    let rig = rig();
    let mut client = rig.connect_apart("shared", "s1");
    let latch = rig.server("shared").latch("w");
    let call = client.call("append", json!({ "text": "w", "until_file": latch.path() }));
    rig.server("shared").arrives("w");
    let mut command = rig.command(None);
    command.args(["connect", "shared", "--session", "s1", "--steal"]);
    let mut thief = Client::start("the thief", command);
    thief.handshake();
    assert_eq!((next(&rig, "s1"), calls(&rig, "s1")), (json!("VerifyThenRetry"), vec![json!("detached")]));
    assert_eq!(client.refused(&call)["kind"], "outcome_unknown");
    drop((thief, latch));
}
