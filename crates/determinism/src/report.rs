//! What is done with a record: its answer, its exit code, its two files; and the facts about the machine in it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::RunError;
use crate::markdown;
use crate::record::{Host, Level, Prerequisite, Record, Subject};

/// Clock ticks a second in `/proc/PID/stat`: fixed by the kernel's interface to programs.
const TICKS_PER_SECOND: u64 = 100;

impl Record {
    /// The answer in one line.
    pub fn answer(&self) -> String {
        markdown::answer(self)
    }

    /// The whole record for people.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// The record as a JSON document.
    ///
    /// # Errors
    ///
    /// Never for a record that [`run`](crate::run) made.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// What a command that made this record exits with: 0 with a verdict, 1 without one.
    ///
    /// A divergence is a verdict: it answers the question and blocks nothing.
    pub fn exit_code(&self) -> u8 {
        u8::from(matches!(self.verdict.level, Level::NotRun | Level::NoResult))
    }

    /// Writes `determinism.json` and `determinism.md` into a directory, each one whole or not at all.
    ///
    /// # Errors
    ///
    /// When the directory can't be made or written to.
    pub fn write(&self, directory: &Path) -> Result<(), RunError> {
        let failed = |path: &Path, source| RunError::Write { path: path.to_owned(), source };
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        let json = self.json().map_err(|error| failed(directory, error.into()))?;
        for (name, text) in [("determinism.md", self.markdown()), ("determinism.json", json)] {
            let path = directory.join(name);
            replace(directory, &path, &text).map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }
}

/// Through a file beside the target, so that a reader sees the old text or the new one.
fn replace(directory: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".determinism-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// What each executor needs, and whether it's there.
pub(crate) fn prerequisites(subject: &Subject) -> Vec<Prerequisite> {
    let prerequisite = |name: &str, met: bool, blocks: &[&str], evidence: &str, owner: &str| Prerequisite {
        name: name.to_owned(),
        state: if met { "met" } else { "missing" }.to_owned(),
        blocks: if met { Vec::new() } else { blocks.iter().map(|name| (*name).to_owned()).collect() },
        evidence: evidence.to_owned(),
        owner: owner.to_owned(),
        decide_by: None,
    };
    vec![
        prerequisite(
            "subject_found",
            subject.executable.is_some(),
            &["native"],
            subject.executable.as_deref().unwrap_or("no such program on the search path"),
            "whoever runs the check",
        ),
        prerequisite("image_built_by_ci", false, &["sandbox", "vm"], "the subject is a command", "operator"),
        prerequisite("access_and_cost_decision", false, &["antithesis"], "none is recorded", "operator"),
    ]
}

/// What a native run can't show.
pub(crate) fn not_compared() -> Vec<String> {
    [
        "what was executed: system calls, clock reads, thread switches",
        "files, sockets and anything else written outside standard output and standard error",
        "the order between standard output and standard error, which two pipes don't have",
        "how long anything took",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The machine that this runs on.
pub(crate) fn host() -> Host {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Host {
        os: std::env::consts::OS.to_owned(),
        kernel: release.trim().to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: std::thread::available_parallelism()
            .map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
    }
}

/// Processor time of all children that were waited for, and of theirs; zero where it can't be read.
pub(crate) fn cpu_of_children() -> Duration {
    fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(parse_children_time).unwrap_or_default()
}

/// Fields 16 and 17, counted after the name in parentheses, which may hold anything.
fn parse_children_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(13).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Seconds to the millisecond.
pub(crate) fn seconds(duration: Duration) -> f64 {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "12 (a) b (c)) S 1 12 12 0 -1 4194560 100 200 0 0 5 6 70 30 20 0 1 0 99 100 200";
        assert_eq!(parse_children_time(stat), Some(Duration::from_secs(1)));
        assert_eq!(parse_children_time("12 (a) S 1"), None);
        assert_eq!(parse_children_time(""), None);
    }
}
