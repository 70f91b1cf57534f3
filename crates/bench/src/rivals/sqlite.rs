//! SQLite in WAL mode with `synchronous=FULL`, written by several processes of its own shell: no client of ours is
//! between it and its file.

use anyhow::{Context as _, bail};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

const SETUP: &str = "PRAGMA journal_mode=WAL;\nPRAGMA synchronous=FULL;\n\
                     CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY, revision INTEGER, value BLOB);\n";

/// How long a writer waits for another's transaction, in milliseconds: as long as it takes.
const TIMEOUT_MS: u32 = 600_000;

/// The shell's version.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("sqlite3").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).split_whitespace().next()?.to_owned())
}

/// Processes that have the database open and wait for the word.
pub(crate) struct Writers(Vec<(Child, ChildStdin)>);

impl Writers {
    pub(crate) fn start(database: &Path, count: usize) -> anyhow::Result<Self> {
        let made = shell(database)?.wait_with(SETUP)?;
        if !made.contains("wal") {
            bail!("SQLite has no WAL there: {made}");
        }
        let writers = (0..count).map(|n| {
            let Shell { mut process, mut input } = shell(database)?;
            writeln!(input, ".timeout {TIMEOUT_MS}\nPRAGMA synchronous=FULL;")?;
            writeln!(input, "INSERT INTO record VALUES ('{n}', 0, x'00');\nSELECT 'ready';")?;
            let output = process.stdout.take().context("the shell has an output")?;
            let mut lines = BufReader::new(output).lines();
            if !lines.any(|line| line.is_ok_and(|line| line == "ready")) {
                bail!("an SQLite shell didn't get ready");
            }
            Ok((process, input))
        });
        Ok(Self(writers.collect::<anyhow::Result<_>>()?))
    }

    /// Lets each commit so many times on the condition that nobody else did, and waits for all of them.
    pub(crate) fn commit(self, database: &Path, each: u32, value: &[u8]) -> anyhow::Result<()> {
        let value: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let count = self.0.len();
        let writers: Vec<_> = self
            .0
            .into_iter()
            .enumerate()
            .map(|(n, (process, input))| {
                let mut script = String::new();
                for revision in 0..each {
                    // Writing to a string can't fail.
                    let _ = writeln!(
                        script,
                        "BEGIN IMMEDIATE; UPDATE record SET revision = {}, value = x'{value}' \
                     WHERE key = '{n}' AND revision = {revision}; COMMIT;",
                        revision + 1
                    );
                }
                std::thread::spawn(move || {
                    let (mut process, mut input) = (process, input);
                    input.write_all(script.as_bytes())?;
                    drop(input);
                    process.wait()
                })
            })
            .collect();
        for writer in writers {
            let status = writer.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            if !status.success() {
                bail!("an SQLite shell failed: {status}");
            }
        }
        let done = shell(database)?.wait_with("SELECT count(*), min(revision) FROM record;\n")?;
        if done.trim() != format!("{count}|{each}") {
            bail!("SQLite should have {count}|{each} and has {}", done.trim());
        }
        Ok(())
    }
}

struct Shell {
    process: Child,
    input: ChildStdin,
}

impl Shell {
    /// Has it do `script` and end, and returns what it printed.
    fn wait_with(mut self, script: &str) -> anyhow::Result<String> {
        self.input.write_all(script.as_bytes())?;
        drop(self.input);
        let output = self.process.wait_with_output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn shell(database: &Path) -> anyhow::Result<Shell> {
    let mut process = Command::new("sqlite3")
        .args(["-batch", "-bail"])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start sqlite3 (Debian's sqlite3: cargo xtask setup)")?;
    let input = process.stdin.take().context("the shell has an input")?;
    Ok(Shell { process, input })
}
