//! Whoever doesn't listen, or shouts, harms nobody else: not a log's reader, not a server, not a session that was ended.

use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use tidegate_suite::harness::{PATIENCE, Plan, eventually};

/// More lines of the daemon's log than a pipe holds.
const LOUD: usize = 4_000;

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let rig = Plan::new().fault("files", &[]).build();
    let socket_file = rig.state().join("tidegate.sock");
    // Its standard error is a pipe that stays open and is never read.
    let mut daemon = rig.command(None).arg("serve").stderr(Stdio::piped()).spawn().unwrap();
    eventually("the daemon listens", || UnixStream::connect(&socket_file).is_ok());
    let mut client = rig.connect("files", "s1");
    client.tool("append", json!({ "text": "before" }));

    let mut socket = UnixStream::connect(&socket_file).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = json!({ "wire": 2, "role": { "stream": { "component": "files", "attach": {} } } });
    socket.write_all(format!("{hello}\n").as_bytes()).unwrap();
    let mut welcome = String::new();
    BufReader::new(socket.try_clone().unwrap()).read_line(&mut welcome).unwrap();
    assert!(welcome.contains("open"), "{welcome}");
    // Each of them is worth a line in the log.
    socket.write_all(&b"without a tag\n".repeat(LOUD)).unwrap();
    socket.write_all(b"m{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).unwrap();
    assert!(answer.contains("result"), "{answer}");
    client.tool("append", json!({ "text": "after" }));
    assert_eq!(rig.server("files").executed(), ["before", "after"]);
    client.close();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    rig.leaves_nothing();
}

#[test]
fn a_server_that_never_stops_announcing_changes_is_asked_for_its_list_once_at_a_time() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    let change = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }).to_string();
    client.tool("append", json!({ "text": "loud", "junk": vec![change; 500] }));
    client.tool("append", json!({ "text": "next" }));
    let asked = |method: &str| {
        let received = rig.server("files").received();
        received.iter().filter(|it| it["message"]["method"] == method).count()
    };
    eventually("the list is asked for again", || asked("tools/list") >= 3);
    client.tool("append", json!({ "text": "last" }));
    assert!(asked("tools/list") < 100, "{} times", asked("tools/list"));
    assert_eq!(client.heard("notifications/tools/list_changed").len(), 500);
}

#[test]
fn a_list_of_several_pages_that_a_refused_drain_cuts_short_is_read_again_from_its_beginning() {
    let listed = tempfile::tempdir().unwrap();
    let gate = listed.path().join("listed");
    std::fs::write(&gate, "").unwrap();
    let flags = ["--page-size", "1", "--list-until-file", gate.to_str().unwrap()];
    let rig = Plan::new().policy("drain_deadline = \"1s\"").fault("files", &flags).start();
    let server = rig.server("files").clone();
    let mut client = rig.connect("files", "s1");
    let asked = |cursor: Option<&str>| {
        let lists = server.received().into_iter().map(|it| it["message"].clone());
        lists.filter(|it| it["method"] == "tools/list" && it["params"]["cursor"].as_str() == cursor).count()
    };
    assert_eq!((asked(None), asked(Some("2"))), (1, 1), "read whole at the start");
    // The first page is on its way when the gate closes, and the second can't be asked for.
    std::fs::remove_file(&gate).unwrap();
    client.tool("append", json!({ "text": "changed", "tools_changed": true }));
    eventually("the list is read again", || asked(None) == 2);
    let latch = server.latch("running");
    let running = client.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(rig.ended(&id)["phase"], "Refused");
    eventually("and again, whole", || (asked(None), asked(Some("2"))) == (3, 2));
    assert_eq!(asked(Some("1")), 2, "nothing reached the server while it drained");
    latch.open();
    client.result(&running);
}

#[test]
fn the_governance_tools_tell_a_session_where_it_was_while_no_daemon_runs() {
    let mut rig = Plan::new().fault("files", &[]).start();
    let mut control = rig.control("s1");
    control.tool("session_checkpoint", json!({ "notes": "halfway" }));
    rig.kill();
    let told = control.tool("session_resume", json!({ "session": "s1" }))["structuredContent"].clone();
    assert_eq!((&told["version"], &told["session"]), (&json!(1), &json!("s1")), "{told}");
    assert!(told["facts"]["notes"].to_string().contains("halfway"), "{told}");
    let unknown = control.call("session_resume", json!({ "session": "nobody" }));
    assert_eq!(control.answer(&unknown)["result"]["isError"], true);
    assert!(control.is_running());
}

#[test]
fn a_governance_call_whose_daemon_ends_before_its_answer_is_refused_with_what_to_do() {
    let rig = Plan::new().fault("files", &[]).build();
    std::fs::create_dir_all(rig.state()).unwrap();
    let socket = UnixListener::bind(rig.state().join("tidegate.sock")).unwrap();
    // A daemon that welcomes whoever comes, reads what is asked, and is gone.
    let daemon = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = socket.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.next().unwrap().unwrap();
            stream.write_all(b"{\"open\":{}}\n").unwrap();
            lines.next().unwrap().unwrap();
        }
    });
    let mut control = rig.control("s1");
    for (tool, arguments, retryable, next) in [
        ("restart_request", json!({ "components": ["files"], "reason": "x" }), false, "VerifyThenRetry"),
        ("status", json!({}), true, "RetryCall"),
    ] {
        let call = control.call(tool, arguments);
        let answer = control.answer(&call)["result"].clone();
        let refusal = &answer["_meta"]["tidegate/refusal"];
        assert_eq!(
            (&refusal["kind"], &refusal["retryable"], &refusal["next_action"]["kind"]),
            (&json!("outcome_unknown"), &json!(retryable), &json!(next)),
            "{answer}"
        );
        assert_eq!(answer["content"][0]["text"], refusal["next_action"]["prompt"], "{answer}");
        assert!(
            answer["content"][1]["text"].as_str().unwrap().contains("ended before it answered"),
            "{answer}"
        );
    }
    daemon.join().unwrap();
}

#[test]
fn a_call_of_a_session_that_was_ended_is_answered_where_a_model_sees_it() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let (mut busy, mut over) = (rig.connect("files", "busy"), rig.connect("files", "over"));
    let latch = server.latch("running");
    let running = busy.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let call = over.call("append", json!({ "text": "held" }));
    let other = over.request("resources/read", json!({ "uri": "ledger://lines" }));
    rig.holds("files", 2);

    rig.ops(&["sessions", "end", "over"]).done();
    let answer = over.answer(&call);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["_meta"]["tidegate/refusal"]["kind"], "unavailable", "{answer}");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("ended"), "{answer}");
    // Anything else gets an error.
    assert_eq!(over.answer(&other)["error"]["code"], 4507);
    latch.open();
    busy.result(&running);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(server.executed(), ["running"]);
}
