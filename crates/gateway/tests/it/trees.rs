//! Servers that don't want to end: the whole tree of a generation is gone before the next one starts.

use serde_json::{Value, json};
use tidegate_suite::harness::{Plan, Rig, fault_server};

fn is_running(pid: &Value) -> bool {
    let pid = u32::try_from(pid.as_u64().unwrap()).unwrap();
    tidegate_host::process_table().unwrap().get(&pid).is_some_and(|stat| stat.is_running())
}

/// Restarts and asserts that of the old generation, whose processes are `old`, nothing runs any more.
fn restart_ends(rig: &Rig, old: &[Value]) -> Value {
    assert!(old.iter().all(is_running), "{old:?}");
    let operation = rig.restarts(&["files"]);
    for pid in old {
        assert!(!is_running(pid), "{pid} has survived");
    }
    operation
}

fn unclean(rig: &Rig) -> Vec<Value> {
    rig.open_incidents().into_iter().filter(|it| it["kind"] == "unclean_stop").collect()
}

#[test]
fn a_server_that_ignores_the_end_of_its_input_and_sigterm_is_killed_and_that_is_on_record() {
    for (flags, steps) in
        [(&["--ignore-eof"][..], "SIGTERM"), (&["--ignore-eof", "--ignore-term"], "SIGKILL")]
    {
        let rig = Plan::new()
            .fault_with("files", flags, "trust_annotations = true\nstop_grace = \"200ms\"")
            .start();
        let mut client = rig.connect("files", "c1");
        let pid = client.tool("append", json!({ "text": "a" }))["structuredContent"]["pid"].clone();
        restart_ends(&rig, &[pid]);
        assert_eq!(client.tool("append", json!({ "text": "b" }))["structuredContent"]["start"], 2);
        let unclean = unclean(&rig);
        assert_eq!(unclean.len(), 1, "{flags:?}");
        assert!(unclean[0]["evidence"]["steps"].as_str().unwrap().ends_with(steps), "{unclean:?}");
    }
}

#[test]
fn nothing_of_a_wrapped_server_survives_its_wrapper() {
    // The wrapper ends at once when its input does; the real server is in the background and reads on.
    let plan = Plan::new();
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "exec 3<&0; {} --dir {} --ignore-eof <&3 & wait",
        fault_server().display(),
        dir.path().join("files").display()
    );
    let rig = plan.component("files", &["sh", "-c", &script], "stop_grace = \"200ms\"").start();
    let mut client = rig.connect("files", "c1");
    let pid = client.tool("append", json!({ "text": "a" }))["structuredContent"]["pid"].clone();
    let wrapper = rig.component("files")["pid"].clone();
    assert_ne!(pid, wrapper);
    restart_ends(&rig, &[pid, wrapper]);
    assert_eq!(client.tool("append", json!({ "text": "b" }))["structuredContent"]["start"], 2);
}

#[test]
fn a_grandchild_is_found_in_the_group_and_outside_of_it() {
    for kind in ["child", "setsid"] {
        let rig = Plan::new().fault("files", &[]).start();
        let mut client = rig.connect("files", "c1");
        let content =
            client.tool("append", json!({ "text": "a", "grandchild": kind }))["structuredContent"].clone();
        restart_ends(&rig, &[content["pid"].clone(), content["grandchild"].clone()]);
    }
}

#[test]
fn a_server_that_holds_a_port_and_takes_its_time_is_waited_for() {
    let port = {
        // A port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port().to_string()
    };
    let rig = Plan::new().fault("files", &["--port", &port, "--slow-exit-ms", "1000"]).start();
    let mut client = rig.connect("files", "c1");
    let pid = client.tool("append", json!({ "text": "a" }))["structuredContent"]["pid"].clone();
    restart_ends(&rig, &[pid]);
    assert_eq!(
        client.tool("append", json!({ "text": "b" }))["structuredContent"]["start"],
        2,
        "the first try could bind"
    );
}
