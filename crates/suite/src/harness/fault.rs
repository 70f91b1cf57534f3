//! The files of the scripted fault server: what was executed, what arrived, how often it was started. See
//! docs/fault-server.md.

use super::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One fault server behind a component, over all its generations.
#[derive(Debug, Clone)]
pub struct FaultServer {
    dir: PathBuf,
}

/// A file that calls wait for: `until_file` or `answer_until_file`.
#[derive(Debug)]
pub struct Latch {
    path: PathBuf,
}

impl Latch {
    /// Its path, as a call's argument.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Lets the calls go on.
    pub fn open(&self) {
        std::fs::write(&self.path, "").unwrap();
    }
}

impl FaultServer {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where its files are.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A closed latch.
    #[must_use]
    pub fn latch(&self, name: &str) -> Latch {
        Latch { path: self.dir.join(format!("latch-{name}")) }
    }

    /// The arguments that its next start gets beside those of the component (`--script`).
    pub fn script(&self, flags: &[&str]) {
        // Whole or not at all: a start may read it at any moment.
        let beside = self.dir.join("script.new");
        std::fs::write(&beside, flags.join("\n")).unwrap();
        std::fs::rename(beside, self.script_file()).unwrap();
    }

    pub(super) fn script_file(&self) -> PathBuf {
        self.dir.join("script")
    }

    /// The ledger: what was executed.
    #[must_use]
    pub fn ledger(&self) -> Vec<Value> {
        self.lines("ledger.jsonl")
    }

    /// The texts of the ledger, in order.
    #[must_use]
    pub fn executed(&self) -> Vec<String> {
        self.ledger().iter().map(|line| line["text"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// How often a call with this text was executed.
    #[must_use]
    pub fn times(&self, text: &str) -> usize {
        self.executed().iter().filter(|executed| *executed == text).count()
    }

    /// What has arrived.
    #[must_use]
    pub fn received(&self) -> Vec<Value> {
        self.lines("received.jsonl")
    }

    /// The starts: `{pid, nonce}`.
    #[must_use]
    pub fn starts(&self) -> Vec<Value> {
        self.lines("starts.jsonl")
    }

    /// How often a call with this text has arrived.
    #[must_use]
    pub fn arrived(&self, text: &str) -> usize {
        let is_it = |line: &&Value| line["message"]["params"]["arguments"]["text"] == text;
        self.received().iter().filter(is_it).count()
    }

    /// Waits until a call with this text has arrived.
    #[track_caller]
    pub fn arrives(&self, text: &str) {
        eventually(&format!("{text} arrives at the server"), || self.arrived(text) > 0);
    }

    /// Waits until a call with this text has been executed.
    #[track_caller]
    pub fn executes(&self, text: &str) {
        eventually(&format!("{text} is executed"), || self.times(text) > 0);
    }

    /// Kills the process that was started last; it is dead afterwards, whether or not anybody has noticed.
    #[track_caller]
    pub fn die(&self) {
        let pid = self.starts().last().and_then(|start| start["pid"].as_u64()).unwrap();
        let pid = u32::try_from(pid).unwrap();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        eventually("it is dead", || {
            let table = tidegate_host::process_table().unwrap();
            !table.get(&pid).is_some_and(|stat| stat.is_running())
        });
    }

    /// The lines that `--echo` has answered, as they came.
    #[must_use]
    pub fn raw_lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.join("raw.lines")).unwrap_or_default();
        text.split_inclusive('\n').filter_map(|line| Some(line.strip_suffix('\n')?.to_owned())).collect()
    }

    fn lines(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}
