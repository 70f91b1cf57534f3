//! The file that a client has already: as a configuration, and served as it is.

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tidegate_suite::harness::{Client, Output, Process, eventually, fault_server, tidegate};

/// A client's file with a fault server, a remote server and a disabled one; the server's directory is beside it.
fn clients_file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let server = dir.path().join("files");
    std::fs::create_dir(&server).unwrap();
    let file = dir.path().join("mcp.json");
    let script = server.join("script");
    let args = ["--dir", server.to_str().unwrap(), "--script", script.to_str().unwrap()];
    let text = json!({ "mcpServers": {
        "files": { "command": fault_server(), "args": args, "env": { "API_TOKEN": "hunter2" } },
        "remote": { "type": "http", "url": "https://example.org/mcp", "headers": { "Authorization": "Bearer hunter2" } },
        "old": { "command": "x", "disabled": true },
    } });
    std::fs::write(&file, text.to_string()).unwrap();
    (dir, file)
}

fn run(args: &[&str]) -> Output {
    Output::of(Command::new(tidegate()).args(args).env_remove("TIDEGATE_CONFIG").env_remove("TIDEGATE_TOKEN"))
}

#[test]
fn an_imported_file_is_a_configuration_that_can_be_served_and_kept_secret() {
    let (dir, file) = clients_file();
    let (file, out) = (file.to_str().unwrap(), dir.path().join("tidegate.toml"));
    let imported = run(&["import", file, "--out", out.to_str().unwrap()]);
    assert_eq!(imported.code, 0, "{imported:?}");
    assert!(imported.stdout.starts_with("1 component;"), "{imported:?}");
    assert!(imported.stderr.contains("remote is left out: it is reached over HTTP"), "{imported:?}");
    assert!(imported.stderr.contains("old is left out: it is disabled"), "{imported:?}");
    assert!(imported.stderr.contains("API_TOKEN looks like a secret"), "{imported:?}");
    assert!(!format!("{imported:?}").contains("hunter2"), "{imported:?}");
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);

    // What is there is never written over.
    let again = run(&["import", file, "--out", out.to_str().unwrap()]);
    assert!(again.cannot().contains("is there already"), "{again:?}");

    // A doctor finds nothing wrong with it but that nobody can approve.
    let seen = run(&["doctor", "--json", "--config", out.to_str().unwrap()]).done();
    let configuration: Vec<_> =
        seen["findings"].as_array().unwrap().iter().filter(|it| it["check"] == "configuration").collect();
    assert_eq!(configuration[0]["verdict"], "ok", "{seen:#}");
}

#[test]
fn what_import_prints_is_the_same_and_in_json_with_every_server_s_fate() {
    let (_dir, file) = clients_file();
    let file = file.to_str().unwrap();
    let printed = run(&["import", file]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let document = run(&["import", file, "--json"]).done();
    assert_eq!(document["configuration"].as_str().unwrap().trim_end(), printed.stdout.trim_end());
    assert_eq!(document["components"], json!([{ "server": "files", "component": "files" }]));
    let left: Vec<&Value> = document["left"].as_array().unwrap().iter().map(|it| &it["server"]).collect();
    assert_eq!(left, [&json!("remote"), &json!("old")]);
    assert_eq!(document["version"], 1);
}

#[test]
fn a_file_without_a_server_that_can_be_served_is_no_and_one_without_servers_can_not_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mcp.json");
    let import = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(&["import", file.to_str().unwrap()])
    };
    let remote = import(r#"{"mcpServers":{"remote":{"url":"https://example.org"}}}"#);
    assert!(remote.no().contains("remote is left out"), "{remote:?}");
    assert!(import("{}").cannot().contains("mcpServers"));
    assert!(import("no json").cannot().contains("is no JSON"));
    assert!(run(&["import", "/nowhere/mcp.json"]).cannot().contains("/nowhere/mcp.json"));
}

#[test]
fn a_client_s_file_is_served_as_it_is_with_its_state_beside_it() {
    let (dir, file) = clients_file();
    let mut serve = Command::new(tidegate());
    serve.args(["serve", "--log-format", "json", "--mcp-config"]).arg(&file);
    serve.env_remove("TIDEGATE_CONFIG").env_remove("TIDEGATE_TOKEN");
    let daemon = Process::start("the daemon", serve);
    eventually("the daemon accepts", || daemon.stderr().contains(r#""message":"ready""#));
    assert!(dir.path().join(".tidegate/tidegate.sock").exists());

    // A shim finds the same daemon by the same file.
    let mut shim = Command::new(tidegate());
    shim.args(["connect", "files", "--session", "s1", "--config"]).arg(&file);
    let mut client = Client::start("s1", shim);
    client.handshake();
    assert_eq!(client.tool("append", json!({ "text": "a" }))["structuredContent"]["start"], 1);
    assert_eq!(client.close().code, Some(0));

    daemon.signal(rustix::process::Signal::TERM);
    let ended = daemon.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    every_line_is_an_event(&ended.stderr, &dir.path().join(".tidegate/tidegate.sock"));
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

/// Each line of a log in JSON is one object with a time, a level and a message; some say what they are about.
fn every_line_is_an_event(log: &str, socket: &Path) {
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for event in &events {
        assert!(event["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{event}");
        assert!(["info", "warning"].iter().any(|level| event["level"] == *level), "{event}");
        assert!(event["message"].is_string(), "{event}");
    }
    let has = |field: &str, value: &str| events.iter().any(|event| event[field] == value);
    assert!(has("socket", socket.to_str().unwrap()), "{log}");
    assert!(has("component", "files"), "{log}");
    assert!(
        has(
            "message",
            "remote is left out: it is reached over HTTP, which is not available yet: leave it in the client's own configuration"
        ),
        "{log}"
    );
}
