//! Upgrades, reloads and takeovers: what is approved is what runs, what fails is rolled back, and nobody has to come back.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;
use tidegate_suite::harness::{Call, Client, Latch, Plan, Process, Rig, eventually, fault_server, until};

fn start_of(result: &Value) -> &Value {
    &result["structuredContent"]["start"]
}

/// The command line of a fault server for a rig's component, with these flags.
fn fault(rig: &Rig, component: &str, flags: &[&str]) -> Vec<String> {
    let (program, dir) = (fault_server(), rig.server(component).dir().to_owned());
    let own = [program.to_str().unwrap(), "--dir", dir.to_str().unwrap()];
    own.iter().chain(flags).map(|word| (*word).to_owned()).collect()
}

/// An upgrade asked for by the operator; gives how it ended.
fn upgrade(rig: &Rig, component: &str, flags: &[&str]) -> Value {
    let command = fault(rig, component, flags);
    let asked = ["restart", "request", component, "--reason", "the test says so", "--command"];
    let words: Vec<&str> = asked.into_iter().chain(command.iter().map(String::as_str)).collect();
    let id = rig.ops(&words).done()["operation"]["id"].as_str().unwrap().to_owned();
    rig.ended(&id)
}

/// Changes the configuration: `from`, which is in it, becomes `to`.
fn edit(rig: &Rig, from: &str, to: &str) {
    let text = std::fs::read_to_string(rig.config()).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(rig.config(), text.replacen(from, to, 1)).unwrap();
}

#[test]
fn an_upgrade_that_fails_its_handshake_is_rolled_back() {
    let rig = Plan::new().fault("files", &[]).start();
    let mut c1 = rig.connect("files", "c1");
    let ended = upgrade(&rig, "files", &["--die-at", "initialize", "--die-message", "no licence"]);
    assert_eq!(
        (&ended["phase"], &ended["generations"]["files"]),
        (&json!("RolledBack"), &json!({ "before": 1, "after": 3 }))
    );
    assert!(ended["rejected"]["files"].as_str().unwrap().contains("no licence"), "{ended}");
    let incidents = rig.open_incidents();
    assert_eq!((incidents.len(), &incidents[0]["kind"]), (1, &json!("rolled_back")), "{incidents:?}");
    assert_eq!(ended["incident"], incidents[0]["id"]);
    // The old command serves, and goes on doing so.
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "a" }))), 3);
    rig.restarts(&["files"]);
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "b" }))), 4);
}

#[test]
fn an_upgrade_says_whether_the_version_really_changed_and_is_kept() {
    let mut rig = Plan::new().fault("files", &["--version", "1.0"]).start();
    let mut c1 = rig.connect("files", "c1");
    let ended = upgrade(&rig, "files", &["--version", "2.0"]);
    assert_eq!(ended["versions"]["files"], json!({ "before": "1.0", "after": "2.0" }), "{ended}");
    assert_eq!(ended["note"], "files went from version 1.0 to 2.0");
    let ended = upgrade(&rig, "files", &["--version", "2.0", "--crlf"]);
    assert_eq!(ended["phase"], "Completed");
    assert!(ended["note"].as_str().unwrap().contains("this was no upgrade"), "{ended}");

    // It outlives a crash of the server, a plain restart and the daemon.
    let version = |rig: &Rig| rig.restarts(&["files"])["versions"]["files"]["after"].clone();
    assert_eq!(version(&rig), "2.0");
    rig.kill();
    rig.serve();
    rig.is_ready("files");
    assert_eq!(version(&rig), "2.0");
    c1.tool("append", json!({ "text": "a" }));
    // Until the configuration names another command.
    edit(&rig, "\"1.0\"", "\"3.0\"");
    let proposed = rig.ops(&["reload"]).done()["operations"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(rig.ended(&proposed)["versions"]["files"], json!({ "before": "2.0", "after": "3.0" }));
    assert_eq!(version(&rig), "3.0");
}

#[test]
fn an_upgrade_is_bound_to_its_approval_and_a_command_that_is_not_there_is_refused_at_once() {
    let rig = Plan::new().fault("files", &[]).start();
    let asked = ["restart", "request", "files", "--reason", "r", "--command", "/no/such/server"];
    let refused = rig.local(&asked);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("/no/such/server"), "{refused:?}");
    let command = fault(&rig, "files", &["--version", "9.9"]);
    let asked = asked[..6].iter().copied().chain(command.iter().map(String::as_str)).collect::<Vec<_>>();
    let operation = rig.local(&asked).done()["operation"].clone();
    assert_eq!(operation["phase"], "Requested");
    assert_eq!(operation["commands"]["files"], json!(command), "who approves it sees the command");
    let id = operation["id"].as_str().unwrap();
    rig.ops(&["restart", "approve", id]).done();
    assert_eq!(rig.ended(id)["versions"]["files"]["after"], "9.9");
}

#[test]
fn a_reload_restarts_what_has_changed_and_nothing_else() {
    let rig = Plan::new().fault("files", &["--version", "1.0"]).fault("mail", &[]).start();
    let (mut c1, mut c2) = (rig.connect("files", "c1"), rig.connect("mail", "c2"));
    let mail = rig.server("mail").clone();
    let latch = mail.latch("beside");
    let beside = c2.call("append", json!({ "text": "beside", "until_file": latch.path() }));
    mail.arrives("beside");
    let pid = rig.component("mail")["pid"].clone();
    assert_eq!(rig.ops(&["reload"]).done()["operations"], json!([]), "nothing has changed");

    edit(&rig, "\"1.0\"", "\"1.1\"");
    let proposed = rig.ops(&["reload"]).done()["operations"].clone();
    assert_eq!(proposed.as_array().unwrap().len(), 1);
    assert_eq!(proposed[0]["scope"], json!(["files"]));
    let ended = rig.ended(proposed[0]["id"].as_str().unwrap());
    assert_eq!(ended["versions"]["files"], json!({ "before": "1.0", "after": "1.1" }), "{ended}");
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "a" }))), 2);
    assert_eq!(rig.component("mail")["pid"], pid);
    latch.open();
    assert_eq!(start_of(&c2.result(&beside)), 1);
}

#[test]
fn a_hangup_proposes_and_restarts_nothing_and_never_changes_the_policy() {
    let rig = Plan::new().fault("files", &[]).start();
    rig.is_ready("files");
    edit(&rig, "trust_annotations = true", "[component.tools]\n\"append\" = \"read-only\"");
    edit(&rig, "[policy]", "[policy]\ndrain_deadline = \"1s\"");
    rig.daemon().signal(Signal::HUP);
    let proposed = until("the proposal", || {
        let operations = rig.status()["operations"].clone();
        operations.as_array().unwrap().first().cloned()
    });
    assert_eq!((&proposed["phase"], &proposed["requested_by"]), (&json!("Requested"), &json!("local")));
    assert_eq!(rig.component("files")["generation"], 1);
    // The same is proposed once; changed again, the approval of the first is void.
    let again = rig.local(&["reload"]).done();
    assert_eq!(again["operations"][0]["id"], proposed["id"]);
    assert!(again["notes"][0].as_str().unwrap().contains("policy"), "{again}");
    edit(&rig, "read-only", "idempotent");
    let void = rig.ops(&["restart", "approve", proposed["id"].as_str().unwrap()]);
    assert_eq!(void.code, 1, "{void:?}");
    assert_eq!(rig.component("files")["generation"], 1);
}

fn takeover(rig: &Rig, by: Option<&str>) -> Process {
    let mut command: Command = rig.command(by);
    command.args(["serve", "--takeover"]);
    Process::start("the new daemon", command)
}

fn is_ready(daemon: &mut Process) {
    eventually("the new daemon is ready", || {
        assert!(daemon.is_running(), "{}", daemon.stderr());
        daemon.stderr().lines().any(|line| line.starts_with("ready "))
    });
}

#[test]
fn a_takeover_under_live_clients_loses_nothing_and_asks_nothing_of_them() {
    let mut rig = Plan::new().fault("files", &["--slow-exit-ms", "200"]).fault("mail", &[]).start();
    let mut clients: Vec<Client> =
        (0..4).map(|n| rig.connect(if n % 2 == 0 { "files" } else { "mail" }, &format!("c{n}"))).collect();
    let latch = rig.server("files").latch("first");
    let first = clients[0].call("append", json!({ "text": "first", "until_file": latch.path() }));
    rig.server("files").arrives("first");
    let mut new = takeover(&rig, Some("ops"));
    eventually("the drain", || rig.component("files")["state"] == "draining");
    let held: Vec<_> =
        clients.iter_mut().map(|client| client.call("append", json!({ "text": "held" }))).collect();
    latch.open();
    is_ready(&mut new);
    assert_eq!(rig.ended_by_itself().code, Some(0));
    assert_eq!(clients[0].result(&first)["structuredContent"]["start"], 1);
    for (client, call) in clients.iter_mut().zip(&held) {
        assert_eq!(start_of(&client.result(call)), 2);
        assert_eq!(client.unanswered(), []);
    }
    assert_eq!(rig.server("files").executed(), ["first", "held", "held"]);
    assert_eq!(rig.open_incidents(), Vec::<Value>::new());
}

/// A session's write that executes, and a takeover that waits for it; a second write is held.
struct Taken {
    rig: Rig,
    client: Client,
    latch: Latch,
    first: Call,
    held: Call,
    new: Process,
}

impl Taken {
    fn in_the_middle() -> Self {
        let rig = Plan::new().fault("files", &[]).start();
        let mut client = rig.connect("files", "c1");
        let latch = rig.server("files").latch("first");
        let first = client.call("append", json!({ "text": "first", "until_file": latch.path() }));
        rig.server("files").arrives("first");
        let new = takeover(&rig, Some("ops"));
        eventually("the drain", || rig.component("files")["state"] == "draining");
        let held = client.call("append", json!({ "text": "held" }));
        rig.holds("files", 1);
        Self { rig, client, latch, first, held, new }
    }

    /// Both writes are answered, the first by the old server, and each was executed once.
    fn ends_whole(mut self) {
        assert_eq!(start_of(&self.client.result(&self.first)), 1);
        assert_eq!(start_of(&self.client.result(&self.held)), 2);
        assert_eq!(self.client.unanswered(), []);
        assert_eq!(self.rig.server("files").executed(), ["first", "held"]);
    }
}

#[test]
fn a_daemon_that_is_killed_while_it_is_taken_over_is_followed_all_the_same() {
    let mut taken = Taken::in_the_middle();
    let id = taken.rig.status()["operations"][0]["id"].as_str().unwrap().to_owned();
    taken.rig.kill();
    taken.latch.open();
    is_ready(&mut taken.new);
    let operation = taken.rig.ended(&id);
    assert_eq!(operation["phase"], "Failed", "{operation}");
    assert!(operation["incident"].is_string(), "{operation}");
    taken.ends_whole();
}

#[test]
fn a_successor_that_is_killed_leaves_the_drain_to_its_predecessor_and_the_place_to_the_next() {
    let mut taken = Taken::in_the_middle();
    taken.new.signal(Signal::KILL);
    eventually("the successor is gone", || !taken.new.is_running());
    taken.latch.open();
    assert_eq!(taken.rig.ended_by_itself().code, Some(0));
    taken.rig.serve();
    taken.ends_whole();
}

#[test]
fn a_takeover_needs_the_approvals_of_a_restart() {
    let rig = Plan::new().fault("files", &[]).start();
    rig.is_ready("files");
    let new = takeover(&rig, None);
    let id = until("the request", || rig.status()["operations"][0]["id"].as_str().map(str::to_owned));
    assert_eq!(rig.operation(&id)["phase"], "Requested");
    rig.ops(&["restart", "deny", &id]).done();
    let ended = new.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(rig.component("files")["generation"], 1);
}

#[test]
fn unsafe_calls_are_cut_only_by_an_operator_who_says_so_and_that_is_on_record() {
    let rig = Plan::new().policy("drain_deadline = \"300ms\"").fault("files", &["--ignore-eof"]).start();
    let mut c1 = rig.connect("files", "c1");
    let latch = rig.server("files").latch("cut");
    let call = c1.call("append", json!({ "text": "cut", "answer_until_file": latch.path() }));
    rig.server("files").executes("cut");
    let ask = ["restart", "request", "files", "--reason", "wedged", "--break-glass"];
    let cutting = [&ask[..], &["--abandon-unsafe"]].concat();
    assert_eq!(rig.local(&cutting).code, 1, "nobody but an operator");
    assert_eq!(rig.ops(&["restart", "request", "files", "--reason", "r", "--abandon-unsafe"]).code, 2);
    let id = rig.ops(&ask).done()["operation"]["id"].as_str().unwrap().to_owned();
    assert_eq!(rig.ended(&id)["phase"], "Refused", "breaking the glass cuts nothing");

    let id = rig.ops(&cutting).done()["operation"]["id"].as_str().unwrap().to_owned();
    let ended = rig.ended(&id);
    assert_eq!(
        (&ended["phase"], &ended["abandoned"][0]["tool"]),
        (&json!("Completed"), &json!("append")),
        "{ended}"
    );
    assert_eq!(c1.refused(&call)["kind"], "outcome_unknown");
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "after" }))), 2);
    let about: Vec<Value> =
        rig.open_incidents().into_iter().filter(|it| it["id"] == ended["incident"]).collect();
    assert_eq!((&about[0]["kind"], &about[0]["severity"]), (&json!("break_glass"), &json!("critical")));
    assert!(about[0]["next_prompt"].as_str().unwrap().contains("append"), "{about:?}");
}

#[test]
fn what_an_operation_has_given_up_comes_back_when_it_is_repaired() {
    let rig = Plan::new().fault("files", &[]).start();
    let server = rig.server("files").clone();
    let mut c1 = rig.connect("files", "c1");
    server.script(&["--die-at", "initialize", "--die-message", "out of licences"]);
    let id = rig.request("ops", &["files"]);
    assert_eq!(rig.ended(&id)["phase"], "Failed");
    let refused = c1.call("append", json!({ "text": "refused" }));
    assert_eq!(c1.refused(&refused)["kind"], "unavailable");
    server.script(&[]);
    rig.is_ready("files");
    assert_eq!(start_of(&c1.tool("append", json!({ "text": "a" }))), 4);
    assert_eq!(rig.open_incidents().len(), 1, "the operation's, and no second one");
}
