//! A session of one of the official SDKs, in a process that is driven by JSON lines. See fixtures/mcp-servers/README.md.

use super::outside;
use super::process::{Exit, Process};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// An SDK that isn't ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// The TypeScript SDK, on node.
    TypeScript,
    /// The Python SDK.
    Python,
    /// rmcp, the Rust SDK.
    Rust,
}

/// One SDK client in a process of its own.
#[derive(Debug)]
pub struct SdkClient {
    process: Process,
    last_id: u64,
    open: BTreeSet<u64>,
    answers: BTreeMap<u64, Value>,
    /// What happened in between.
    pub events: Vec<Value>,
}

impl SdkClient {
    /// The command of the official reference server on stdio.
    ///
    /// # Panics
    /// When it isn't installed.
    #[must_use]
    pub fn server_everything() -> Vec<String> {
        let mut command = outside::node_server("server-everything");
        command.push("stdio".to_owned());
        command
    }

    /// Starts a client process of the TypeScript SDK; it isn't connected yet.
    ///
    /// # Panics
    /// When the SDK isn't installed.
    #[must_use]
    pub fn start() -> Self {
        Self::of(Sdk::TypeScript)
    }

    /// Starts a client process; it isn't connected yet.
    ///
    /// # Panics
    /// When the SDK isn't installed: the text says what installs it.
    #[must_use]
    pub fn of(sdk: Sdk) -> Self {
        let command = match sdk {
            Sdk::TypeScript => {
                let mut command = Command::new("node");
                command.arg(outside::typescript_client());
                command
            }
            Sdk::Python => {
                let mut command = Command::new(outside::python_program("python"));
                command.arg(outside::python_client());
                command
            }
            Sdk::Rust => Command::new(outside::rmcp_client()),
        };
        Self {
            process: Process::start(&format!("the {sdk:?} SDK client"), command),
            last_id: 0,
            open: BTreeSet::new(),
            answers: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Sends a command; gives its number.
    pub fn send(&mut self, what: &str, mut fields: Value) -> u64 {
        self.last_id += 1;
        fields["id"] = self.last_id.into();
        fields["do"] = what.into();
        self.open.insert(self.last_id);
        self.process.write(format!("{fields}\n").as_bytes());
        self.last_id
    }

    /// Begins a tool call.
    pub fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("callTool", json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for the result of a command that succeeds.
    #[track_caller]
    pub fn result(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                assert_eq!(answer["ok"], true, "the SDK client got an error: {answer}");
                return answer["result"].clone();
            }
            let Some(line) = self.process.line() else {
                panic!("the SDK client ended before it answered; it said: {}", self.process.stderr())
            };
            let message: Value = serde_json::from_slice(&line).unwrap();
            match message["id"].as_u64() {
                None => self.events.push(message),
                Some(answered) => {
                    assert!(self.open.remove(&answered), "an answer that nobody waits for: {message}");
                    self.answers.insert(answered, message);
                }
            }
        }
    }

    /// Sends a command and waits for its result.
    #[track_caller]
    pub fn ask(&mut self, what: &str, fields: Value) -> Value {
        let id = self.send(what, fields);
        self.result(id)
    }

    /// What the SDK has noticed as an error of the connection, or its end.
    #[must_use]
    pub fn complaints(&self) -> Vec<&Value> {
        self.events.iter().filter(|it| it["event"] == "error" || it["event"] == "closed").collect()
    }

    /// Closes its input and waits for its end.
    pub fn end(mut self) -> Exit {
        self.process.close_input();
        self.process.wait()
    }
}
