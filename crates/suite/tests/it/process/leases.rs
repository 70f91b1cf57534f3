//! Bullet 6: after a restart no lease is left to nobody, and none has two holders.

use serde_json::{Value, json};
use tidegate_suite::harness::{Client, Plan, Rig, eventually};

fn acquire(control: &mut Client, key: &str, class: &str, ttl_ms: u64) -> String {
    let acquired = control.tool("lease_acquire", json!({ "key": key, "class": class, "ttl_ms": ttl_ms }));
    acquired["structuredContent"]["lease"]["fence"].as_str().unwrap().to_owned()
}

fn lease(rig: &Rig, key: &str) -> Value {
    rig.local(&["leases", "show", key]).done()["lease"].clone()
}

/// The last event of a lease.
fn last(lease: &Value) -> &str {
    lease["history"].as_array().unwrap().last().unwrap()["event"].as_str().unwrap()
}

pub(super) fn no_lease_is_orphaned_silently() {
    let rig = Plan::new().fault("files", &[]).start();
    let (mut keeper, _stream) = (rig.control("keeper"), rig.connect("files", "keeper"));
    let kept = acquire(&mut keeper, "kept", "mutating", 60_000);
    let released = acquire(&mut keeper, "released", "mutating", 60_000);
    keeper.tool("lease_release", json!({ "key": "released", "fence": released }));

    // A session that goes quiet, and one whose client dies and comes back under the same name.
    let (mut quiet, _stream) = (rig.control("quiet"), rig.connect("files", "quiet"));
    acquire(&mut quiet, "run-out", "read-only", 3_000);
    let moving = rig.connect_apart("files", "moving");
    rig.local(&["leases", "acquire", "moved", "--session", "moving"]).done();
    let before = lease(&rig, "moved")["fence"].clone();
    moving.kill();
    let _moving = rig.connect_apart("files", "moving");

    // One whose last mutating call has an unknown outcome, and whose client is dead.
    let mut lost = rig.connect_apart("files", "lost");
    rig.local(&["leases", "acquire", "orphan", "--session", "lost"]).done();
    let call = lost.call("append", json!({ "text": "lost", "die": "after-commit" }));
    assert_eq!(lost.refused(&call)["kind"], "outcome_unknown");
    lost.kill();
    eventually("the gateway has seen it go", || {
        let sessions = rig.status()["sessions"].clone();
        sessions.as_array().unwrap().iter().any(|it| it["name"] == "lost" && it["attached"] == false)
    });
    rig.is_ready("files");
    eventually("what ran out is written down", || lease(&rig, "run-out")["state"] == "expired");

    rig.restarts(&["files"]);

    // Each of them is exactly one thing, and the record says which.
    let (kept_now, moved_now) = (lease(&rig, "kept"), lease(&rig, "moved"));
    assert_eq!((&kept_now["state"], &kept_now["fence"]), (&json!("held"), &json!(kept)), "{kept_now}");
    assert_eq!(last(&kept_now), "carried-over", "{kept_now}");
    assert_eq!((&moved_now["state"], &moved_now["session"]), (&json!("held"), &json!("moving")));
    assert_ne!(moved_now["fence"], before, "an adoption gives a new fence");
    let events: Vec<&Value> =
        moved_now["history"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
    assert!(events.contains(&&json!("adopted")), "{moved_now}");
    assert_eq!(
        (&lease(&rig, "released")["state"], last(&lease(&rig, "released"))),
        (&json!("released"), "released")
    );
    assert_eq!(last(&lease(&rig, "run-out")), "expired");
    let told = quiet.tool("session_resume", json!({}))["structuredContent"].clone();
    let pending: Vec<&Value> =
        told["facts"]["pending"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert!(pending.contains(&&json!("ReacquireLease")), "{told}");
    let orphan = lease(&rig, "orphan");
    assert_eq!(orphan["state"], "orphaned", "{orphan}");
    let incidents: Vec<Value> =
        rig.open_incidents().into_iter().filter(|it| it["kind"] == "lease_orphaned").collect();
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert!(incidents[0]["next_prompt"].as_str().unwrap().contains("leases adopt orphan"), "{incidents:?}");

    // Never two holders: nobody gets what is held or orphaned, and an old fence is worth nothing.
    let mut greedy = rig.control("greedy");
    for key in ["kept", "moved", "orphan"] {
        let call = greedy.call("lease_acquire", json!({ "key": key }));
        let answer = greedy.answer(&call);
        assert_eq!(answer["result"]["isError"], true, "{key}: {answer}");
    }
    let old = before.as_str().unwrap();
    rig.local(&["leases", "renew", "moved", "--session", "moving", "--fence", old]).no();

    // An operator gives the orphan to somebody, on record; then it has one holder again.
    rig.local(&["leases", "adopt", "orphan", "--session", "keeper"]).no();
    rig.ops(&["leases", "adopt", "orphan", "--session", "keeper"]).done();
    let adopted = lease(&rig, "orphan");
    assert_eq!((&adopted["state"], &adopted["session"]), (&json!("held"), &json!("keeper")));
    assert_ne!(adopted["fence"], orphan["fence"]);
}
