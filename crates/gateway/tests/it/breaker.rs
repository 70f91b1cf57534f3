//! What hostile, unlucky and merely large clients have done to it: every call has one answer, and its effect at most once.

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use tidegate_suite::harness::{Client, Plan, Rig, Stopwatch, eventually};

/// A text of so many million bytes.
fn large(millions: usize) -> String {
    "x".repeat(millions * 1_000_000)
}

fn pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).unwrap()
}

/// The kinds of the refusals among the answers; `None` for a success.
fn outcomes<'a>(
    client: &mut Client,
    calls: impl IntoIterator<Item = &'a tidegate_suite::harness::Call>,
) -> Vec<Option<Value>> {
    let kind =
        |answer: Value| tidegate_suite::harness::refusal(&answer).map(|refusal| refusal["kind"].clone());
    calls.into_iter().map(|call| kind(client.answer(call))).collect()
}

#[test]
fn large_requests_and_large_answers_do_not_wait_for_each_other() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(client.call("append", json!({ "answer_bytes": 3_000_000 })));
    }
    for _ in 0..4 {
        calls.push(client.call("append", json!({ "text": large(2) })));
    }
    assert_eq!(outcomes(&mut client, &calls), vec![None; 7]);
    assert_eq!(rig.server("files").ledger().len(), 7);
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_gets_every_answer_when_it_is_back() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut slow = rig.connect("files", "slow");
    let mut quick = rig.connect("files", "quick");
    let shim = pid(slow.pid());
    let latch = rig.server("files").latch("go");
    let waits = json!({ "text": "slow", "until_file": latch.path(), "answer_bytes": 2_500_000 });
    let calls: Vec<_> = (0..12).map(|_| slow.call("append", waits.clone())).collect();
    eventually("all have arrived", || rig.server("files").arrived("slow") == 12);
    kill_process(shim, Signal::STOP).unwrap();
    latch.open();
    eventually("it is cut off", || {
        quick.tool("read", json!({ "key": "k" }));
        rig.component("files")["in_flight"] == 0 && streams(&rig, "slow") == 0
    });
    kill_process(shim, Signal::CONT).unwrap();
    let outcomes = outcomes(&mut slow, &calls);
    let unknown = Some(json!("outcome_unknown"));
    assert!(outcomes.iter().all(|it| it.is_none() || *it == unknown), "{outcomes:?}");
    assert!(outcomes.contains(&unknown), "it was cut off before it had read everything");
    assert_eq!(rig.server("files").times("slow"), 12);
    slow.tool("append", json!({ "text": "later" }));
    assert_eq!(rig.server("files").times("later"), 1);
}

/// How many connections to components a session has.
fn streams(rig: &Rig, name: &str) -> u64 {
    let status = rig.status();
    let sessions = status["sessions"].as_array().unwrap();
    sessions.iter().find(|it| it["name"] == name).map_or(0, |it| it["streams"].as_u64().unwrap())
}

#[test]
fn a_call_that_was_cancelled_at_a_closed_gate_is_not_made_after_a_crash() {
    let mut rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut holder = rig.connect("files", "holder");
    let mut fickle = rig.connect("files", "fickle");
    let latch = server.latch("held");
    let holding = holder.call("append", json!({ "text": "holder", "until_file": latch.path() }));
    server.arrives("holder");
    let operation = rig.request("ops", &["files"]);
    rig.reaches(&operation, &["Draining"]);
    let held = fickle.call("append", json!({ "text": "cancelled" }));
    rig.holds("files", 1);
    fickle.cancel(&held);
    rig.holds("files", 0);
    rig.kill();
    rig.serve();
    latch.open();
    assert_eq!(holder.result(&holding)["structuredContent"]["start"], 1, "answered late");
    fickle.tool("append", json!({ "text": "after" }));
    assert_eq!((server.arrived("cancelled"), server.times("after")), (0, 1));
    assert!(!fickle.has_answered(&held));
    assert!(fickle.close().code == Some(0), "nothing is waited for");
}

#[test]
fn an_id_that_is_in_flight_names_one_request_across_a_crash() {
    let mut rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut client = rig.connect("files", "s1");
    let latch = server.latch("go");
    let first = client.call("append", json!({ "text": "first", "until_file": latch.path() }));
    server.arrives("first");
    let again = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                        "params": { "name": "append", "arguments": { "text": "second" } } });
    client.send(&again.to_string());
    let error = client.answer(&first);
    assert_eq!(error["error"]["code"], -32600, "{error}");
    rig.kill();
    rig.serve();
    latch.open();
    let mut other = rig.connect("files", "s2");
    other.tool("append", json!({ "text": "after" }));
    assert_eq!((server.arrived("second"), server.times("after")), (0, 1));
}

#[test]
fn a_shim_with_more_in_flight_than_a_line_holds_comes_back_after_a_crash() {
    let mut rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut client = rig.connect("files", "s1");
    let latch = server.latch("never");
    let text = large(7);
    let arguments = json!({ "until_file": latch.path(), "text": text });
    let calls: Vec<_> = (0..3).map(|_| client.call("append", arguments.clone())).collect();
    eventually("all have arrived", || server.arrived(&text) == 3);
    rig.kill();
    // Or it would be waited for: it has all of them.
    server.die();
    rig.serve();
    let since = Stopwatch::start();
    assert_eq!(outcomes(&mut client, &calls), vec![Some(json!("outcome_unknown")); 3]);
    client.tool("append", json!({ "text": "after" }));
    assert!(since.elapsed().as_secs() < 20, "the daemon answered, and not the shim when it gave up");
    assert_eq!(server.ledger().len(), 1);
}

#[test]
fn an_answer_of_the_largest_size_reaches_a_caller_with_a_long_id() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    // The text is in the answer twice; around it there is less than 600 bytes.
    let params = json!({ "name": "append", "arguments": { "answer_bytes": (16 * 1024 * 1024 - 700) / 2 } });
    let call = client.request_as(&format!("\"{}\"", "i".repeat(500)), "tools/call", &params);
    client.result(&call);
}

#[test]
fn an_answer_that_cannot_be_read_ends_its_call_and_holds_nothing_up() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    let probe = client.call("append", json!({ "text": "probe" }));
    client.result(&probe);
    // A call's number and its id at the server follow each other.
    let id = rig.server("files").ledger()[0]["id"].as_u64().unwrap() + 2;
    let junk = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"error":null}}"#);
    let call = client.call("append", json!({ "text": "garbled", "silent": true, "junk": [junk] }));
    let error = client.answer(&call);
    assert!(error["error"]["message"].as_str().unwrap().contains("answer is not passed on"), "{error}");
    assert_eq!(rig.component("files")["in_flight"], 0);
    rig.restarts(&["files"]);
}

#[test]
fn a_store_that_is_full_refuses_what_has_to_be_recorded_and_nothing_else() {
    let mut rig = Plan::new().policy("hold = \"1s\"").fault("files", &[]).build();
    // Without the trap the kernel would kill the writer.
    rig.serve_under(&["sh", "-c", "trap '' XFSZ; exec \"$@\"", "limited"]);
    rig.is_ready("files");
    let mut client = rig.connect("files", "s1");
    let daemon = pid(rig.daemon().pid());
    let journal = std::fs::metadata(rig.state().join("journal")).unwrap().len();
    prlimit(Some(daemon), Resource::Fsize, Rlimit { current: Some(journal), maximum: None }).unwrap();
    let write = client.call("append", json!({ "text": "write" }));
    let read = client.call("read", json!({ "key": "k" }));
    client.result(&read);
    assert_eq!(client.refused(&write)["kind"], "draining");
    assert_eq!(
        (rig.server("files").arrived("write"), &rig.component("files")["state"]),
        (0, &json!("ready"))
    );
    prlimit(Some(daemon), Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
    client.tool("append", json!({ "text": "later" }));
    assert_eq!(rig.server("files").executed(), ["later"]);
}

#[test]
fn a_daemon_whose_log_nobody_reads_any_more_goes_on() {
    let mut rig = Plan::new().fault("files", &[]).build();
    rig.serve_under(&["bash", "-c", "exec \"$@\" 2> >(sed -u /^ready/q >&2)", "deaf"]);
    rig.is_ready("files");
    let mut client = rig.connect("files", "s1");
    let call = client.call("append", json!({ "text": "lost", "die": "after-commit" }));
    assert_eq!(client.refused(&call)["kind"], "outcome_unknown");
    client.tool("append", json!({ "text": "next" }));
    rig.restarts(&["files"]);
    assert_eq!(rig.terminate().code, Some(0));
}
