//! The files that outlive the process: the ledger, the starts, and every message received.
//!
//! Each line is appended by one write to a file opened for appending, so that lines of several processes never mix.

use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// The open files of one process.
#[derive(Debug)]
pub(crate) struct Disk {
    start: u64,
    ledger: File,
    received: File,
    raw: File,
}

impl Disk {
    /// Opens the files in `dir`, which is made when it isn't there, and records this start.
    pub(crate) fn open(dir: &Path) -> Result<Self, String> {
        let told = |e: std::io::Error| format!("cannot keep the ledger in {}: {e}", dir.display());
        fs::create_dir_all(dir).map_err(told)?;
        let append = |name| OpenOptions::new().create(true).append(true).open(dir.join(name)).map_err(told);

        let me =
            json!({ "pid": std::process::id(), "nonce": std::env::var("TIDEGATE_NONCE").ok() }).to_string();
        write_line(&mut append("starts.jsonl")?, &me).map_err(told)?;
        let starts = fs::read_to_string(dir.join("starts.jsonl")).map_err(told)?;
        // The last such line: the same pid may have come round.
        let before = starts.lines().collect::<Vec<_>>().iter().rposition(|line| *line == me).unwrap_or(0);
        Ok(Self {
            start: before as u64 + 1,
            ledger: append("ledger.jsonl")?,
            received: append("received.jsonl")?,
            raw: append("raw.lines")?,
        })
    }

    /// Which start in this directory this is, from 1.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Records that a call was executed.
    pub(crate) fn commit(&self, tool: &str, id: &Value, text: &str) -> Result<(), String> {
        let entry =
            json!({ "start": self.start, "pid": std::process::id(), "tool": tool, "id": id, "text": text });
        write_line(&mut &self.ledger, &entry.to_string()).map_err(|e| format!("cannot write the ledger: {e}"))
    }

    /// Records a message as it was read.
    pub(crate) fn received(&self, message: &Value) {
        let entry = json!({ "start": self.start, "pid": std::process::id(), "message": message });
        // A note for the test, not the ledger: when it fails, the test fails for want of it.
        let _ = write_line(&mut &self.received, &entry.to_string());
    }

    /// Keeps a line as it was read.
    pub(crate) fn raw(&self, line: &[u8]) {
        let _ = (&self.raw).write_all(line); // as above
    }
}

fn write_line(file: &mut impl std::io::Write, line: &str) -> std::io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}
