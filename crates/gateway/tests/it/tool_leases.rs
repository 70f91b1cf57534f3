//! Leases that calls need: `[component.leases]`.

use serde_json::{Value, json};
use tidegate_suite::harness::{Client, Plan, Rig};

/// `append` needs the lease of what its key names.
fn rig() -> Rig {
    let settings = "trust_annotations = true\n[component.leases]\n\"app*\" = \"files/{/key}\"";
    Plan::new().fault_with("files", &[], settings).start()
}

fn acquire(control: &mut Client, key: &str) -> String {
    let acquired =
        control.tool("lease_acquire", json!({ "key": key, "class": "mutating", "ttl_ms": 60_000 }));
    acquired["structuredContent"]["lease"]["fence"].as_str().unwrap().to_owned()
}

#[track_caller]
fn needs_a_lease(client: &mut Client, arguments: Value, lease: &str) {
    let call = client.call("append", arguments);
    let refusal = client.refused(&call);
    assert_eq!(refusal["kind"], "lease_required", "{refusal}");
    assert_eq!(refusal["next_action"]["kind"], "ReacquireLease", "{refusal}");
    assert_eq!(refusal["next_action"]["lease"], lease, "{refusal}");
}

#[test]
fn a_call_needs_the_lease_that_its_arguments_name_and_nobody_elses_will_do() {
    let rig = rig();
    let mut control = rig.control("writer");
    let (mut writer, mut other) = (rig.connect("files", "writer"), rig.connect("files", "other"));
    needs_a_lease(&mut writer, json!({ "text": "none", "key": "a" }), "files/a");
    // What needs none goes through, and what can't be named is held by nobody.
    writer.tool("put", json!({ "text": "put", "key": "a", "value": "1" }));
    needs_a_lease(&mut writer, json!({ "text": "none" }), "files/{/key}");
    acquire(&mut control, "files/{/key}");
    needs_a_lease(&mut writer, json!({ "text": "none" }), "files/{/key}");

    let fence = acquire(&mut control, "files/a");
    writer.tool("append", json!({ "text": "held", "key": "a" }));
    needs_a_lease(&mut writer, json!({ "text": "none", "key": "b" }), "files/b");
    needs_a_lease(&mut other, json!({ "text": "none", "key": "a" }), "files/a");

    // A caller that says under which fence it acts is held to it.
    for (believed, goes_on) in [(fence.as_str(), true), ("1.1", false)] {
        let params = json!({ "name": "append", "arguments": { "text": "fenced", "key": "a" },
                             "_meta": { "tidegate/fence": believed } });
        let answer = writer.ask("tools/call", params);
        assert_eq!(answer["result"]["isError"] == true, !goes_on, "{believed}: {answer}");
    }

    control.tool("lease_release", json!({ "key": "files/a", "fence": fence }));
    needs_a_lease(&mut writer, json!({ "text": "none", "key": "a" }), "files/a");
    assert_eq!(rig.server("files").executed(), ["put", "held", "fenced"]);
}

#[test]
fn a_call_that_was_held_needs_its_lease_when_it_is_released() {
    let rig = rig();
    let server = rig.server("files").clone();
    let mut control = rig.control("writer");
    let (mut writer, mut other) = (rig.connect("files", "writer"), rig.connect("files", "other"));
    let [kept, lost] = ["files/kept", "files/lost"].map(|key| (key, acquire(&mut control, key)));

    let latch = server.latch("running");
    let running = other.call("put", json!({ "text": "running", "key": "k", "until_file": latch.path() }));
    server.arrives("running");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let calls = [("kept", &kept), ("lost", &lost)]
        .map(|(key, _)| writer.call("append", json!({ "text": key, "key": key })));
    rig.holds("files", 2);
    control.tool("lease_release", json!({ "key": lost.0, "fence": lost.1 }));
    latch.open();
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    other.result(&running);
    // The lease that was kept has come over the restart; the other call never reached the server.
    writer.result(&calls[0]);
    assert_eq!(writer.refused(&calls[1])["kind"], "lease_required");
    assert_eq!(server.executed(), ["running", "kept"]);
}
