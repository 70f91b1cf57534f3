//! `tidegate import`: a client's `mcpServers` as a configuration. The client's file is only read; nothing is overwritten.

use super::{Global, print};
use crate::api::DOCUMENT_VERSION;
use crate::config::mcp::{Import, Server};
use crate::exit::{CliError, CliResult, Outcome};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What is written may hold secrets: it is its owner's alone.
const MODE: u32 = 0o600;

pub(super) fn run(global: &Global, file: &Path, out: Option<&Path>) -> CliResult {
    let import = Import::read(file).map_err(CliError::cannot)?;
    let configuration = import.configuration();
    if import.components().next().is_none() {
        tell(&import);
        return Err(CliError::no(format!("{} has no server that can be served", file.display())));
    }
    if let Some(out) = out {
        write(out, &configuration)?;
    }
    if !global.json {
        tell(&import);
    }
    let document = document(&import, out.is_none().then_some(configuration));
    print::document(global, &document, |doc, _| match doc["configuration"].as_str() {
        Some(text) => text.to_owned(),
        None => {
            let count = doc["components"].as_array().map_or(0, Vec::len);
            let them = if count == 1 { "1 component".to_owned() } else { format!("{count} components") };
            format!("{them}; look at what the file says, add an [[operator]], then run `tidegate doctor`")
        }
    })?;
    Ok(Outcome::Done)
}

fn document(import: &Import, configuration: Option<String>) -> Value {
    let components: Vec<_> = import
        .components()
        .map(|(server, component)| json!({ "server": server, "component": component.name }))
        .collect();
    let left: Vec<_> = import.left().map(|(server, why)| json!({ "server": server, "why": why })).collect();
    let notes: Vec<_> =
        notes(import).map(|(server, note)| json!({ "server": server, "note": note })).collect();
    json!({
        "version": DOCUMENT_VERSION,
        "components": components,
        "left": left,
        "notes": notes,
        "configuration": configuration,
    })
}

fn notes<'a>(import: &'a Import) -> impl Iterator<Item = (&'a str, &'a str)> {
    let of_one = |server: &'a Server| server.notes.iter().map(|note| (server.name.as_str(), note.as_str()));
    import.servers.iter().flat_map(of_one)
}

/// What whoever reads the configuration from a pipe wouldn't see otherwise.
fn tell(import: &Import) {
    for (server, why) in import.left() {
        print::aside(&format!("{server} is left out: {why}"));
    }
    for (server, note) in notes(import) {
        print::aside(&format!("{server}: {note}"));
    }
}

fn write(out: &Path, configuration: &str) -> Result<(), CliError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(MODE).open(out);
    let mut file = made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CliError::cannot(format!(
            "{} is there already and is left as it is; name another file",
            out.display()
        )),
        _ => CliError::cannot(format!("failed to make {}: {error}", out.display())),
    })?;
    file.write_all(configuration.as_bytes())
        .map_err(|error| CliError::cannot(format!("failed to write {}: {error}", out.display())))
}
