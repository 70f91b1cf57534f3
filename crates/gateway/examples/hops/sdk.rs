//! How long a call takes for a client of the official TypeScript SDK, and how many there are in a second, by each way, in
//! turns. Passed over where that SDK isn't installed (`cargo xtask setup`).

use crate::Outcome;
use crate::house::{House, Variant};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the SDK's client says of one way.
#[derive(Deserialize)]
struct Figures {
    /// The median of a call, in microseconds.
    p50: f64,
    /// Calls a second, by all sessions.
    rate: f64,
}

pub(crate) fn measure(house: &House, variants: &[Variant]) -> Outcome<()> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mcp-servers");
    if !fixtures.join("node_modules/@modelcontextprotocol/sdk").exists() {
        println!("a call of the TypeScript SDK: not measured, run `cargo xtask setup`");
        return Ok(());
    }
    let ways: Vec<Value> = variants.iter().map(|variant| way(house, variant)).collect();
    let mut command = Command::new("node");
    command.arg(fixtures.join("clients/gauge.mjs")).arg(json!(ways).to_string());
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the SDK's client failed".into());
    }
    let all: Vec<Figures> = serde_json::from_slice(&output.stdout)?;
    for (variant, Figures { p50, rate }) in variants.iter().zip(&all) {
        let (name, slower, faster) = (variant.name(), p50 / all[0].p50, rate / all[0].rate);
        println!("a call of the TypeScript SDK, {name}: p50 {p50:.1} µs, {slower:.2} times direct");
        println!("calls a second of 16 of its sessions, {name}: {rate:.0}, {faster:.2} times direct");
    }
    Ok(())
}

fn way(house: &House, variant: &Variant) -> Value {
    match (house.words(variant), variant) {
        (Some(words), _) => json!({ "command": words[0], "args": words[1..], "cwd": house.dir() }),
        (None, Variant::At { url, sse, .. }) => json!({ "url": url, "sse": sse }),
        (None, _) => Value::Null,
    }
}
