//! Running another program under a step's budget: it says every few seconds that it is still at work, is stopped
//! when the budget is spent, and what it printed is shown when it fails. Never a shell, never a silent failure.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::board::Timer;

/// A program that takes longer than this says so: nobody should wonder whether anything happens.
const FIRST_SIGN: Duration = Duration::from_secs(2);
/// And then this often, which is what a CI log needs and a person still follows.
const NEXT_SIGN: Duration = Duration::from_secs(10);
/// How long a program that was told to stop may take for it (nextest stops its tests first).
const STOP_GRACE: Duration = Duration::from_secs(10);
/// The end of a failed program's output is what says why; all of it is in the log file.
const SHOWN_LINES: usize = 120;

/// A line longer than this is cut: it only says what a program is at.
const LAST_LINE_BYTES: u64 = 160;

/// Where a program's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// To the terminal, as it comes: the program shows its own progress.
    Live,
    /// To a log file, whose end is shown if the program fails.
    Kept,
    /// stdout is the answer, handed back whole; stderr goes to a log file, whose end is shown if the program fails.
    Answer,
}

/// A program to run, with the name that its progress lines and its log file carry.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) what: &'a str,
    pub(crate) command: Command,
    pub(crate) show: Show,
    pub(crate) logs: &'a Path,
}

/// How a program ended, and what it printed as its answer.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) answer: String,
}

impl Program<'_> {
    /// Runs the program and demands success.
    ///
    /// # Errors
    /// It could not be started, ended badly (the end of its log is printed), or was stopped at the budget.
    pub(crate) fn succeed(self, timer: &Timer) -> anyhow::Result<String> {
        let what = self.what.to_owned();
        let ended = self.run(timer)?;
        if !ended.status.success() {
            bail!("{what} failed ({})", ended.status);
        }
        Ok(ended.answer)
    }

    /// Runs the program to its end, whatever that is.
    ///
    /// # Errors
    /// It could not be started, or was stopped at the budget.
    pub(crate) fn run(mut self, timer: &Timer) -> anyhow::Result<Ended> {
        self.command.stdin(Stdio::null());
        if self.show != Show::Live {
            std::fs::create_dir_all(self.logs).with_context(|| format!("create {}", self.logs.display()))?;
            let log = create(&self.file("log"))?;
            self.command.stdout(match self.show {
                Show::Answer => create(&self.file("out"))?,
                Show::Live | Show::Kept => log.try_clone()?,
            });
            self.command.stderr(log);
        }
        let name = self.command.get_program().to_string_lossy().into_owned();
        let mut child = self.command.spawn().with_context(|| format!("start {name} for {}", self.what))?;
        let status = self.wait(&mut child, timer)?;
        if self.show != Show::Live && !status.is_some_and(|status| status.success()) {
            show_end(&self.file("log"));
        }
        let Some(status) = status else {
            bail!("{} was stopped when the step's budget was spent", self.what);
        };
        let answer = match self.show {
            Show::Answer => {
                let file = self.file("out");
                std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?
            }
            Show::Live | Show::Kept => String::new(),
        };
        Ok(Ended { status, answer })
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.logs.join(format!("{}.{extension}", self.what.replace([' ', '/', ':'], "-")))
    }

    /// The program's status, or `None` when it had to be stopped.
    fn wait(&self, child: &mut Child, timer: &Timer) -> anyhow::Result<Option<ExitStatus>> {
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).context("watch the program")?;
        let mut sign = FIRST_SIGN;
        loop {
            if ends_within(&pidfd, sign.min(timer.left()))? {
                return Ok(Some(child.wait()?));
            }
            if timer.left().is_zero() {
                pidfd_send_signal(&pidfd, Signal::TERM).context("stop the program")?;
                if !ends_within(&pidfd, STOP_GRACE)? {
                    child.kill()?;
                }
                child.wait()?;
                return Ok(None);
            }
            if self.show != Show::Live {
                let (step, seconds) = (timer.step, timer.elapsed().as_secs());
                eprintln!("..    {step}: {} ({seconds} s) {}", self.what, last_line(&self.file("log")));
            }
            sign = NEXT_SIGN;
        }
    }
}

/// Whether the process ends within `time`. A signal in between only shortens the wait.
fn ends_within(pidfd: &rustix::fd::OwnedFd, time: Duration) -> anyhow::Result<bool> {
    let mut ends = [PollFd::new(pidfd, PollFlags::IN)];
    match poll(&mut ends, Some(&Timespec::try_from(time)?)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("wait for the program"),
    }
}

fn create(file: &Path) -> anyhow::Result<File> {
    File::create(file).with_context(|| format!("create {}", file.display()))
}

/// The newest whole or half line of a log, which says what the program is at. Empty when there is none.
fn last_line(log: &Path) -> String {
    let mut tail = Vec::new();
    if let Ok(mut file) = File::open(log) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE_BYTES)));
        let _ = file.take(LAST_LINE_BYTES).read_to_end(&mut tail);
    }
    let text = String::from_utf8_lossy(&tail);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn show_end(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    if from > 0 {
        eprintln!("… {from} lines before these are in {}", log.display());
    }
    for line in &lines[from..] {
        eprintln!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, Step};

    /// Runs `sh -c SCRIPT` as a step of `budget_s` and gives back what the step was told.
    fn run(script: &str, show: Show, budget_s: u64) -> Result<String, String> {
        let logs = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let program = Program { what: "a script", command, show, logs: logs.path() };
        let mut outcome = Ok(String::new());
        Board::new().step(&Step::new("script", budget_s, "sh"), |timer| {
            outcome = program.succeed(timer).map_err(|error| format!("{error:#}"));
            Ok(String::new())
        });
        outcome
    }

    #[test]
    fn an_answer_is_what_the_program_wrote_to_stdout() {
        assert_eq!(run("echo 42", Show::Answer, 60), Ok("42\n".to_owned()));
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_status() {
        assert_eq!(
            run("echo why >&2; exit 3", Show::Kept, 60),
            Err("a script failed (exit status: 3)".to_owned())
        );
    }

    #[test]
    fn a_program_that_hangs_is_stopped_when_the_budget_is_spent() {
        let outcome = run("exec tail -f /dev/null", Show::Kept, 1);
        assert_eq!(outcome, Err("a script was stopped when the step's budget was spent".to_owned()));
    }
}
