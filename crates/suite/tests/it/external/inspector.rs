//! The command line of the MCP inspector: a client that connects, asks once and goes.

use super::servers::{House, Outside};
use super::tour::{kill, upgrade};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tidegate_suite::harness::{Output, Plan, Rig, outside, snippets, tidegate};

/// What server-everything has only for clients with roots, as the inspector is one. A shared server is told of nobody's roots.
const ONLY_WITH_ROOTS: &str = "get-roots-list";

/// Asks a server once; the inspector's options come after the command of the server.
fn ask(program: &Path, args: &[String], question: &[&str]) -> Value {
    let inspector = outside::inspector();
    let mut command = Command::new(&inspector[0]);
    command.args(&inspector[1..]).arg(program).args(args).args(question);
    let answer = Output::of(command.env_remove("TIDEGATE_CONFIG").env_remove("TIDEGATE_TOKEN"));
    answer.done()
}

fn tools(program: &Path, args: &[String]) -> Value {
    ask(program, args, &["--method", "tools/list"])["tools"].clone()
}

fn call(rig: &Rig, server: &Outside, when: &str) {
    let (program, args) = through(rig, server);
    let mut question =
        vec!["--method".to_owned(), "tools/call".into(), "--tool-name".into(), server.tool.into()];
    for (name, value) in server.arguments.as_object().unwrap() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        question.extend(["--tool-arg".to_owned(), format!("{name}={value}")]);
    }
    let question: Vec<&str> = question.iter().map(String::as_str).collect();
    let answer = ask(&program, &args, &question);
    let (name, expected) = (server.name, server.answer);
    assert!(answer.to_string().contains(expected), "{name}, {when}: {expected:?} is not in {answer:#}");
}

/// How a client is told to reach a server through Tidegate. The inspector takes options of its own name for itself, so the
/// configuration comes by the environment.
fn through(rig: &Rig, server: &Outside) -> (std::path::PathBuf, Vec<String>) {
    let config = format!("TIDEGATE_CONFIG={}", rig.config().display());
    let (program, _) = rig.connect_args(server.name, "inspector");
    let program = program.to_str().unwrap().to_owned();
    ("env".into(), vec![config, program, "connect".into(), server.name.into()])
}

/// Visits every server before and after whatever can happen to it.
pub(super) fn visits(names: &[&str]) {
    let house = House::new();
    let servers = house.servers(names);
    let mut rig = House::plan(&servers).start();
    for server in &servers {
        let (program, args) = through(&rig, server);
        let mut direct = tools(Path::new(&server.command[0]), &server.command[1..]);
        direct.as_array_mut().unwrap().retain(|tool| tool["name"] != ONLY_WITH_ROOTS);
        assert_eq!(tools(&program, &args), direct, "{}: its tools are others through Tidegate", server.name);
        call(&rig, server, "at first");
    }
    rig.restarts(names);
    for server in &servers {
        call(&rig, server, "after a restart");
        upgrade(&rig, server);
        call(&rig, server, "after an upgrade");
        kill(&rig, server.name);
    }
    rig.kill();
    rig.serve();
    for server in &servers {
        call(&rig, server, "after everything");
    }
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    rig.leaves_nothing();
}

/// Each server of each snippet of docs/clients.md, with the paths of this machine in it, is reached by the inspector.
pub(super) fn takes_every_snippet() {
    let rig = Plan::new().fault("files", &[]).start();
    let file = rig.root().join("mcp.json");
    for snippet in snippets() {
        let here = |word: &String| match word.as_str() {
            "/home/you/tidegate.toml" => rig.config().to_str().unwrap().to_owned(),
            word => word.to_owned(),
        };
        let args: Vec<String> = snippet.args.iter().map(here).collect();
        let servers =
            json!({ "mcpServers": { snippet.server.as_str(): { "command": tidegate(), "args": args } } });
        std::fs::write(&file, servers.to_string()).unwrap();
        let inspector = outside::inspector();
        let mut command = Command::new(&inspector[0]);
        command.args(&inspector[1..]).arg("--config").arg(&file).args(["--server", &snippet.server]);
        let answer = Output::of(command.args(["--method", "tools/list"])).done();
        let tools = answer["tools"].as_array().unwrap();
        assert!(!tools.is_empty(), "{}: {} has no tools", snippet.client, snippet.server);
    }
}
