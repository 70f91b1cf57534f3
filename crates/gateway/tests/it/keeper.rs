//! The daemon dies and its servers don't: what was being executed is executed once, and its answer still arrives.

use serde_json::{Value, json};
use tidegate_suite::harness::{Call, Client, FaultServer, Latch, Plan, Residue, Rig, eventually, until};

fn start_of(result: &Value) -> &Value {
    &result["structuredContent"]["start"]
}

fn is_running(pid: &Value) -> bool {
    let pid = u32::try_from(pid.as_u64().unwrap()).unwrap();
    tidegate_host::process_table().unwrap().get(&pid).is_some_and(|stat| stat.is_running())
}

fn files() -> Rig {
    Plan::new().fault("files", &[]).start()
}

/// A call that has taken effect, and whose answer waits for the latch.
fn executed(rig: &Rig, client: &mut Client) -> (FaultServer, Latch, Call) {
    let server = rig.server("files").clone();
    let latch = server.latch("late");
    let call = client.call("append", json!({ "text": "late", "answer_until_file": latch.path() }));
    server.executes("late");
    (server, latch, call)
}

#[test]
fn a_call_that_outlives_its_daemon_is_executed_once_and_its_answer_arrives() {
    for ends_before_the_next_daemon in [true, false] {
        let mut rig = files();
        let mut c1 = rig.connect("files", "c1");
        let (server, latch, call) = executed(&rig, &mut c1);
        let pid = rig.component("files")["pid"].clone();
        rig.kill();
        let waiting = c1.call("append", json!({ "text": "waiting" }));
        assert!(is_running(&pid), "the server sees nothing of it");

        if ends_before_the_next_daemon {
            latch.open();
            eventually("the server ends when nothing is left to do", || !is_running(&pid));
            rig.serve();
        } else {
            rig.serve();
            latch.open();
        }
        assert_eq!(c1.result(&call)["structuredContent"]["text"], "late");
        assert_eq!(start_of(&c1.result(&waiting)), 2);
        assert_eq!(server.executed(), ["late", "waiting"]);
        assert_eq!(rig.open_incidents(), Vec::<Value>::new());
    }
}

#[test]
fn a_keeper_finds_its_files_when_the_configuration_was_named_from_beside_it() {
    let mut rig = Plan::new().fault("files", &[]).build();
    // As it is found where nobody names one: every path in it is relative.
    rig.serve_under(&[
        "sh",
        "-c",
        "cd \"$(dirname \"$3\")\" && exec \"$1\" --config tidegate.toml serve",
        "beside",
    ]);
    let mut c1 = rig.connect("files", "c1");
    let (_, latch, call) = executed(&rig, &mut c1);
    let pid = rig.component("files")["pid"].clone();
    rig.kill();
    latch.open();
    eventually("the server ends when nothing is left to do", || !is_running(&pid));
    rig.serve();
    assert_eq!(c1.result(&call)["structuredContent"]["text"], "late");
}

#[test]
fn four_sessions_of_a_killed_daemon_are_served_again_without_doing_anything() {
    let mut rig = Plan::new().fault("files", &[]).fault("mail", &[]).start();
    let mut clients: Vec<Client> =
        (0..4).map(|n| rig.connect(if n % 2 == 0 { "files" } else { "mail" }, &format!("c{n}"))).collect();
    for round in 1..=3 {
        for (n, client) in clients.iter_mut().enumerate() {
            let result = client.tool("append", json!({ "text": format!("{n} in round {round}") }));
            assert_eq!(start_of(&result), round);
        }
        rig.kill();
        rig.serve();
    }
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(start_of(&client.tool("append", json!({ "text": format!("{n} at last") }))), 4);
        assert_eq!(client.unanswered(), []);
    }
    assert_eq!(rig.server("files").executed().len() + rig.server("mail").executed().len(), 16);
}

#[test]
fn nothing_outlives_a_daemon_whose_servers_had_nothing_to_do() {
    let mut rig = files();
    let mut c1 = rig.connect("files", "c1");
    c1.tool("append", json!({ "text": "done" }));
    let read = c1.call(
        "read",
        json!({ "text": "r", "key": "k", "until_file": rig.server("files").latch("r").path() }),
    );
    rig.server("files").arrives("r");
    rig.kill();
    drop((c1, read));
    rig.leaves_nothing();
}

#[test]
fn a_call_that_does_not_end_keeps_its_server_and_is_reported() {
    let mut rig = Plan::new().policy("drain_deadline = \"700ms\"").fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let server = rig.server("files").clone();
    let latch = server.latch("long");
    let call = c1.call("append", json!({ "text": "long", "until_file": latch.path() }));
    server.arrives("long");
    let pid = rig.component("files")["pid"].clone();
    rig.kill();
    rig.serve();

    let refusal = c1.refused(&call);
    assert_eq!(refusal["kind"], "outcome_unknown", "{refusal}");
    assert!(is_running(&pid), "a server with an unsafe call is never killed");
    let survived =
        until("the incident", || rig.open_incidents().into_iter().find(|it| it["kind"] == "tree_survived"));
    assert!(survived.to_string().contains(&pid.to_string()), "{survived}");
    let refused = c1.call("append", json!({ "text": "refused" }));
    assert_eq!(c1.refused(&refused)["kind"], "unavailable");
    // A restart that is refused for it doesn't make it look like one that serves, or its own incident like the cause.
    assert_eq!(rig.ended(&rig.request("ops", &["files"]))["phase"], "Refused");
    eventually("status tells the truth", || {
        let component = rig.component("files");
        (&component["state"], &component["incident"]) == (&json!("unavailable"), &survived["id"])
    });
    latch.open();
    eventually("the server ends by itself", || !is_running(&pid));
    assert_eq!(server.executed(), ["long"]);
    // Nobody has to tell that it is gone.
    rig.is_ready("files");
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "after" }))), 2);
    assert!(!rig.open_incidents().iter().any(|it| it["kind"] == "tree_survived"), "the proof has settled it");
}

#[test]
fn a_keeper_that_is_killed_while_its_daemon_lives_is_replaced_and_the_next_one_keeps() {
    let mut rig = files();
    let mut c1 = rig.connect("files", "c1");
    let keepers = |rig: &Rig| -> Vec<Residue> {
        rig.running().into_iter().filter(|it| it.command.contains(" __keep ")).collect()
    };
    let first = keepers(&rig);
    assert_eq!(first.len(), 1);
    first[0].end();
    eventually("another one", || keepers(&rig).first().is_some_and(|it| it.pid != first[0].pid));
    eventually("that it is said", || rig.daemon().stderr().contains("another one holds its pipes"));

    let (server, latch, call) = executed(&rig, &mut c1);
    rig.kill();
    latch.open();
    rig.serve();
    assert_eq!(c1.result(&call)["structuredContent"]["text"], "late");
    assert_eq!(server.executed(), ["late"]);
    // A restart dismisses the one that is there now, and leaves none.
    rig.restarts(&["files"]);
    assert_eq!(keepers(&rig).len(), 1);
}
