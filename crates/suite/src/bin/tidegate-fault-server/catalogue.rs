//! What the server offers: its tools with their annotations, and its one resource.

use crate::flags::{Annotations, Flags};
use serde_json::{Value, json};
use std::num::NonZero;

/// The resource that changes with every committed call.
pub(crate) const LEDGER_URI: &str = "ledger://lines";

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Mutating: a line in the ledger for each call.
    Append,
    /// Idempotent: sets a key of the state in the process, and a line in the ledger.
    Put,
    /// Read-only: says what the state is.
    Read,
}

const ALL: [&str; 3] = ["append", "put", "read"];

/// The names offered: the three, or those of `--tools-file`.
pub(crate) fn names(flags: &Flags) -> Vec<String> {
    flags.tools.clone().unwrap_or_else(|| ALL.map(str::to_owned).into())
}

/// What a tool of that name does; every other name does what `read` does.
pub(crate) fn tool(name: &str) -> Tool {
    match name {
        "append" => Tool::Append,
        "put" => Tool::Put,
        _ => Tool::Read,
    }
}

/// The entry of `tools/list`.
pub(crate) fn describe(name: &str, annotations: Annotations) -> Value {
    let tool = tool(name);
    let description = match tool {
        Tool::Append => "Appends a line to the ledger.",
        Tool::Put => "Sets a key to a value.",
        Tool::Read => "Reads the state.",
    };
    let mut entry = json!({
        "name": name,
        "description": description,
        // The faults are arguments too; they are in docs/fault-server.md, not here.
        "inputSchema": { "type": "object", "additionalProperties": true },
    });
    if annotations != Annotations::None {
        let read_only = tool == Tool::Read;
        let destructive = read_only && annotations == Annotations::Contradictory;
        entry["annotations"] = json!({
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": tool != Tool::Append,
            "openWorldHint": false,
        });
    }
    entry
}

/// The page of `tools/list` that a cursor, or its absence, asks for; `None` when the server gave no such cursor.
pub(crate) fn page(tools: &[Value], size: Option<NonZero<usize>>, cursor: &Value) -> Option<Value> {
    let from = match cursor.as_str() {
        None => 0,
        Some(cursor) => cursor.parse().ok().filter(|from| *from < tools.len())?,
    };
    let to = size.map_or(tools.len(), |size| tools.len().min(from + size.get()));
    let mut page = json!({ "tools": tools[from..to] });
    if to < tools.len() {
        page["nextCursor"] = to.to_string().into();
    }
    Some(page)
}

/// The answer to `initialize`.
pub(crate) fn initialize(params: &Value, version: &str) -> Value {
    const NEWEST: &str = "2025-11-25";
    const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST];
    let asked = params["protocolVersion"].as_str().unwrap_or(NEWEST);
    json!({
        "protocolVersion": if KNOWN.contains(&asked) { asked } else { NEWEST },
        "capabilities": {
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "logging": {},
        },
        "serverInfo": { "name": "tidegate-fault-server", "version": version },
    })
}

/// The answer to `resources/list`.
pub(crate) fn resources() -> Value {
    json!({ "resources": [{ "uri": LEDGER_URI, "name": "ledger", "mimeType": "text/plain" }] })
}
