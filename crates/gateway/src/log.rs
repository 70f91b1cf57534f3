//! The daemon's log: a line on standard error for each thing that happened, with its time, as text or as JSON. It says what
//! happened in the words of the documents, names what it is about, and decides nothing.

use clap::ValueEnum;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;
use std::sync::{LazyLock, OnceLock};
use tidegate_core::Clock as _;
use tidegate_host::SystemClock;

/// How lines are written; chosen once, when the daemon starts.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// The clock of the lines, made before descriptors or memory run out.
static CLOCK: LazyLock<Option<SystemClock>> = LazyLock::new(|| SystemClock::new().ok());

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// The time and a sentence
    Text,
    /// One JSON object a line: at, level, message, and what it is about
    Json,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    /// Something failed and is tried again, or told elsewhere.
    Warning,
}

/// What a line is about: `operation`, `component`, `incident`, `session`.
pub(crate) type About<'a> = &'a [(&'static str, &'a dyn Display)];

/// Chooses the format; the first choice stays.
pub(crate) fn begin(format: LogFormat) {
    let _ = FORMAT.set(format);
    LazyLock::force(&CLOCK);
}

/// Writes a line.
pub(crate) fn line(level: Level, about: About<'_>, message: &str) {
    crate::stderr::say(written(format(), &now(), level, about, message));
}

/// The line that scripts wait for: the daemon accepts. As text it has no time, so that nothing has to be taken apart.
pub(crate) fn ready(socket: &Path) {
    match format() {
        LogFormat::Text => crate::stderr::say(format_args!("ready {}", socket.display())),
        LogFormat::Json => line(Level::Info, &[("socket", &socket.display())], "ready"),
    }
}

fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or(LogFormat::Text)
}

fn now() -> String {
    CLOCK.as_ref().map_or_else(|| "-".to_owned(), |clock| clock.now().wall.to_string())
}

fn written(format: LogFormat, at: &str, level: Level, about: About<'_>, message: &str) -> String {
    if format == LogFormat::Text {
        return format!("{at} {message}");
    }
    let level = match level {
        Level::Info => "info",
        Level::Warning => "warning",
    };
    let mut fields = Map::new();
    for (name, value) in [("at", at), ("level", level), ("message", message)] {
        fields.insert(name.to_owned(), value.into());
    }
    fields.extend(about.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.to_string()))));
    Value::Object(fields).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: LogFormat, level: Level, about: About<'_>, message: &str, expected: &str) {
        assert_eq!(written(format, "2026-03-01T03:00:00.000Z", level, about, message), expected);
    }

    #[test]
    fn a_line_of_text_is_its_time_and_a_sentence() {
        let about: About<'_> = &[("operation", &"op-1")];
        let expected = "2026-03-01T03:00:00.000Z operation op-1 begins";
        check(LogFormat::Text, Level::Warning, about, "operation op-1 begins", expected);
    }

    #[test]
    fn a_line_of_json_says_the_same_with_what_it_is_about_in_fields() {
        check(
            LogFormat::Json,
            Level::Info,
            &[("operation", &"op-1"), ("component", &"files")],
            "operation op-1 \"begins\"\n",
            r#"{"at":"2026-03-01T03:00:00.000Z","level":"info","message":"operation op-1 \"begins\"\n","operation":"op-1","component":"files"}"#,
        );
        check(
            LogFormat::Json,
            Level::Warning,
            &[],
            "no room",
            r#"{"at":"2026-03-01T03:00:00.000Z","level":"warning","message":"no room"}"#,
        );
    }
}
