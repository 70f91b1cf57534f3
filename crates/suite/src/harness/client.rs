//! An MCP client that speaks lines: it keeps every answer, and fails when one comes twice or to nobody.

use super::process::{Exit, Process};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;

/// A request under way: its id as JSON text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call(pub String);

/// One client process: a shim with this test at its other end.
#[derive(Debug)]
pub struct Client {
    name: String,
    process: Process,
    last_id: u64,
    open: BTreeSet<Call>,
    /// Answers not yet taken, as they came.
    answers: BTreeMap<Call, String>,
    /// Notifications and requests of the server, not yet taken.
    heard: VecDeque<Value>,
    /// Answers with the id null.
    nameless: VecDeque<Value>,
}

/// The refusal object of an answer, where it is one.
#[must_use]
pub fn refusal(answer: &Value) -> Option<&Value> {
    [
        &answer["result"]["_meta"]["tidegate/refusal"],
        &answer["_meta"]["tidegate/refusal"],
        &answer["error"]["data"],
    ]
    .into_iter()
    .find(|object| object["kind"].is_string())
}

impl Client {
    /// Starts a client process.
    pub fn start(name: &str, command: Command) -> Self {
        Self::over(name, Process::start(name, command))
    }

    /// A client over a process that runs already.
    pub fn over(name: &str, process: Process) -> Self {
        Self {
            name: name.to_owned(),
            process,
            last_id: 0,
            open: BTreeSet::new(),
            answers: BTreeMap::new(),
            heard: VecDeque::new(),
            nameless: VecDeque::new(),
        }
    }

    /// Shakes hands; gives the server's `initialize` result.
    #[track_caller]
    pub fn handshake(&mut self) -> Value {
        self.introduce(json!({}))
    }

    /// Shakes hands as a client with these capabilities; gives the server's `initialize` result.
    #[track_caller]
    pub fn introduce(&mut self, capabilities: Value) -> Value {
        let client = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
                             "clientInfo": { "name": self.name, "version": "1" } });
        let answer = self.ask("initialize", client);
        assert!(answer["result"].is_object(), "{}: {answer}", self.name);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        answer["result"].clone()
    }

    /// Writes a line as it is.
    pub fn send(&mut self, line: &str) {
        self.process.write(format!("{line}\n").as_bytes());
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.process.write(bytes);
    }

    /// Sends a request with an id of one's own, given as JSON text.
    pub fn request_as(&mut self, id: &str, method: &str, params: &Value) -> Call {
        let method = json!(method);
        self.request_line(
            id,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#),
        )
    }

    /// Sends a request that is written already, and whose id is this JSON text.
    pub fn request_line(&mut self, id: &str, line: &str) -> Call {
        let call = Call(id.to_owned());
        assert!(self.open.insert(call.clone()), "{}: the id {id} is in use", self.name);
        self.send(line);
        call
    }

    /// Sends a request.
    pub fn request(&mut self, method: &str, params: Value) -> Call {
        self.last_id += 1;
        let id = self.last_id.to_string();
        self.request_as(&id, method, &params)
    }

    /// Begins a tool call.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Call {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Cancels a request: its answer may never come.
    pub fn cancel(&mut self, call: &Call) {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"the test says so"}}}}"#,
            call.0
        );
        self.send(&line);
    }

    /// Waits for the answer of a request, as the line that came.
    #[track_caller]
    pub fn line_for(&mut self, call: &Call) -> String {
        loop {
            if let Some(line) = self.answers.remove(call) {
                return line;
            }
            assert!(self.open.contains(call), "{}: {} has been answered and taken before", self.name, call.0);
            let Some(line) = self.process.line() else {
                panic!(
                    "{} ended before it answered {}; it said: {}",
                    self.name,
                    call.0,
                    self.process.stderr()
                );
            };
            self.take(&line);
        }
    }

    /// Waits for the answer of a request.
    #[track_caller]
    pub fn answer(&mut self, call: &Call) -> Value {
        let line = self.line_for(call);
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for the result of a request that succeeds.
    #[track_caller]
    pub fn result(&mut self, call: &Call) -> Value {
        let answer = self.answer(call);
        assert!(answer.get("result").is_some(), "{}: {answer}", self.name);
        assert!(refusal(&answer).is_none() && answer["result"]["isError"] != true, "{}: {answer}", self.name);
        answer["result"].clone()
    }

    /// Waits for the refusal of a request that is refused.
    #[track_caller]
    pub fn refused(&mut self, call: &Call) -> Value {
        let answer = self.answer(call);
        refusal(&answer).unwrap_or_else(|| panic!("{}: no refusal: {answer}", self.name)).clone()
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let call = self.request(method, params);
        self.answer(&call)
    }

    /// Calls a tool and waits for its result, which is a success.
    #[track_caller]
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let call = self.call(tool, arguments);
        self.result(&call)
    }

    /// Whether a request has been answered by now.
    pub fn has_answered(&mut self, call: &Call) -> bool {
        self.catch_up();
        self.answers.contains_key(call)
    }

    /// Takes everything that has come.
    pub fn catch_up(&mut self) {
        while let Some(line) = self.process.line_now() {
            self.take(&line);
        }
    }

    /// The requests that have no answer yet.
    pub fn unanswered(&mut self) -> Vec<Call> {
        self.catch_up();
        self.open.iter().cloned().collect()
    }

    /// Waits for a notification, or a request of the server, of this method.
    #[track_caller]
    pub fn hear(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(|message| message["method"] == method) {
                return self.heard.remove(at).unwrap();
            }
            let Some(line) = self.process.line() else { panic!("{} ended before a {method}", self.name) };
            self.take(&line);
        }
    }

    /// The notifications of this method that have come.
    pub fn heard(&mut self, method: &str) -> Vec<Value> {
        self.catch_up();
        self.heard.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Waits for an error that names no request.
    #[track_caller]
    pub fn nameless_error(&mut self) -> Value {
        loop {
            if let Some(error) = self.nameless.pop_front() {
                return error;
            }
            let Some(line) = self.process.line() else { panic!("{} ended before an error", self.name) };
            self.take(&line);
        }
    }

    /// The shim's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What the shim has said to people.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// Whether the shim runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Closes the connection as a client does, and waits for the shim's end.
    pub fn close(mut self) -> Exit {
        self.process.close_input();
        self.process.wait()
    }

    /// `kill -9`.
    pub fn kill(self) {
        self.process.kill();
    }

    fn take(&mut self, line: &[u8]) {
        let line = String::from_utf8(line.to_vec()).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let line = line.trim_end_matches('\n').to_owned();
        let not_a_message =
            |e: serde_json::Error| -> ! { panic!("{}: not a message ({e}): {line}", self.name) };
        let Envelope { id, method } = serde_json::from_str(&line).unwrap_or_else(|e| not_a_message(e));
        let whole = || -> Value { serde_json::from_str(&line).unwrap_or_else(|e| not_a_message(e)) };
        match (method, id) {
            (Some(_), _) => self.heard.push_back(whole()),
            (None, None) => self.nameless.push_back(whole()),
            (None, Some(id)) => {
                let call = Call(id.get().to_owned());
                assert!(self.open.remove(&call), "{}: an answer that nobody waits for: {line}", self.name);
                self.answers.insert(call, line);
            }
        }
    }
}

/// What a message is: an answer may have anything in it, numbers that no type holds too.
#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
}
