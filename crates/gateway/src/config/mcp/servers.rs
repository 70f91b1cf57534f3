//! From the text of a client's file to servers, each with its fate. Nothing is dropped without a word.

use super::{Component, Fate, ImportError, Server};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::path::Path;
use tidegate_core::ComponentName;

/// How clients call the table: most of them, then VS Code, then Zed.
const TABLES: [&str; 3] = ["mcpServers", "servers", "context_servers"];
/// What makes a server one that is reached over HTTP.
const URLS: [&str; 3] = ["url", "serverUrl", "httpUrl"];
/// Keys that are carried over, or say what is said here in other words.
const KNOWN: [&str; 7] = ["command", "args", "env", "cwd", "type", "disabled", "enabled"];
/// What a name has that is likely to stand for a secret.
const SECRET: [&str; 7] = ["TOKEN", "SECRET", "PASSW", "APIKEY", "API_KEY", "API-KEY", "CREDENTIAL"];
/// Of a file that holds no servers, so many keys are named.
const NAMED_KEYS: usize = 8;

pub(super) fn parse(path: &Path, dir: &Path, text: &str) -> Result<Vec<Server>, ImportError> {
    let syntax = |source| ImportError::Syntax { path: path.to_owned(), source };
    let Pairs(top) = serde_json::from_str(text).map_err(syntax)?;
    let table = TABLES.iter().find_map(|name| top.iter().find(|(key, _)| key == name));
    let Some((_, table)) = table else {
        return Err(ImportError::NoServers { path: path.to_owned(), found: keys(&top) });
    };
    let Pairs(table) = serde_json::from_str(table.get()).map_err(syntax)?;
    let mut names = BTreeSet::new();
    let mut taken = BTreeSet::new();
    let mut servers = Vec::new();
    for (name, server) in table {
        let fields = serde_json::from_str(server.get()).map_err(syntax)?;
        servers.push(one(&name, &fields, dir, &mut taken));
        if !names.insert(name.clone()) {
            return Err(ImportError::Twice { path: path.to_owned(), name });
        }
    }
    Ok(servers)
}

fn keys(top: &[(String, Box<RawValue>)]) -> String {
    let mut named: Vec<_> = top.iter().take(NAMED_KEYS).map(|(key, _)| format!("`{key}`")).collect();
    if top.len() > NAMED_KEYS {
        named.push("…".to_owned());
    }
    if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
}

fn one(name: &str, server: &Value, dir: &Path, taken: &mut BTreeSet<String>) -> Server {
    let mut notes = Vec::new();
    let fate = match component(name, server, dir, &mut notes) {
        Ok(shim) if is_shim(&shim.command) => Fate::Shim(shim.command),
        Ok(component) => Fate::Component(unique(component, name, taken, &mut notes)),
        Err(why) => Fate::Left(why),
    };
    Server { name: name.to_owned(), fate, notes }
}

fn component(name: &str, server: &Value, dir: &Path, notes: &mut Vec<String>) -> Result<Component, String> {
    let Value::Object(fields) = server else { return Err("it is no object".to_owned()) };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or("stdio");
    if kind != "stdio"
        || (!fields.contains_key("command") && URLS.iter().any(|url| fields.contains_key(*url)))
    {
        return Err(
            "it is reached over HTTP, which is not available yet: leave it in the client's own configuration"
                .to_owned(),
        );
    }
    let program = match fields.get("command") {
        Some(Value::String(program)) if !program.is_empty() => program.clone(),
        Some(_) => return Err("its command is no text".to_owned()),
        None => return Err("it has neither a command nor a url".to_owned()),
    };
    let mut command = vec![program];
    command.extend(args(fields.get("args"))?);
    if fields.get("disabled") == Some(&true.into()) || fields.get("enabled") == Some(&false.into()) {
        return Err("it is disabled: enable it there, or add it here by hand".to_owned());
    }
    if let Some(word) = command.iter().find(|word| refers(word)) {
        return Err(format!("its command has {word:?}, which only the client can fill in: write it out"));
    }
    if command.iter().any(|word| word.starts_with('-') && looks_secret(word)) {
        notes.push(
            "an argument looks like a secret, and everybody on this machine can read arguments".to_owned(),
        );
    }
    let env = env(fields.get("env"), notes)?;
    let cwd = match fields.get("cwd") {
        None | Some(Value::Null) => None,
        Some(Value::String(cwd)) if refers(cwd) => {
            return Err(format!("its cwd has {cwd:?}, which only the client can fill in: write it out"));
        }
        Some(Value::String(cwd)) => Some(dir.join(cwd)),
        Some(_) => return Err("its cwd is no text".to_owned()),
    };
    let other: Vec<_> =
        fields.keys().filter(|key| !KNOWN.contains(&key.as_str())).map(|key| format!("`{key}`")).collect();
    if !other.is_empty() {
        notes.push(format!("not carried over, it is the client's own: {}", other.join(", ")));
    }
    let name = component_name(name).ok_or("its name has no letter or digit")?;
    Ok(Component { name, command, env, cwd })
}

fn args(args: Option<&Value>) -> Result<Vec<String>, String> {
    let Some(args) = args else { return Ok(Vec::new()) };
    let texts =
        args.as_array().and_then(|list| list.iter().map(|it| it.as_str().map(str::to_owned)).collect());
    texts.ok_or_else(|| "its args are no list of texts".to_owned())
}

/// The variables that have a value of their own. One that stands for itself is inherited from the daemon.
fn env(env: Option<&Value>, notes: &mut Vec<String>) -> Result<Vec<(String, String)>, String> {
    let fields = match env {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err("its env is no object".to_owned()),
    };
    let mut kept = Vec::new();
    for (name, value) in fields {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(format!("its env {name} is no text")),
        };
        if value == format!("${{{name}}}") || value == format!("${{env:{name}}}") {
            notes.push(format!("{name} is inherited from the daemon's environment: set it there"));
        } else if refers(&value) {
            return Err(format!(
                "its env {name} refers to something that only the client can fill in: write it out, or set {name} in the daemon's \
                 environment and take it out of the file"
            ));
        } else {
            if looks_secret(name) {
                notes.push(format!(
                    "{name} looks like a secret: keep the file to yourself (chmod 600), or take it out and set it in the daemon's \
                     environment, which servers inherit"
                ));
            }
            kept.push((name.clone(), value));
        }
    }
    Ok(kept)
}

/// Whether the client would put something else in its place: `${NAME}`, `${env:NAME}`, `${input:NAME}`.
fn refers(text: &str) -> bool {
    text.contains("${")
}

/// Whether a variable or an option of that name is likely to hold a secret.
pub(crate) fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word)) || name.ends_with("_KEY")
}

/// Whether a command is `tidegate connect …`.
fn is_shim(command: &[String]) -> bool {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == "tidegate") && command.iter().any(|word| word == "connect")
}

/// The name with what a component's name can't have replaced.
fn component_name(name: &str) -> Option<ComponentName> {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-:@".contains(c) { c } else { '-' };
    let name: String = name.chars().map(allowed).take(tidegate_core::MAX_NAME_BYTES).collect();
    name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).parse().ok()
}

/// Two names may have become the same.
fn unique(
    mut component: Component,
    name: &str,
    taken: &mut BTreeSet<String>,
    notes: &mut Vec<String>,
) -> Component {
    let wanted = component.name.to_string();
    let numbered = (2..).map(|n| format!("{wanted}-{n}"));
    for candidate in std::iter::once(wanted.clone()).chain(numbered) {
        if !taken.contains(&candidate)
            && let Ok(free) = candidate.parse()
        {
            taken.insert(candidate);
            component.name = free;
            break;
        }
    }
    if component.name.as_str() != name {
        notes.push(format!("it is called {} here", component.name));
    }
    component
}

/// An object with every key that was written, the second of two equal ones too, and what each stands for.
struct Pairs(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
