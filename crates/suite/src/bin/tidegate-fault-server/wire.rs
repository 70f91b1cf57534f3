//! What the server writes: answers, notifications, requests of its own, and what no server should write.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The JSON-RPC code for a method that isn't known.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The JSON-RPC code for parameters that can't be used.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// The JSON-RPC code for what isn't JSON.
pub(crate) const PARSE_ERROR: i64 = -32700;

/// Standard output, shared by all calls: one whole line at a time.
#[derive(Debug)]
pub(crate) struct Wire {
    line_end: &'static str,
    asked: Mutex<BTreeMap<String, Sender<Value>>>,
}

impl Wire {
    pub(crate) fn new(crlf: bool) -> Self {
        Self { line_end: if crlf { "\r\n" } else { "\n" }, asked: Mutex::default() }
    }

    /// Writes a line as it is, in pieces of at most `piece` bytes.
    ///
    /// A failure is nobody's business: the reader is gone, and the end of the input will tell.
    pub(crate) fn raw(&self, line: &str, piece: usize) {
        let line = format!("{line}{}", self.line_end);
        let mut out = std::io::stdout().lock();
        for part in line.as_bytes().chunks(piece.max(1)) {
            if out.write_all(part).and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    }

    fn whole(&self, message: &Value) {
        self.raw(&message.to_string(), usize::MAX);
    }

    pub(crate) fn result(&self, id: &Value, result: Value) {
        self.whole(&result_message(id, result));
    }

    pub(crate) fn error(&self, id: &Value, code: i64, message: &str) {
        self.whole(&error_message(id, code, message));
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.whole(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Asks the client something; what it answers comes through the receiver.
    pub(crate) fn ask(&self, id: &str, method: &str, params: &Value) -> Receiver<Value> {
        let (answer, answers) = mpsc::channel();
        self.asked().insert(id.to_owned(), answer);
        self.whole(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        answers
    }

    /// Takes an answer of the client to the call that has asked for it.
    pub(crate) fn answered(&self, id: &Value, message: Value) {
        if let Some(waiting) = id.as_str().and_then(|id| self.asked().remove(id)) {
            // Nobody waits any more: the call was cancelled.
            let _ = waiting.send(message);
        }
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<String, Sender<Value>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn result_message(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn error_message(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
