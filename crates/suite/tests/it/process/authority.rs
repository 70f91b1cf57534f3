//! Bullet 1: nobody stops a server alone but an operator, and no other door goes around an approval.

use rustix::process::Signal;
use serde_json::json;
use tidegate_suite::harness::{Plan, Process, eventually, until};

pub(super) fn no_unilateral_restart() {
    let mut rig =
        Plan::new().policy("drain_deadline = \"1s\"").principal("coder").fault("files", &[]).start();
    let mut session = rig.connect("files", "s1");
    let before = rig.is_ready("files");
    let untouched = |rig: &tidegate_suite::harness::Rig| {
        let now = rig.component("files");
        for what in ["pid", "generation", "restarts", "state"] {
            assert_eq!(now[what], before[what], "{now}");
        }
    };

    // Two sessions of one agent are one principal, and so is a shell beside them.
    let mut asking = rig.control("s1");
    let mut other = rig.control("s2");
    let asked = asking.tool("restart_request", json!({ "components": ["files"], "reason": "it is slow" }));
    let operation = &asked["structuredContent"]["operation"];
    let id = operation["id"].as_str().unwrap().to_owned();
    assert_eq!((&operation["phase"], &operation["requested_by"]), (&json!("Requested"), &json!("local")));
    for session in [&mut asking, &mut other] {
        let call = session.call("restart_approve", json!({ "operation": id }));
        assert_eq!(session.refused(&call)["kind"], "restart_refused");
    }
    rig.local(&["restart", "approve", &id]).no();
    untouched(&rig);

    // A credential of its own makes no approver of an agent.
    let own = rig.request("coder", &["files"]);
    rig.by("coder", &["restart", "approve", &own]).no();
    rig.by("coder", &["restart", "approve", &id]).no();
    rig.by("coder", &["restart", "request", "files", "--reason", "x", "--break-glass"]).no();
    untouched(&rig);

    // No other door.
    assert_eq!(rig.local(&["reload"]).done()["operations"], json!([]));
    let second = rig.serve_raw(&[]).wait();
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    let mut takeover = rig.command(None);
    takeover.args(["serve", "--takeover"]);
    let takeover = Process::start("a daemon that would take over", takeover);
    let asked = until("the takeover is asked for", || {
        let operations = rig.status()["operations"].clone();
        operations.as_array().unwrap().iter().find(|it| it["intent"] == "takeover").cloned()
    });
    assert_eq!(asked["phase"], "Requested");
    rig.ops(&["restart", "deny", asked["id"].as_str().unwrap()]).done();
    assert_eq!(takeover.wait().code, Some(1));
    rig.daemon().signal(Signal::HUP);
    eventually("the daemon says what a hang-up does", || {
        rig.daemon().stderr().contains("nothing was restarted")
    });
    untouched(&rig);
    assert_eq!(session.tool("append", json!({ "text": "a" }))["structuredContent"]["start"], 1);

    // A credentialed other one can: once is enough, and the restart happens.
    assert_eq!(rig.ops(&["restart", "approve", &id]).done()["operation"]["approvals"][0]["principal"], "ops");
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(session.tool("append", json!({ "text": "b" }))["structuredContent"]["start"], 2);
    assert_eq!(rig.operation(&own)["phase"], "Requested", "the other request has not been approved");

    // Termination by signal is bound by drain safety: an unsafe call outlives the deadline, and that is said.
    let server = rig.server("files").clone();
    session.call("append", json!({ "text": "c", "until_file": server.latch("c").path() }));
    server.arrives("c");
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("unsafe calls were running in files"), "{}", ended.stderr);
    rig.serve();
    let incidents = rig.open_incidents();
    assert!(incidents.iter().any(|it| it["severity"] == "critical"), "{incidents:?}");
}
