//! What is done with a record: its answer, its exit code, its two files; and the facts about the machine in it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::document;
use crate::error::RunError;
use crate::executor::Spent;
use crate::plan::Plan;
use crate::record::{Cost, Host, Level, Outcome, Prerequisite, Reason, Record, RunCost, Subject};
use crate::scratch;
use crate::story;

/// Clock ticks a second in `/proc/PID/stat`: fixed by the kernel's interface to programs.
const TICKS_PER_SECOND: u64 = 100;

impl Record {
    /// The answer in one line.
    pub fn answer(&self) -> String {
        story::answer(self)
    }

    /// The whole record for people.
    pub fn markdown(&self) -> String {
        document::markdown(&story::tell(self))
    }

    /// The whole record as one page with its two pictures; it needs nothing from anywhere else.
    pub fn html(&self) -> String {
        document::html(story::TITLE, &story::tell(self))
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

    /// Writes `determinism.json`, `determinism.md` and `index.html` into a directory, each one whole or not at all.
    ///
    /// # Errors
    ///
    /// When the directory can't be made or written to.
    pub fn write(&self, directory: &Path) -> Result<(), RunError> {
        let failed = |path: &Path, source| RunError::Write { path: path.to_owned(), source };
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        let json = self.json().map_err(|error| failed(directory, error.into()))?;
        scratch::sweep(directory).map_err(|source| failed(directory, source))?;
        let texts =
            [("index.html", self.html()), ("determinism.md", self.markdown()), ("determinism.json", json)];
        // All are written before one is seen, so that no file is of another run than the next.
        let mut written = Vec::new();
        for (name, text) in texts {
            let path = directory.join(name);
            let file = unfinished(directory, &text).map_err(|source| failed(&path, source))?;
            written.push((path, file));
        }
        for (path, file) in written {
            file.persist(&path).map_err(|error| failed(&path, error.error))?;
        }
        Ok(())
    }
}

fn unfinished(directory: &Path, text: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix(&scratch::prefix()).tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// What the executors need, and whether it's there.
pub(crate) fn prerequisites(subject: &Subject, plan: &Plan, main: &Outcome) -> Vec<Prerequisite> {
    let prerequisite = |name: &str, met: bool, blocks: &[&str], evidence: String, owner: &str| Prerequisite {
        name: name.to_owned(),
        state: if met { "met" } else { "missing" }.to_owned(),
        blocks: if met { Vec::new() } else { blocks.iter().map(|name| (*name).to_owned()).collect() },
        evidence,
        owner: owner.to_owned(),
        decide_by: None,
    };
    let executor = plan.executor.name();
    let missing =
        main.verdict.detail.clone().filter(|_| main.verdict.reason == Some(Reason::ExecutorUnavailable));
    let decided = plan.on_record.len();
    vec![
        prerequisite(
            "subject_found",
            subject.executable.is_some(),
            &[executor],
            subject.executable.clone().unwrap_or_else(|| "no such program on the search path".to_owned()),
            "whoever runs the check",
        ),
        prerequisite(
            "executor_available",
            missing.is_none(),
            &[executor],
            missing.unwrap_or_else(|| format!("{executor} ran")),
            "whoever sets up the machine",
        ),
        prerequisite(
            "image_built_by_ci",
            subject.kind == "image",
            &["antithesis"],
            format!("the subject is a {}", subject.kind),
            "operator",
        ),
        prerequisite(
            "access_and_cost_decision",
            decided > 0,
            &["antithesis"],
            if decided > 0 { format!("{decided} on record") } else { "none is recorded".to_owned() },
            "operator",
        ),
    ]
}

/// What a run can't show: natively only output is seen, in a machine its trace, its kernel's log and its files too.
pub(crate) fn not_compared(machine: bool) -> Vec<String> {
    let natively = [
        "what was executed: system calls, clock reads, thread switches",
        "files, sockets and anything else written outside standard output and standard error",
        "the order between standard output and standard error, which two pipes don't have",
        "how long anything took",
    ];
    let in_a_machine = [
        "what was executed between two records of the trace, except by the time that it took",
        "memory, and files outside the subject's root",
    ];
    let items: &[&str] = if machine { &in_a_machine } else { &natively };
    items.iter().map(|item| (*item).to_owned()).collect()
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

/// Measures what a part of a check takes.
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    cpu_before: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { started: now(), cpu_before: cpu_of_children() }
    }

    pub(crate) fn stop(&self) -> Cost {
        Cost {
            wall_s: seconds(now().duration_since(self.started)),
            cpu_s: seconds(cpu_of_children().saturating_sub(self.cpu_before)),
            external_spend: 0,
            runs: Vec::new(),
        }
    }
}

/// The mean of what the runs of a part took.
pub(crate) fn cost_of_runs(part: &str, spent: &[Spent]) -> RunCost {
    let runs = u32::try_from(spent.len()).unwrap_or(u32::MAX);
    let mean = |of: fn(&Spent) -> Duration| {
        let total: Duration = spent.iter().map(of).sum();
        seconds(total.checked_div(runs).unwrap_or_default())
    };
    let resident_kib = spent.iter().filter_map(|spent| spent.resident_kib).max();
    RunCost {
        part: part.to_owned(),
        runs,
        wall_s: mean(|spent| spent.wall),
        cpu_s: mean(|spent| spent.cpu),
        resident_mib: resident_kib.map(|kib| tenths(kib as f64 / 1024.0)),
        ratio_to_native: None,
    }
}

/// One digit behind the point: more would pretend to a precision that a shared machine doesn't have.
pub(crate) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
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
