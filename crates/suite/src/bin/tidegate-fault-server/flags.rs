//! The flags of the process: from the command line, then from the script, which is read anew at each start.

use crate::havoc::Grandchild;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// A point in the life of the process at which it can be told to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before anything is read.
    Start,
    /// On `initialize`, instead of the answer.
    Initialize,
    /// On `notifications/initialized`.
    Initialized,
    /// On `tools/list`, instead of the answer.
    List,
}

/// What `ping` gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ping {
    Answer,
    Error,
    Silence,
}

/// What the tools say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Annotations {
    Honest,
    None,
    /// `read` is read-only and destructive at once.
    Contradictory,
}

/// Everything that can be told to the process.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) dir: PathBuf,
    pub(crate) version: String,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) annotations: Annotations,
    pub(crate) empty_lists: usize,
    pub(crate) page_size: Option<NonZero<usize>>,
    pub(crate) list_until_file: Option<PathBuf>,
    pub(crate) die_at: Vec<(Phase, RangeInclusive<u64>)>,
    pub(crate) die_message: Option<String>,
    pub(crate) die_code: i32,
    pub(crate) start_delay: Duration,
    pub(crate) slow_exit: Duration,
    pub(crate) ignore_eof: bool,
    pub(crate) ignore_term: bool,
    pub(crate) finish_at_eof: bool,
    pub(crate) honour_cancel: bool,
    pub(crate) ping: Ping,
    pub(crate) ask_when_initialized: Option<String>,
    pub(crate) echo: bool,
    pub(crate) port: Option<u16>,
    pub(crate) grandchild: Option<Grandchild>,
    pub(crate) banner: Vec<String>,
    pub(crate) stderr_bytes: usize,
    pub(crate) stderr_newlines: bool,
    pub(crate) crlf: bool,
}

impl Flags {
    /// Reads the command line, and the scripts that it names.
    pub(crate) fn parse(args: Vec<String>) -> Result<Self, String> {
        let mut flags = Self {
            dir: PathBuf::new(),
            version: "1.0.0".to_owned(),
            tools: None,
            annotations: Annotations::Honest,
            empty_lists: 0,
            page_size: None,
            list_until_file: None,
            die_at: Vec::new(),
            die_message: None,
            die_code: 1,
            start_delay: Duration::ZERO,
            slow_exit: Duration::ZERO,
            ignore_eof: false,
            ignore_term: false,
            finish_at_eof: false,
            honour_cancel: false,
            ping: Ping::Answer,
            ask_when_initialized: None,
            echo: false,
            port: None,
            grandchild: None,
            banner: Vec::new(),
            stderr_bytes: 0,
            stderr_newlines: false,
            crlf: false,
        };
        flags.take(args.into_iter(), true)?;
        if flags.dir.as_os_str().is_empty() {
            return Err(
                "--dir DIR is missing: the directory of the ledger; see docs/fault-server.md".to_owned()
            );
        }
        Ok(flags)
    }

    fn take(&mut self, mut args: impl Iterator<Item = String>, may_script: bool) -> Result<(), String> {
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--dir" => self.dir = value()?.into(),
                "--script" if may_script => {
                    let script = read_optional(&value()?)?;
                    self.take(words(&script), false)?;
                }
                "--version" => self.version = value()?,
                "--tools-file" => self.tools = Some(words(&read_optional(&value()?)?).collect()),
                "--annotations" => {
                    self.annotations = match value()?.as_str() {
                        "honest" => Annotations::Honest,
                        "none" => Annotations::None,
                        "contradictory" => Annotations::Contradictory,
                        other => {
                            return Err(format!("--annotations honest|none|contradictory, not {other:?}"));
                        }
                    }
                }
                "--empty-lists" => self.empty_lists = number(&flag, &value()?)?,
                "--page-size" => self.page_size = Some(number(&flag, &value()?)?),
                "--list-until-file" => self.list_until_file = Some(value()?.into()),
                "--die-at" => self.die_at.push(die_at(&value()?)?),
                "--die-message" => self.die_message = Some(value()?),
                "--die-code" => self.die_code = number(&flag, &value()?)?,
                "--start-delay-ms" => self.start_delay = Duration::from_millis(number(&flag, &value()?)?),
                "--slow-exit-ms" => self.slow_exit = Duration::from_millis(number(&flag, &value()?)?),
                "--ignore-eof" => self.ignore_eof = true,
                "--ignore-term" => self.ignore_term = true,
                "--finish-at-eof" => self.finish_at_eof = true,
                "--honour-cancel" => self.honour_cancel = true,
                "--ping" => {
                    self.ping = match value()?.as_str() {
                        "answer" => Ping::Answer,
                        "error" => Ping::Error,
                        "silence" => Ping::Silence,
                        other => return Err(format!("--ping answer|error|silence, not {other:?}")),
                    }
                }
                "--ask-when-initialized" => self.ask_when_initialized = Some(value()?),
                "--echo" => self.echo = true,
                "--port" => self.port = Some(number(&flag, &value()?)?),
                "--grandchild" => self.grandchild = Some(value()?.parse()?),
                "--banner" => self.banner.push(value()?),
                "--stderr-bytes" => self.stderr_bytes = number(&flag, &value()?)?,
                "--stderr-newlines" => self.stderr_newlines = true,
                "--crlf" => self.crlf = true,
                other => return Err(format!("unknown flag {other:?}; see docs/fault-server.md")),
            }
        }
        Ok(())
    }
}

/// A file that the test may not have written yet: then it says nothing.
fn read_optional(path: &str) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|e| format!("cannot read {path}: {e}")),
    }
}

/// One argument a line, so that values may hold spaces.
fn words(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<String> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    lines.into_iter()
}

fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{flag} needs a number, not {text:?}"))
}

/// `PHASE` or `PHASE:STARTS`, where `STARTS` is `N`, `N-` or `N-M`.
fn die_at(text: &str) -> Result<(Phase, RangeInclusive<u64>), String> {
    let (phase, starts) = text.split_once(':').unwrap_or((text, "1-"));
    let phase = match phase {
        "start" => Phase::Start,
        "initialize" => Phase::Initialize,
        "initialized" => Phase::Initialized,
        "list" => Phase::List,
        other => return Err(format!("--die-at start|initialize|initialized|list, not {other:?}")),
    };
    let starts = match starts.split_once('-') {
        None => number("--die-at", starts).map(|n| n..=n)?,
        Some((first, "")) => number("--die-at", first)?..=u64::MAX,
        Some((first, last)) => number("--die-at", first)?..=number("--die-at", last)?,
    };
    Ok((phase, starts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(Phase, RangeInclusive<u64>), &str>) {
        assert_eq!(die_at(text).map_err(|_| ""), expected, "{text}");
    }

    #[test]
    fn a_death_names_its_phase_and_its_starts() {
        check("start", Ok((Phase::Start, 1..=u64::MAX)));
        check("initialize:2", Ok((Phase::Initialize, 2..=2)));
        check("list:2-", Ok((Phase::List, 2..=u64::MAX)));
        check("initialized:1-3", Ok((Phase::Initialized, 1..=3)));
        check("breakfast", Err(""));
        check("start:x", Err(""));
    }
}
