//! What `docs/clients.md` tells people to write: our own readers take it, and a doctor finds nothing wrong with it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use tidegate_suite::harness::{Output, Plan, snippets, tidegate};

/// The name of a client's own file, below a home directory.
fn file_of(client: &str) -> Option<&'static str> {
    Some(match client {
        "Claude Code" => ".claude.json",
        "Claude Desktop" => ".config/Claude/claude_desktop_config.json",
        "Cursor" => ".cursor/mcp.json",
        "VS Code" => ".config/Code/User/mcp.json",
        "Windsurf" => ".codeium/windsurf/mcp_config.json",
        "Zed" => ".config/zed/settings.json",
        _ => return None,
    })
}

#[test]
fn every_client_that_the_doctor_knows_has_a_snippet_that_the_doctor_likes() {
    let rig = Plan::new().fault("files", &[]).build();
    let home = rig.root().join("home");
    let mut expected = BTreeSet::new();
    for snippet in snippets() {
        let Some(file) = file_of(&snippet.client) else { continue };
        let file = home.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = snippet.text.replace("/home/you/tidegate.toml", rig.config().to_str().unwrap());
        std::fs::write(file, text.replace("/home/you/.cargo/bin/tidegate", tidegate().to_str().unwrap()))
            .unwrap();
        expected.insert(snippet.client);
    }
    assert_eq!(expected.len(), 6, "{expected:?}");
    let mut doctor = rig.command(None);
    let seen =
        Output::of(doctor.args(["doctor", "--json"]).env("HOME", &home).current_dir(rig.root())).document();
    let clients: Vec<&Value> =
        seen["findings"].as_array().unwrap().iter().filter(|it| it["check"] == "client").collect();
    for client in expected {
        let said =
            clients.iter().find(|it| it["said"].as_str().is_some_and(|said| said.starts_with(&client)));
        let said = said.unwrap_or_else(|| panic!("nothing is said of {client}: {clients:#?}"));
        assert!(said["verdict"] == "ok" && said["said"].as_str().unwrap().contains("files"), "{said}");
    }
    assert!(clients.iter().all(|it| it["verdict"] == "ok"), "{clients:#?}");
}

#[test]
fn every_snippet_is_a_command_line_of_this_version() {
    let rig = Plan::new().fault("files", &[]).build();
    for snippet in snippets() {
        assert_eq!(snippet.command, "/home/you/.cargo/bin/tidegate", "{snippet:?}");
        let config = rig.config();
        let args = snippet.args.iter().map(|word| match word.as_str() {
            "/home/you/tidegate.toml" => config.to_str().unwrap(),
            word => word,
        });
        // A shim whose client is gone already ends at once, and well if its command line is one.
        let output = Output::of(Command::new(tidegate()).args(args).stdin(std::process::Stdio::null()));
        assert_eq!(output.code, 0, "{}: {output:?}", snippet.client);
    }
}
