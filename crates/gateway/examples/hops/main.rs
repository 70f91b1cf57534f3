//! What the gateway costs a call, in one run with what it is compared with: the same server directly, through a `cat`, and
//! through whatever else is named.
//!
//! ```text
//! cargo build --release -p tidegate --bins --example hops
//! target/release/examples/hops target/release/tidegate [--beside NAME COMMAND | --at NAME URL | --at-sse NAME URL]… [SERVER COMMAND…]
//! ```
//! Without a command the server is this program itself, which does nothing but answer: what is measured then is the way,
//! not the work. `--beside` names a stdio server that reaches the same kind of server another way; it is started by `sh`.
//! `--at` names one that listens on HTTP already, for the client of an SDK alone; `--at-sse` one that speaks the older transport.
//! All variants take turns in each round, because the machine is never quiet; figures are medians of rounds.

#![allow(clippy::print_stdout, reason = "printing is what this program does")]

mod gap;
mod house;
mod memory;
mod sdk;
mod turns;

use house::{House, Variant};
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str =
    "usage: hops TIDEGATE [--beside NAME COMMAND | --at NAME URL | --at-sse NAME URL]… [SERVER COMMAND…]";

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let first = arguments.next().ok_or(USAGE)?;
    if first == "answer" {
        return answer();
    }
    let tidegate = std::fs::canonicalize(first)?;
    let mut variants = vec![Variant::Direct, Variant::Cat, Variant::Gateway];
    while let Some(kind) = arguments.next_if(|word| word.starts_with("--")) {
        let (name, way) = (arguments.next().ok_or(USAGE)?, arguments.next().ok_or(USAGE)?);
        variants.push(match kind.as_str() {
            "--beside" => Variant::Beside { name, command: way },
            "--at" | "--at-sse" => Variant::At { name, url: way, sse: kind == "--at-sse" },
            _ => return Err(USAGE.into()),
        });
    }
    let mut server: Vec<String> = arguments.collect();
    if server.is_empty() {
        server = vec![std::env::current_exe()?.display().to_string(), "answer".into()];
    }
    let house = House::open(&tidegate, &server)?;
    let piped: Vec<Variant> = variants.iter().filter(|it| house.words(it).is_some()).cloned().collect();
    turns::latency(&house, &piped)?;
    turns::throughput(&house, &piped)?;
    sdk::measure(&house, &variants)?;
    gap::gap(&house)?;
    memory::memory(&house)
}

/// A server that does nothing but answer.
fn answer() -> Outcome<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let message: serde_json::Value = serde_json::from_str(&line)?;
        if let Some(id) = message.get("id") {
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"answer","version":"1"}}"#
                }
                Some("tools/list") => r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#,
                _ => r#"{"content":[{"type":"text","text":"Echo: hello"}]}"#,
            };
            output
                .write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").as_bytes())?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this program's one clock")]
fn now() -> Instant {
    Instant::now()
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let start = now();
    work()?;
    Ok(start.elapsed())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
