//! One SDK and its sessions at several servers at once, through whatever can happen to the servers and to the daemon.

use super::servers::{House, Outside};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tidegate_suite::harness::{Rig, Sdk, SdkClient, until};

/// A session at one server.
struct Visit {
    server: Outside,
    client: SdkClient,
}

impl Visit {
    /// Begins the server's call.
    fn call(&mut self) -> u64 {
        self.client.call(self.server.tool, self.server.arguments.clone())
    }

    /// The answer is the one that the server gives.
    #[track_caller]
    fn answered(&mut self, call: u64, when: &str) {
        let answer = self.client.result(call);
        let (name, expected) = (self.server.name, self.server.answer);
        assert!(answer["isError"] != true, "{name}, {when}: {answer:#}");
        assert!(answer.to_string().contains(expected), "{name}, {when}: {expected:?} is not in {answer:#}");
    }
}

/// Takes the sessions of an SDK through everything.
pub(super) fn through(sdk: Sdk, names: &[&str]) {
    let house = House::new();
    let servers = house.servers(names);
    let mut rig = House::plan(&servers).start();
    let mut visits: Vec<Visit> = servers.into_iter().map(|server| visit(sdk, &rig, server)).collect();
    everybody_is_answered(&mut visits, "at first");

    // A governed restart of all of them, with calls that meet it.
    let id = rig.request("ops", names);
    everybody_is_answered(&mut visits, "in a restart");
    assert_eq!(rig.ended(&id)["phase"], "Completed");
    everybody_is_answered(&mut visits, "after a restart");

    for visit in &mut visits {
        let call = visit.call();
        upgrade(&rig, &visit.server);
        visit.answered(call, "in an upgrade");
    }
    everybody_is_answered(&mut visits, "after an upgrade");

    // Servers that are killed are there again for the next call.
    for name in names {
        kill(&rig, name);
    }
    everybody_is_answered(&mut visits, "after their servers were killed");

    rig.kill();
    rig.serve();
    everybody_is_answered(&mut visits, "after the daemon was killed");

    for Visit { mut client, .. } in visits {
        client.ask("close", json!({}));
        let complaints: Vec<_> =
            client.complaints().into_iter().filter(|it| it["event"] == "error").collect();
        assert!(complaints.is_empty(), "{complaints:?}");
        assert_eq!(client.end().code, Some(0));
    }
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    rig.leaves_nothing();
}

/// Connects through Tidegate, and sees what a client sees that connects without.
fn visit(sdk: Sdk, rig: &Rig, server: Outside) -> Visit {
    let (program, args) = rig.connect_args(server.name, &format!("{sdk:?}-{}", server.name));
    let mut client = SdkClient::of(sdk);
    client.ask("connect", json!({ "command": program, "args": args }));
    let through = client.ask("listTools", json!({}));
    assert_eq!(through, direct(sdk, &server), "{}: its tools are others through Tidegate", server.name);
    Visit { server, client }
}

/// What a session without Tidegate is told of the server's tools.
fn direct(sdk: Sdk, server: &Outside) -> Value {
    let mut client = SdkClient::of(sdk);
    client.ask("connect", json!({ "command": server.command[0], "args": server.command[1..] }));
    let tools = client.ask("listTools", json!({}));
    client.ask("close", json!({}));
    client.end();
    tools
}

/// All calls at once, then all answers.
#[track_caller]
fn everybody_is_answered(visits: &mut [Visit], when: &str) {
    let calls: Vec<u64> = visits.iter_mut().map(Visit::call).collect();
    for (visit, call) in visits.iter_mut().zip(calls) {
        visit.answered(call, when);
    }
}

/// From now on the server is started by another command, and stays it.
pub(super) fn upgrade(rig: &Rig, server: &Outside) {
    let asked =
        ["restart", "request", server.name, "--reason", "a newer one", "--command", "env", "TIDE=new"];
    let words: Vec<&str> = asked.into_iter().chain(server.command.iter().map(String::as_str)).collect();
    let id = rig.ops(&words).done()["operation"]["id"].as_str().unwrap().to_owned();
    assert_eq!(rig.ended(&id)["phase"], "Completed", "{}", server.name);
}

/// `kill -9` of a server; waits until its successor is there.
pub(super) fn kill(rig: &Rig, name: &str) {
    let before = rig.is_ready(name);
    let pid = i32::try_from(before["pid"].as_u64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until(&format!("{name} is there again"), || {
        Some(rig.component(name)).filter(|it| it["state"] == "ready" && it["pid"] != before["pid"])
    });
}
