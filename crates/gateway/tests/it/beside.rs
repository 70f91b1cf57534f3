//! What happens beside a restart, and processes that are stopped for a while: nobody else notices.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tidegate_suite::harness::{Plan, eventually};

fn start_of(result: &Value) -> &Value {
    &result["structuredContent"]["start"]
}

#[test]
fn a_session_that_comes_or_goes_during_a_restart_does_not_touch_the_others() {
    let rig = Plan::new().fault("files", &["--slow-exit-ms", "300", "--start-delay-ms", "300"]).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let leaves = rig.connect("files", "leaves");
    let server = rig.server("files").clone();
    let latch = server.latch("first");
    let first = c1.call("append", json!({ "text": "first", "until_file": latch.path() }));
    server.arrives("first");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let held = c2.call("append", json!({ "text": "held" }));
    rig.holds("files", 1);
    leaves.kill();
    let mut comes = rig.connect("files", "comes");
    let waits = comes.call("append", json!({ "text": "waits" }));
    rig.holds("files", 2);
    let mut turns_away = rig.connect("files", "turns-away");
    turns_away.call("append", json!({ "text": "turned away" }));
    rig.holds("files", 3);
    turns_away.kill();
    rig.holds("files", 2);

    latch.open();
    assert_eq!(start_of(&c1.result(&first)), 1);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(start_of(&c2.result(&held)), 2);
    assert_eq!(start_of(&comes.result(&waits)), 2);
    let mut executed = server.executed();
    executed.sort();
    assert_eq!(executed, ["first", "held", "waits"]);
    assert_eq!(c1.unanswered().len() + c2.unanswered().len(), 0);
}

#[test]
fn a_daemon_that_is_stopped_for_a_while_goes_on_where_it_was() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let latch = rig.server("files").latch("long");
    let long = c1.call("append", json!({ "text": "long", "until_file": latch.path() }));
    rig.server("files").arrives("long");
    rig.daemon().signal(Signal::STOP);
    let meanwhile = c1.call("append", json!({ "text": "meanwhile" }));
    latch.open();
    rig.server("files").executes("long");
    assert!(!c1.has_answered(&meanwhile));
    rig.daemon().signal(Signal::CONT);
    assert_eq!(start_of(&c1.result(&long)), 1);
    assert_eq!(start_of(&c1.result(&meanwhile)), 1);
    assert_eq!(rig.server("files").executed(), ["long", "meanwhile"]);
}

#[test]
fn a_server_that_is_stopped_is_slow_and_not_dead_and_a_restart_ends_it_all_the_same() {
    let rig =
        Plan::new().fault_with("files", &[], "trust_annotations = true\nstop_grace = \"100ms\"").start();
    let mut c1 = rig.connect("files", "c1");
    c1.tool("append", json!({ "text": "a" }));
    let pid = rig.component("files")["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let call = c1.call("append", json!({ "text": "b" }));
    eventually("it is in flight", || rig.component("files")["in_flight"] == 1);
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(start_of(&c1.result(&call)), 1);
    kill_process(pid, Signal::STOP).unwrap();
    rig.restarts(&["files"]);
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "c" }))), 2);
}
