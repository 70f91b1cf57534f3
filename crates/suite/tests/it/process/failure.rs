//! Bullet 8: a drain that fails leaves an incident, on disk before anybody is let in again.

use serde_json::json;
use tidegate_suite::harness::Plan;

pub(super) fn a_failed_drain_leaves_work() {
    let mut rig = Plan::new().policy("drain_deadline = \"1s\"").fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut s1 = rig.connect("files", "s1");
    let mut s2 = rig.connect("files", "s2");
    let latch = server.latch("running");
    s1.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");

    // Two drains fail for the same reason. That is one incident, seen twice.
    let first = rig.request("ops", &["files"]);
    assert_eq!(rig.ended(&first)["phase"], "Refused");
    let open = rig.open_incidents();
    assert_eq!(
        (open.len(), &open[0]["kind"], &open[0]["count"]),
        (1, &json!("drain_refused"), &json!(1)),
        "{open:?}"
    );
    let second = rig.request("ops", &["files"]);
    rig.reaches(&second, &["Draining"]);
    let held = s2.call("append", json!({ "text": "first in" }));

    // The first call that gets in proves the gate open; killed at that moment, the incident is there already.
    s2.result(&held);
    rig.kill();
    latch.open();
    rig.serve();
    let open = rig.open_incidents();
    let refused: Vec<_> = open.iter().filter(|it| it["kind"] == "drain_refused").collect();
    assert_eq!(refused.len(), 1, "{open:?}");
    let incident = refused[0];
    assert_eq!((&incident["state"], &incident["count"]), (&json!("open"), &json!(2)), "{incident}");
    assert_eq!(incident["who_is_next"], "operator");
    assert!(incident["next_action"]["kind"].is_string() && incident["next_action"]["prompt"].is_string());
    let prompt = incident["next_prompt"].as_str().unwrap();
    for said in ["s1", "append", "tidegate restart request files"] {
        assert!(prompt.contains(said), "{said}: {prompt}");
    }
    let operation = rig.operation(&second);
    assert_eq!((&operation["phase"], &operation["incident"]), (&json!("Refused"), &incident["id"]));

    // It is worked off: seen by anybody, resolved by an operator alone.
    let id = incident["id"].as_str().unwrap();
    assert_eq!(rig.local(&["incidents", "ack", id]).done()["incidents"][0]["state"], "acknowledged");
    rig.local(&["incidents", "resolve", id]).no();
    assert_eq!(rig.ops(&["incidents", "resolve", id]).done()["incidents"][0]["state"], "resolved");
    assert!(rig.open_incidents().iter().all(|it| it["kind"] != "drain_refused"));
}
