//! `sharing = "per-session"`: every session has a server of its own, and all of them are one component to whoever restarts it.

use serde_json::{Value, json};
use tidegate_suite::harness::{Call, Client, Latch, Plan, Residue, Rig, eventually, fault_server, until};

const OWN: &str = "trust_annotations = true\nsharing = \"per-session\"";

fn files(flags: &[&str]) -> Rig {
    Plan::new().fault_with("files", flags, OWN).start()
}

fn start_of(result: &Value) -> &Value {
    &result["structuredContent"]["start"]
}

/// A client that can do this.
fn able(rig: &Rig, session: &str, capabilities: Value) -> Client {
    let mut client = rig.shim("files", session);
    client.introduce(capabilities);
    client
}

/// The server that a session has, in `status`.
fn server_of(rig: &Rig, session: &str) -> Value {
    let servers = rig.component("files")["servers"].clone();
    let found = servers.as_array().unwrap().iter().find(|it| it["session"] == session).cloned();
    found.unwrap_or_else(|| panic!("no server of {session}: {servers}"))
}

/// The pid of a session's server, as soon as it has one that `other` isn't.
fn pid_of(rig: &Rig, session: &str, other: &Value) -> Value {
    until("a server", || {
        Some(server_of(rig, session)["pid"].clone()).filter(|it| !it.is_null() && it != other)
    })
}

/// A call that its server works on until the latch is opened.
fn working(rig: &Rig, client: &mut Client, text: &str) -> (Latch, Call) {
    let server = rig.server("files");
    let latch = server.latch(text);
    let call = client.call("append", json!({ "text": text, "until_file": latch.path() }));
    server.arrives(text);
    (latch, call)
}

#[test]
fn every_session_has_a_server_of_its_own_that_is_told_what_its_client_can_do() {
    let rig = files(&[]);
    assert_eq!(rig.server("files").starts().len(), 0, "nobody is there yet");
    let roots = json!({ "roots": { "listChanged": true }, "tasks": { "list": {} } });
    let (mut c1, mut c2) = (able(&rig, "c1", roots), able(&rig, "c2", json!({ "sampling": {} })));
    c1.tool("put", json!({ "key": "k", "value": "of c1" }));
    assert_eq!(c1.tool("read", json!({ "key": "k" }))["structuredContent"]["value"], "of c1");
    assert_eq!(c2.tool("read", json!({ "key": "k" }))["structuredContent"]["value"], Value::Null);

    let said: Vec<Value> = rig.server("files").received();
    let said: Vec<&Value> =
        said.iter().map(|it| &it["message"]).filter(|it| it["method"] == "initialize").collect();
    let told = |name: &str| {
        let its =
            said.iter().find(|it| it["params"]["clientInfo"]["name"].as_str().unwrap().starts_with(name));
        its.unwrap_or_else(|| panic!("{said:?}"))["params"]["capabilities"].clone()
    };
    assert_eq!(told("c1"), json!({ "roots": { "listChanged": true } }), "tasks can't be kept");
    assert_eq!(told("c2"), json!({ "sampling": {} }));
    assert_eq!(said.len(), 2);

    let component = rig.component("files");
    assert_eq!((&component["state"], &component["pid"]), (&json!("ready"), &Value::Null), "{component}");
    assert_ne!(server_of(&rig, "c1")["pid"], server_of(&rig, "c2")["pid"]);
    assert_eq!(server_of(&rig, "c2")["state"], "ready");
}

#[test]
fn what_a_server_asks_goes_to_its_own_session_whoever_else_has_calls_in_flight() {
    let rig = files(&["--ask-when-initialized", "roots/list"]);
    let mut clients: Vec<Client> = ["c1", "c2"].map(|name| able(&rig, name, json!({ "roots": {} }))).into();
    for client in &mut clients {
        let asked = client.hear("roots/list");
        client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } }).to_string());
    }
    let answers = |rig: &Rig| {
        let all = rig.server("files").received();
        all.iter().filter(|it| it["message"]["result"]["roots"].is_array()).count()
    };
    eventually("both servers have their answer", || answers(&rig) == 2);
    let ask = |what: &str| json!({ "text": what, "ask": { "method": "elicitation/create", "params": { "message": what } } });
    let calls: Vec<_> = clients.iter_mut().zip(["1", "2"]).map(|(it, n)| it.call("append", ask(n))).collect();
    for ((client, call), n) in clients.iter_mut().zip(&calls).zip(["1", "2"]) {
        let asked = client.hear("elicitation/create");
        assert_eq!(asked["params"]["message"], n);
        client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": n } }).to_string());
        assert_eq!(client.result(call)["structuredContent"]["answered"]["result"]["action"], n);
    }
    clients[0].send(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }).to_string());
    eventually("its server is told of its roots", || {
        let all = rig.server("files").received();
        all.iter().filter(|it| it["message"]["method"] == "notifications/roots/list_changed").count() == 1
    });
}

#[test]
fn a_restart_drains_all_servers_and_one_unsafe_call_refuses_it_for_all() {
    let rig = Plan::new().policy("drain_deadline = \"1s\"").fault_with("files", &[], OWN).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let (before, other) = (server_of(&rig, "c1")["pid"].clone(), server_of(&rig, "c2")["pid"].clone());
    let (latch, call) = working(&rig, &mut c1, "unsafe");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let held = c2.call("append", json!({ "text": "held" }));
    let refused = rig.ended(&id);
    assert_eq!((&refused["phase"], &refused["holders"][0]["session"]), (&json!("Refused"), &json!("c1")));
    c2.result(&held);
    let states = |rig: &Rig| (rig.component("files")["state"].clone(), server_of(rig, "c1")["state"].clone());
    assert_eq!(states(&rig), (json!("ready"), json!("ready")), "it serves as before");
    latch.open();
    c1.result(&call);
    assert_eq!((&server_of(&rig, "c1")["pid"], &server_of(&rig, "c2")["pid"]), (&before, &other));

    let completed = rig.restarts(&["files"]);
    assert_eq!(completed["scope"], json!(["files"]));
    assert_eq!(states(&rig), (json!("ready"), json!("ready")));
    for (client, before) in [(&mut c1, &before), (&mut c2, &other)] {
        client.tool("append", json!({ "text": "after" }));
        assert!(rig.component("files")["servers"].as_array().unwrap().iter().all(|it| it["pid"] != *before));
        assert_eq!(client.hear("notifications/message")["params"]["logger"], "tidegate", "its state is lost");
    }
    assert_eq!(rig.server("files").starts().len(), 4);
}

#[test]
fn a_session_that_comes_during_a_restart_waits_and_is_served_by_the_new_version() {
    let rig = files(&[]);
    let mut c1 = rig.connect("files", "c1");
    let (latch, call) = working(&rig, &mut c1, "first");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let mut c2 = rig.shim("files", "c2");
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c2", "version": "1" } });
    let waits = c2.request("initialize", hello);
    eventually("it has its place", || rig.status()["sessions"].as_array().unwrap().len() == 2);
    assert!(!c2.has_answered(&waits));
    latch.open();
    c1.result(&call);
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    c2.result(&waits);
    c2.tool("append", json!({ "text": "second" }));
    assert_eq!(rig.server("files").executed(), ["first", "second"]);
}

#[test]
fn an_upgrade_is_verified_by_every_server_and_rolled_back_for_all() {
    let rig = files(&["--version", "1.0"]);
    let upgrade = |flags: &[&str]| {
        let (program, dir) = (fault_server(), rig.server("files").dir().to_owned());
        let own = [program.to_str().unwrap(), "--dir", dir.to_str().unwrap()];
        let words = ["restart", "request", "files", "--reason", "r", "--command"];
        let words: Vec<&str> = words.iter().chain(&own).chain(flags).copied().collect();
        let id = rig.ops(&words).done()["operation"]["id"].as_str().unwrap().to_owned();
        rig.ended(&id)
    };
    // With nobody there the command is tried all the same.
    let tried = upgrade(&["--die-at", "initialize", "--die-message", "no licence"]);
    assert_eq!(tried["phase"], "RolledBack", "{tried}");
    assert!(tried["rejected"]["files"].as_str().unwrap().contains("no licence"), "{tried}");
    assert_eq!(upgrade(&["--version", "2.0"])["versions"]["files"]["after"], "2.0");
    let is_server = |it: &Residue| it.command.contains("tidegate-fault-server");
    eventually("what was tried is ended", || !rig.running().iter().any(is_server));

    let mut clients: Vec<Client> = ["c1", "c2"].map(|name| rig.connect("files", name)).into();
    let failed = upgrade(&["--die-at", "list", "--die-message", "no tools"]);
    assert_eq!(failed["phase"], "RolledBack", "{failed}");
    for client in &mut clients {
        client.tool("append", json!({ "text": "served" }));
    }
    let ended = upgrade(&["--version", "3.0"]);
    assert_eq!(ended["versions"]["files"], json!({ "before": "2.0", "after": "3.0" }), "{ended}");
    let starts = rig.server("files").starts().len();
    let mut late = rig.connect("files", "c3");
    late.tool("append", json!({ "text": "late" }));
    assert_eq!(rig.server("files").starts().len(), starts + 1, "one for each session, and none beside them");
}

#[test]
fn a_server_that_dies_concerns_its_own_session_alone() {
    let rig = files(&[]);
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let (before, other) = (server_of(&rig, "c1")["pid"].clone(), server_of(&rig, "c2")["pid"].clone());
    let (latch, call) = working(&rig, &mut c2, "beside");
    let cut = c1.call("append", json!({ "text": "cut", "die": "after-commit" }));
    assert_eq!(c1.refused(&cut)["kind"], "outcome_unknown");
    c1.tool("append", json!({ "text": "next" }));
    pid_of(&rig, "c1", &before);
    latch.open();
    c2.result(&call);
    assert_eq!(server_of(&rig, "c2")["pid"], other);
    assert_eq!(rig.server("files").executed().len(), 3);
    let about = rig.local(&["incidents", "list"]).done().to_string();
    assert!(about.contains("files of local/c1 exited with status 1"), "{about}");
    assert_eq!(rig.resume("c2")["next_action"]["kind"], "Continue");
    assert_ne!(rig.resume("c1")["next_action"]["kind"], "Continue");
}

#[test]
fn the_sessions_of_a_killed_daemon_have_their_servers_again_and_late_answers_arrive() {
    let mut rig = files(&[]);
    let (mut c1, mut c2) = (able(&rig, "c1", json!({ "roots": {} })), rig.connect("files", "c2"));
    let server = rig.server("files").clone();
    let latch = server.latch("late");
    let call = c1.call("append", json!({ "text": "late", "answer_until_file": latch.path() }));
    server.executes("late");
    rig.kill();
    let waiting = c2.call("append", json!({ "text": "waiting" }));
    rig.serve();
    c2.result(&waiting);
    latch.open();
    assert_eq!(start_of(&c1.result(&call)), 1);
    c1.tool("append", json!({ "text": "next" }));
    assert_eq!(server.executed(), ["late", "waiting", "next"]);
    let all = server.received();
    let introduced = |it: &&Value| it["message"]["params"]["capabilities"]["roots"].is_object();
    assert_eq!(all.iter().filter(introduced).count(), 2, "it is told of the same client again");
    assert_eq!(rig.open_incidents(), Vec::<Value>::new());
}

#[test]
fn a_restart_beside_an_old_server_that_may_be_at_work_is_refused_before_anything_is_stopped() {
    let mut rig = Plan::new().policy("drain_deadline = \"1s\"").fault_with("files", &[], OWN).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    let (latch, call) = working(&rig, &mut c1, "long");
    rig.kill();
    rig.serve();
    assert_eq!(c1.refused(&call)["kind"], "outcome_unknown");
    let survived = |rig: &Rig| rig.open_incidents().iter().any(|it| it["kind"] == "tree_survived");
    eventually("its old server is known to be there", || survived(&rig));
    c2.tool("append", json!({ "text": "beside" }));
    let pid = server_of(&rig, "c2")["pid"].clone();
    let refused = rig.ended(&rig.request("ops", &["files"]));
    assert_eq!(refused["phase"], "Refused", "{refused}");
    assert!(refused["note"].as_str().unwrap().contains("files: of local/c1: processes ["), "{refused}");
    assert_eq!(server_of(&rig, "c2")["pid"], pid);
    latch.open();
    eventually("the proof that it is gone settles that", || !survived(&rig));
    rig.restarts(&["files"]);
    c1.tool("append", json!({ "text": "served" }));
}

#[test]
fn what_nobody_comes_back_for_after_a_crash_is_settled_and_forgotten() {
    let mut rig = files(&["--ignore-eof"]);
    let c1 = rig.connect("files", "c1");
    let pid = server_of(&rig, "c1")["pid"].clone();
    rig.kill();
    c1.kill();
    rig.serve();
    let pid = u32::try_from(pid.as_u64().unwrap()).unwrap();
    let runs = || tidegate_host::process_table().unwrap().get(&pid).is_some_and(|stat| stat.is_running());
    eventually("its server is ended", || !runs());
    eventually("that is on record", || rig.component("files")["servers"] == json!([]));
}

#[test]
fn a_server_ends_with_its_session_and_the_next_one_of_that_name_gets_another() {
    let rig = files(&[]);
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("files", "c2"));
    c1.tool("put", json!({ "key": "k", "value": "v" }));
    rig.ops(&["sessions", "end", "c1"]).done();
    eventually("its server ends", || {
        let servers = rig.component("files")["servers"].clone();
        servers.as_array().unwrap().iter().all(|it| it["session"] != "c1")
    });
    c2.tool("append", json!({ "text": "beside" }));
    let mut again = rig.connect("files", "c1");
    assert_eq!(again.tool("read", json!({ "key": "k" }))["structuredContent"]["value"], Value::Null);
    assert_eq!(rig.server("files").starts().len(), 3);
    assert_eq!(rig.open_incidents(), Vec::<Value>::new());
}

#[test]
fn a_daemon_that_is_told_to_end_leaves_no_server_of_any_session() {
    let mut rig = files(&["--slow-exit-ms", "100"]);
    let clients: Vec<Client> = ["c1", "c2", "c3"].map(|name| rig.connect("files", name)).into();
    assert_eq!(rig.terminate().code, Some(0));
    rig.leaves_no_server();
    drop(clients);
}
