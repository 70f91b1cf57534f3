//! The fault server, driven line by line.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a condition may take to come true on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a condition.
const GLANCE: Duration = Duration::from_millis(2);
/// How long nothing has to come for nothing to have come.
const QUIET: Duration = Duration::from_millis(100);

pub(crate) struct Driver {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
}

impl Driver {
    /// Starts the server with its files in `dir`.
    pub(crate) fn start(dir: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate-fault-server"))
            .arg("--dir")
            .arg(dir)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (tx, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while out.read_until(b'\n', &mut line).unwrap() > 0 {
                if tx.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, next_id: 0 }
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Reads one line, as it is.
    pub(crate) fn raw(&mut self) -> String {
        String::from_utf8(self.lines.recv_timeout(PATIENCE).expect("a line")).unwrap()
    }

    /// Reads one message.
    pub(crate) fn message(&mut self) -> Value {
        let line = self.raw();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Nothing is said for a while.
    pub(crate) fn is_quiet(&mut self) {
        assert_eq!(self.lines.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout));
    }

    /// Sends a request and gives its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Sends a request and gives its answer, which is the next line.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.message();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Sends a tool call and gives its id.
    pub(crate) fn send_call(&mut self, tool: &str, arguments: Value) -> u64 {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        self.send("tools/call", params)
    }

    /// Calls a tool and gives its answer, which is the next line.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.send_call(tool, arguments);
        let answer = self.message();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end; gives the status and all of standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        eventually("it ends", || self.child.try_wait().unwrap().is_some());
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap(), stderr)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / GLANCE.as_millis() {
        if condition() {
            return;
        }
        std::thread::park_timeout(GLANCE);
    }
    panic!("never came true: {what}");
}

/// The lines of one of the server's files.
pub(crate) fn lines(dir: &Path, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `start:text` of each line of the ledger.
pub(crate) fn ledger(dir: &Path) -> Vec<String> {
    let entry = |l: &Value| format!("{}:{}", l["start"], l["text"].as_str().unwrap());
    lines(dir, "ledger.jsonl").iter().map(entry).collect()
}
