//! Who gets a restart through, and who doesn't.

use serde_json::json;
use std::process::Command;
use tidegate_suite::harness::{Client, Plan, Rig, eventually};

fn rig() -> Rig {
    let rig = Plan::new()
        .policy("approvers = [\"operator\", \"reviewer\"]")
        .principal("reviewer")
        .principal("coder")
        .fault("files", &[])
        .start();
    rig.is_ready("files");
    rig
}

/// Whether a message says all of this.
#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

/// Nothing was restarted.
#[track_caller]
fn untouched(rig: &Rig) {
    let component = rig.component("files");
    assert_eq!((&component["generation"], &component["restarts"]), (&json!(1), &json!(0)), "{component}");
}

#[test]
fn two_sessions_of_one_agent_and_a_shell_beside_it_get_no_restart_through() {
    let rig = rig();
    let mut asking = rig.control("s1");
    let mut other = rig.control("s2");
    let asked = asking.tool("restart_request", json!({ "components": ["files"], "reason": "stuck" }));
    let id = asked["structuredContent"]["operation"]["id"].as_str().unwrap().to_owned();
    for session in [&mut asking, &mut other] {
        let call = session.call("restart_approve", json!({ "operation": id }));
        let refusal = session.refused(&call);
        assert_eq!(
            (&refusal["kind"], &refusal["next_action"]["kind"]),
            (&json!("restart_refused"), &json!("RequestApproval"))
        );
    }
    says(rig.local(&["restart", "approve", &id]).no(), &["local", "tidegate: "]);
    says(rig.local(&["restart", "request", "files", "--reason", "x", "--break-glass"]).no(), &["operator"]);
    // No tool of the control endpoint restarts or breaks anything.
    let call = asking
        .call("restart_request", json!({ "components": ["files"], "reason": "x", "break_glass": true }));
    assert!(asking.answer(&call).to_string().contains("break_glass"));
    untouched(&rig);
}

#[test]
fn an_operator_restarts_alone_and_approves_for_others() {
    let rig = rig();
    rig.restarts(&["files"]);
    let id = rig.asks(&["files"]);
    assert_eq!(rig.operation(&id)["phase"], "Requested");
    assert_eq!(rig.ops(&["restart", "approve", &id]).done()["operation"]["approvals"][0]["principal"], "ops");
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    assert_eq!(rig.component("files")["generation"], 3);
}

#[test]
fn an_operator_breaks_the_glass_on_record_and_drain_safety_holds_all_the_same() {
    let rig = Plan::new()
        .policy("drain_deadline = \"1s\"\noperator_approvals = 1")
        .principal("reviewer")
        .fault("files", &[])
        .start();
    let server = rig.server("files").clone();
    let mut session = rig.connect("files", "s1");
    let break_glass = ["restart", "request", "files", "--reason", "the pager rings", "--break-glass"];

    let latch = server.latch("running");
    let running = session.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let operation = rig.ops(&break_glass).done()["operation"].clone();
    assert_eq!(rig.ended(operation["id"].as_str().unwrap())["phase"], "Refused");
    latch.open();
    session.result(&running);

    let operation = rig.ops(&break_glass).done()["operation"].clone();
    let id = operation["id"].as_str().unwrap();
    assert_eq!(rig.ended(id)["phase"], "Completed");
    let broken: Vec<_> = rig.open_incidents().into_iter().filter(|it| it["kind"] == "break_glass").collect();
    assert_eq!(broken.len(), 2, "{broken:?}");
}

#[test]
fn a_listed_agent_approves_others_and_never_itself_and_an_unlisted_one_nobody() {
    let rig = rig();
    let own = rig.request("reviewer", &["files"]);
    says(rig.by("reviewer", &["restart", "approve", &own]).no(), &["reviewer"]);
    let id = rig.request("coder", &["files"]);
    says(rig.by("coder", &["restart", "approve", &id]).no(), &["coder"]);
    says(rig.by("coder", &["restart", "approve", &own]).no(), &["coder"]);
    untouched(&rig);
    let approved = rig.by("reviewer", &["restart", "approve", &id]).done();
    assert_eq!(approved["operation"]["approvals"][0]["principal"], "reviewer");
    assert_eq!(rig.ended(&id)["phase"], "Completed");
}

#[test]
fn a_wrong_token_is_nobodys_and_never_falls_back_to_local() {
    let rig = rig();
    let mut command = rig.command(None);
    let output = command
        .env("TIDEGATE_TOKEN", "tg_wrong")
        .args(["restart", "request", "files", "--reason", "x"])
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    says(&String::from_utf8_lossy(&output.stderr), &["token", "$TIDEGATE_TOKEN", "--token-file"]);
    assert_eq!(rig.local(&["restart", "list"]).done()["operations"], json!([]));
    let missing = rig.local(&["status", "--token-file", "/nowhere/token"]);
    says(missing.cannot(), &["/nowhere/token"]);
    // A shim with a wrong token is refused as well: each of its requests is answered with why.
    let mut command = rig.command(None);
    command.env("TIDEGATE_TOKEN", "tg_wrong").args(["connect", "files"]);
    let mut client = tidegate_suite::harness::Client::start("a wrong token", command);
    let answer = client.ask("initialize", json!({}));
    says(&answer["error"]["message"].to_string(), &["token"]);
}

#[test]
fn an_approval_counts_once() {
    let rig = Plan::new()
        .policy("approvals = 2\napprovers = [\"operator\", \"reviewer\"]")
        .principal("reviewer")
        .fault("files", &[])
        .start();
    let id = rig.asks(&["files"]);
    let once = rig.ops(&["restart", "approve", &id]).done();
    assert_eq!(
        (&once["operation"]["phase"], once["operation"]["approvals"].as_array().unwrap().len()),
        (&json!("Requested"), 1)
    );
    let twice = rig.ops(&["restart", "approve", &id]).done()["operation"].clone();
    assert_eq!((&twice["phase"], twice["approvals"].as_array().unwrap().len()), (&json!("Requested"), 1));
    untouched(&rig);
    assert_eq!(rig.by("reviewer", &["restart", "approve", &id]).done()["operation"]["phase"], "Approved");
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    // Given again after the end it is still the same approval, and restarts nothing.
    assert_eq!(rig.ops(&["restart", "approve", &id]).done()["operation"]["phase"], "Completed");
    assert_eq!(rig.component("files")["generation"], 2);
}

#[test]
fn a_request_expires_and_its_approval_comes_too_late() {
    let rig = Plan::new().policy("request_ttl = \"1s\"").fault("files", &[]).start();
    rig.is_ready("files");
    let id = rig.asks(&["files"]);
    rig.reaches(&id, &["Expired"]);
    says(rig.ops(&["restart", "approve", &id]).no(), &["xpired"]);
    assert_eq!(rig.local(&["restart", "wait", &id]).code, 1);
    untouched(&rig);
}

#[test]
fn an_approval_of_something_changed_is_void() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("server");
    let real = tidegate_suite::harness::fault_server();
    let script = |comment: &str| {
        format!("#!/bin/sh\n# {comment}\nexec {} --dir {}/files\n", real.display(), dir.path().display())
    };
    let install = |text: String| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    install(script("as asked for"));
    let rig = Plan::new().component("files", &[program.to_str().unwrap()], "").start();
    rig.is_ready("files");
    let mut session = rig.control("s1");
    let asked = session.tool("restart_request", json!({ "components": ["files"], "reason": "stale" }));
    let id = asked["structuredContent"]["operation"]["id"].as_str().unwrap().to_owned();
    let mut told = || session.tool("session_resume", json!({}))["structuredContent"]["next_action"].clone();
    assert_eq!((&rig.operation(&id)["void"], &told()["kind"]), (&json!(null), &json!("RequestApproval")));
    install(script("something else"));
    // The session that asked isn't sent for an approval that nobody can give.
    assert_eq!((&told()["kind"], &told()["tool"]), (&json!("RetryCall"), &json!("restart_request")));
    // Whoever looks is told so before they try, and what to type.
    let waiting = rig.operation(&id);
    says(waiting["void"].as_str().unwrap(), &["how files is started", "approvals are void"]);
    says(waiting["next_action"]["prompt"].as_str().unwrap(), &["restart_request"]);
    let status = rig.command(None).arg("status").output().unwrap();
    says(
        &String::from_utf8_lossy(&status.stdout),
        &["can't be approved any more", "tidegate restart request files"],
    );
    let refused = rig.ops(&["restart", "approve", &id]);
    says(refused.no(), &["changed"]);
    untouched(&rig);
    // Asked for as it is now, it can be approved.
    let id = rig.asks(&["files"]);
    rig.ops(&["restart", "approve", &id]).done();
    assert_eq!(rig.ended(&id)["phase"], "Completed");
}

#[test]
fn one_operation_id_is_one_operation() {
    let rig = rig();
    let ask = |reason: &str| {
        rig.local(&["restart", "request", "files", "--reason", reason, "--operation", "op-mine"])
    };
    let first = ask("stuck").done();
    let again = ask("stuck").done();
    assert_eq!(
        (&first["operation"]["id"], &again["operation"]["id"]),
        (&json!("op-mine"), &json!("op-mine"))
    );
    assert_eq!(rig.local(&["restart", "list"]).done()["operations"].as_array().unwrap().len(), 1);
    says(ask("something else").no(), &["op-mine"]);
    rig.ops(&["restart", "approve", "op-mine"]).done();
    assert_eq!(rig.ended("op-mine")["phase"], "Completed");
    assert_eq!(ask("stuck").done()["operation"]["phase"], "Completed", "asking once more restarts nothing");
    assert_eq!(rig.component("files")["generation"], 2);
}

#[test]
fn a_denied_and_a_cancelled_request_restart_nothing() {
    let rig = rig();
    let denied = rig.asks(&["files"]);
    says(rig.by("coder", &["restart", "deny", &denied]).no(), &["coder"]);
    assert_eq!(rig.by("reviewer", &["restart", "deny", &denied]).done()["operation"]["phase"], "Denied");
    says(rig.ops(&["restart", "approve", &denied]).no(), &["enied"]);
    let cancelled = rig.asks(&["files"]);
    says(rig.by("coder", &["restart", "cancel", &cancelled]).no(), &["coder"]);
    assert_eq!(rig.local(&["restart", "cancel", &cancelled]).done()["operation"]["phase"], "Cancelled");
    says(rig.ops(&["restart", "approve", &cancelled]).no(), &["ancelled"]);
    untouched(&rig);
}

#[test]
fn a_drain_is_cancelled_and_the_gate_opens() {
    let rig = rig();
    let server = rig.server("files").clone();
    let mut session = rig.connect("files", "s1");
    let latch = server.latch("running");
    let running = session.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let id = rig.request("ops", &["files"]);
    rig.reaches(&id, &["Draining"]);
    let held = session.call("append", json!({ "text": "held" }));
    rig.holds("files", 1);
    rig.ops(&["restart", "cancel", &id]).done();
    assert_eq!(session.result(&held)["structuredContent"]["start"], 1);
    assert_eq!(rig.ended(&id)["phase"], "Cancelled");
    latch.open();
    session.result(&running);
    untouched(&rig);
}

#[test]
fn a_second_restart_of_the_same_component_is_told_of_the_first() {
    let rig = rig();
    let server = rig.server("files").clone();
    let mut session = rig.connect("files", "s1");
    let latch = server.latch("running");
    session.call("append", json!({ "text": "running", "until_file": latch.path() }));
    server.arrives("running");
    let first = rig.request("ops", &["files"]);
    rig.reaches(&first, &["Draining"]);
    says(rig.ops(&["restart", "request", "files", "--reason", "me too"]).no(), &[&first]);
    latch.open();
    assert_eq!(rig.ended(&first)["phase"], "Completed");
    assert_eq!(rig.component("files")["generation"], 2);
}

#[test]
fn an_unknown_component_or_operation_is_named_and_nothing_happens() {
    let rig = rig();
    says(rig.ops(&["restart", "request", "fiels", "--reason", "x"]).cannot(), &["fiels", "tidegate status"]);
    for verb in ["approve", "deny", "cancel", "show", "wait"] {
        says(rig.ops(&["restart", verb, "op-nothing"]).cannot(), &["op-nothing", "tidegate restart list"]);
    }
    says(rig.local(&["connect", "fiels"]).cannot(), &["fiels", "did you mean `files`?"]);
    untouched(&rig);
}

#[test]
fn with_too_few_approvers_requests_are_refused_at_once_and_serve_warns() {
    let rig = Plan::new().policy("approvals = 2").fault("files", &[]).start();
    eventually("serve warns", || rig.daemon().stderr().contains("requests are refused at once"));
    says(rig.local(&["restart", "request", "files", "--reason", "x"]).no(), &["2"]);
    assert_eq!(rig.local(&["restart", "list"]).done()["operations"], json!([]));
}

/// A stream of `by` that takes a session over, through a client process of its own.
fn steals(rig: &Rig, by: &str, session: &str) -> Client {
    let tidegate = rig.command(None);
    let mut shell = Command::new("sh"); // the client, as far as Tidegate can see
    shell.args(["-c", "\"$@\"; exit $?", "client"]).arg(tidegate.get_program()).args(tidegate.get_args());
    shell.args(["connect", "files", "--session", session, "--steal"]).env("TIDEGATE_TOKEN", rig.token(by));
    Client::start(by, shell)
}

#[test]
fn an_operator_takes_over_anybodys_session_and_comes_back_to_it() {
    let mut rig = rig();
    let owners = |rig: &Rig, session: &str| -> Vec<String> {
        let sessions = rig.status()["sessions"].as_array().unwrap().clone();
        let named = sessions.iter().filter(|it| it["name"] == session);
        named.map(|it| it["principal"].as_str().unwrap().to_owned()).collect()
    };
    let owned = |session: &str| {
        let mut command = rig.command(Some("reviewer"));
        command.args(["connect", "files", "--session", session]);
        let mut owner = Client::start("the owner", command);
        owner.handshake();
        owner
    };
    let (work, play) = (owned("work"), owned("play"));

    // An agent has only its own to take over, and gets one; whose is meant then is no guess.
    let mut agent = steals(&rig, "coder", "work");
    agent.handshake();
    assert_eq!(owners(&rig, "work"), ["coder", "reviewer"]);
    let refused = steals(&rig, "ops", "work").ask(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }),
    );
    says(&refused.to_string(), &["several principals have a session work"]);

    let mut thief = steals(&rig, "ops", "play");
    thief.handshake();
    assert_eq!(owners(&rig, "play"), ["reviewer"]);
    let shown = rig.by("reviewer", &["sessions", "show", "play"]).done();
    assert_eq!(shown["facts"]["steals"][0]["by"], "ops", "{shown}");
    rig.kill();
    rig.serve();
    thief.tool("append", json!({ "text": "after" }));
    assert_eq!(owners(&rig, "play"), ["reviewer"]);
    for client in [work, play, agent, thief] {
        client.close();
    }
}
