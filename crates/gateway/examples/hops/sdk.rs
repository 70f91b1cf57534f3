//! How long a call takes for a client of the official TypeScript SDK, by each way, in turns. Passed over where that SDK
//! isn't installed (`cargo xtask setup`).

use crate::Outcome;
use crate::house::{House, Variant};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn latency(house: &House, variants: &[Variant]) -> Outcome<()> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mcp-servers");
    if !fixtures.join("node_modules/@modelcontextprotocol/sdk").exists() {
        println!("a call of the TypeScript SDK: not measured, run `cargo xtask setup`");
        return Ok(());
    }
    let ways: Vec<Value> = variants
        .iter()
        .map(|variant| {
            let words = house.words(variant);
            json!({ "name": variant.name(), "command": words[0], "args": words[1..], "cwd": house.dir() })
        })
        .collect();
    let mut command = Command::new("node");
    command.arg(fixtures.join("clients/gauge.mjs")).arg(json!(ways).to_string());
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the SDK's client failed".into());
    }
    let p50s: Vec<f64> = serde_json::from_slice(&output.stdout)?;
    for (variant, p50) in variants.iter().zip(&p50s) {
        let (name, ratio) = (variant.name(), p50 / p50s[0]);
        println!("a call of the TypeScript SDK, {name}: p50 {p50:.1} µs, {ratio:.2} times direct");
    }
    Ok(())
}
