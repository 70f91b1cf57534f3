//! One call: its faults in the order of their fields, its line in the ledger, its answer.

use crate::catalogue::{Tool, tool};
use crate::havoc::{self, Grandchild};
use crate::server::Server;
use crate::wire::{error_message, result_message};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When a call kills the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Die {
    /// Nothing was done.
    BeforeCommit,
    /// The ledger has the line, nobody has an answer.
    AfterCommit,
    /// After the answer.
    AfterAnswer,
}

/// A JSON-RPC error to answer with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    code: i64,
    message: String,
}

/// A request to the client to make during the call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    method: String,
    #[serde(default)]
    params: Value,
}

/// The arguments of every tool. An unknown one is an error, so that a misspelt fault isn't a passed test.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Arguments {
    /// Into the ledger and the answer.
    text: String,
    /// `put`: what to set. `read`: what to look up.
    key: Option<String>,
    /// `put`: to what.
    value: String,

    stderr_bytes: usize,
    stderr_newlines: bool,
    junk: Vec<String>,
    grandchild: Option<Grandchild>,
    progress: u64,
    log: Option<String>,
    log_level: Option<String>,
    tools_changed: bool,
    ask: Option<Ask>,
    delay_ms: u64,
    until_file: Option<PathBuf>,
    die: Option<Die>,
    die_code: Option<i32>,
    answer_delay_ms: u64,
    answer_until_file: Option<PathBuf>,
    error: Option<Failure>,
    is_error: bool,
    silent: bool,
    answer_bytes: usize,
    answer_piece: Option<usize>,
    answers: Option<usize>,
    progress_after: u64,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    pub(crate) id: Value,
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
    pub(crate) token: Value,
}

impl Call {
    pub(crate) fn run(&self) {
        let outcome = self.carry_out();
        if self.server.is_cancelled(&self.id) {
            return;
        }
        self.answer(outcome);
        self.progress(self.arguments.progress_after);
        self.die_if(Die::AfterAnswer);
    }

    /// Everything up to the answer; the result's structured content, or why there is none.
    fn carry_out(&self) -> Result<Value, String> {
        let (server, a) = (&self.server, &self.arguments);
        havoc::noise(a.stderr_bytes, a.stderr_newlines);
        a.junk.iter().for_each(|line| server.wire.raw(line, usize::MAX));
        let grandchild = a.grandchild.map(havoc::grandchild).transpose()?;
        self.progress(a.progress);
        if let Some(text) = &a.log {
            server.log(a.log_level.as_deref().unwrap_or("info"), text);
        }
        if a.tools_changed {
            server.wire.notify("notifications/tools/list_changed", json!({}));
        }
        let answered = a.ask.as_ref().map(|ask| self.ask(ask));

        havoc::pause(Duration::from_millis(a.delay_ms));
        self.await_file(a.until_file.as_ref());
        self.die_if(Die::BeforeCommit);
        if !server.is_cancelled(&self.id) {
            self.commit()?;
        }
        self.die_if(Die::AfterCommit);
        havoc::pause(Duration::from_millis(a.answer_delay_ms));
        self.await_file(a.answer_until_file.as_ref());

        let state = server.state();
        Ok(json!({
            "start": server.disk.start(),
            "pid": std::process::id(),
            "tool": self.name,
            "text": a.text,
            "value": a.key.as_ref().and_then(|key| state.entries.get(key)),
            "commits": state.commits,
            "grandchild": grandchild,
            "answered": answered,
            "filler": "f".repeat(a.answer_bytes),
        }))
    }

    fn commit(&self) -> Result<(), String> {
        let a = &self.arguments;
        match tool(&self.name) {
            Tool::Read => return Ok(()),
            Tool::Append => {}
            Tool::Put => {
                let key = a.key.clone().ok_or("put needs a key")?;
                self.server.state().entries.insert(key, a.value.clone());
            }
        }
        self.server.disk.commit(&self.name, &self.id, &a.text)?;
        self.server.state().commits += 1;
        self.server.ledger_changed();
        Ok(())
    }

    fn answer(&self, outcome: Result<Value, String>) {
        let a = &self.arguments;
        if a.silent {
            return;
        }
        let message = match (&a.error, outcome) {
            (Some(failure), _) => error_message(&self.id, failure.code, &failure.message),
            (None, outcome) => result_message(&self.id, result(outcome, a.is_error)),
        };
        for _ in 0..a.answers.unwrap_or(1) {
            self.server.wire.raw(&message.to_string(), a.answer_piece.unwrap_or(usize::MAX));
        }
    }

    fn progress(&self, steps: u64) {
        if self.token.is_null() {
            return;
        }
        for step in 1..=steps {
            let params = json!({ "progressToken": self.token, "progress": step, "total": steps });
            self.server.wire.notify("notifications/progress", params);
        }
    }

    fn ask(&self, ask: &Ask) -> Value {
        let id = format!("ask-{}", self.id);
        let answers = self.server.wire.ask(&id, &ask.method, &ask.params);
        // As long as it takes: the channel never closes before it has its answer.
        answers.recv().unwrap_or_default()
    }

    fn await_file(&self, path: Option<&PathBuf>) {
        if let Some(path) = path {
            havoc::await_file(path, || self.server.is_cancelled(&self.id));
        }
    }

    fn die_if(&self, at: Die) {
        if self.arguments.die == Some(at) {
            std::process::exit(self.arguments.die_code.unwrap_or(1));
        }
    }
}

fn result(outcome: Result<Value, String>, is_error: bool) -> Value {
    match outcome {
        Ok(content) => json!({
            "content": [{ "type": "text", "text": content.to_string() }],
            "structuredContent": content,
            "isError": is_error,
        }),
        Err(message) => json!({ "content": [{ "type": "text", "text": message }], "isError": true }),
    }
}
