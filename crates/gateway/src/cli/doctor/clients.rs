//! The clients on this machine: which of their servers go through Tidegate, which go around it, and which can't work.
//! Only names are told: their files hold secrets.

use super::Places;
use super::finding::Finding;
use crate::config::mcp::{Fate, Import, ImportError, Server};
use crate::config::{Config, nearest};
use std::path::{Path, PathBuf};

const CHECK: &str = "client";

/// Where clients keep their servers, below the home directory.
const AT_HOME: [(&str, &str); 6] = [
    ("Claude Code", ".claude.json"),
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".config/Code/User/mcp.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Zed", ".config/zed/settings.json"),
];
/// The same, below a project's directory.
const HERE: [(&str, &str); 4] = [
    ("Claude Code", ".mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Zed", ".zed/settings.json"),
];

pub(super) fn look(places: &Places, config: Option<&Config>) -> Vec<Finding> {
    let home = places.home.iter().flat_map(|home| AT_HOME.map(|(client, file)| (client, home.join(file))));
    let here = HERE.map(|(client, file)| (client, places.here.join(file)));
    let mut findings = Vec::new();
    for (client, file) in home.chain(here).filter(|(_, file)| file.is_file()) {
        findings.extend(one(client, &file, places, config));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            CHECK,
            "no client's configuration was found; docs/clients.md has what goes into it",
        ));
    }
    findings
}

fn one(client: &str, file: &Path, places: &Places, config: Option<&Config>) -> Vec<Finding> {
    let about = format!("{client}, {}", file.display());
    let import = match Import::read(file) {
        Ok(import) => import,
        // A client that has other settings in the same file.
        Err(ImportError::NoServers { .. }) => return Vec::new(),
        Err(error) => {
            let next = "look at it yourself: what goes into it is in docs/clients.md";
            return vec![Finding::warning(CHECK, format!("{client}: {error}"), next)];
        }
    };
    let mut findings = Vec::new();
    let mut through = Vec::new();
    for server in &import.servers {
        match &server.fate {
            Fate::Shim(command) => match shim(command, file, places, config) {
                Ok(target) => through.push(target),
                Err((said, next)) => {
                    findings.push(Finding::failed(CHECK, format!("{about}: {} {said}", server.name), next));
                }
            },
            Fate::Component(_) => findings.extend(around(&about, server, config)),
            Fate::Left(_) => {}
        }
    }
    let said = if through.is_empty() {
        format!("{about}: nothing goes through Tidegate")
    } else {
        format!("{about}: {} through Tidegate", through.join(", "))
    };
    findings.insert(0, Finding::ok(CHECK, said));
    findings
}

/// What a shim connects to, or what is wrong with it and what to do.
fn shim(
    command: &[String],
    file: &Path,
    places: &Places,
    config: Option<&Config>,
) -> Result<String, (String, String)> {
    let program = Path::new(&command[0]);
    if program.is_absolute() && !program.is_file() {
        let said = format!("starts {}, which is not there", program.display());
        return Err((said, "give the path that `command -v tidegate` prints".to_owned()));
    }
    let Some(named) = option(command, "--config").map(PathBuf::from).or_else(|| places.config.clone()) else {
        let said = "names no configuration, and clients start their servers anywhere".to_owned();
        return Err((said, "add \"--config\" and its full path to the args".to_owned()));
    };
    if named.is_relative() {
        let said = format!("names {}, and clients start their servers anywhere", named.display());
        return Err((said, "give the configuration's full path".to_owned()));
    }
    let Some(target) = target(command) else {
        return Ok("the governance tools".to_owned());
    };
    let same = |config: &&Config| match (config.path.canonicalize(), named.canonicalize()) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        _ => false,
    };
    let Some(config) = config.filter(same) else {
        return if named.is_file() {
            Ok(target.to_owned())
        } else {
            let said = format!("names {}, which is not there", named.display());
            Err((said, format!("change the path in {}", file.display())))
        };
    };
    if config.components.iter().any(|component| component.name.as_str() == target) {
        return Ok(target.to_owned());
    }
    let known = config.components.iter().map(|component| component.name.as_str());
    let next = match nearest(target, known) {
        Some(near) => format!("did it mean {near}?"),
        None => "name a [[component]] of the configuration, or add one".to_owned(),
    };
    Err((format!("connects to {target}, which is no component"), next))
}

/// A server that is a component, started by the client for itself.
fn around(about: &str, server: &Server, config: Option<&Config>) -> Option<Finding> {
    let Fate::Component(theirs) = &server.fate else { return None };
    let ours = config?.components.iter().find(|ours| ours.command == theirs.command)?;
    Some(Finding::warning(
        CHECK,
        format!("{about}: {} starts {} for itself, around the gateway", server.name, ours.name),
        format!("let it start: tidegate connect {} --config {}", ours.name, config?.path.display()),
    ))
}

/// The component of `connect COMPONENT`; none for the governance tools.
fn target(command: &[String]) -> Option<&str> {
    let mut words = command.iter().skip(1).map(String::as_str);
    let mut found = None;
    while let Some(word) = words.next() {
        match word {
            "--control" => return None,
            "--config" | "--session" | "--token-file" => drop(words.next()),
            "connect" => {}
            word if word.starts_with('-') => {}
            word => found = Some(word),
        }
    }
    found
}

/// The value of an option, in either of its spellings.
fn option<'a>(command: &'a [String], name: &str) -> Option<&'a str> {
    command.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(name)? {
        "" => command.get(at + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    })
}
