//! Words, numbers and tables, the same everywhere.

use super::tone::{Tone, toned, width};
use serde_json::Value;
use tidegate_core::WallTime;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A field as text on one line, whoever wrote it: strings without quotes, null as a dash.
pub(in crate::cli) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(s) => s.trim_end().replace('\n', "\\n"),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Milliseconds for people: `850 ms`, `12.3 s`, `4 min 10 s`, `3 h 5 min`, `2 d 1 h`.
pub(super) fn duration(ms: &Value) -> String {
    let Some(ms) = ms.as_u64() else { return cell(ms) };
    match ms {
        0..SECOND => format!("{ms} ms"),
        SECOND..MINUTE => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{} min {} s", ms / MINUTE, ms % MINUTE / SECOND),
        HOUR..DAY => format!("{} h {} min", ms / HOUR, ms % HOUR / MINUTE),
        _ => format!("{} d {} h", ms / DAY, ms % DAY / HOUR),
    }
}

/// How long ago a time is, in its largest unit: `now`, `12 s ago`, `3 min ago`. A time ahead of the reader's clock is shown as it
/// is.
pub(super) fn ago(time: &Value, now: WallTime) -> String {
    let Some(then) = time.as_str().and_then(|text| text.parse::<WallTime>().ok()) else { return cell(time) };
    let Ok(ms) = u64::try_from(now.0.saturating_sub(then.0)) else { return cell(time) };
    match ms {
        0..SECOND => "now".to_owned(),
        SECOND..MINUTE => format!("{} s ago", ms / SECOND),
        MINUTE..HOUR => format!("{} min ago", ms / MINUTE),
        HOUR..DAY => format!("{} h ago", ms / HOUR),
        _ => format!("{} d ago", ms / DAY),
    }
}

/// A time, to the second, and how long ago that is.
pub(super) fn when(time: &Value, now: WallTime) -> String {
    let text = cell(time);
    let seconds = text.split_once('.').map_or(text.as_str(), |(seconds, _)| seconds).trim_end_matches('Z');
    format!("{}Z ({})", seconds.replace('T', " "), ago(time, now))
}

/// A line with a label, lined up with the others of its kind.
pub(super) fn labelled(label: &str, text: &str) -> String {
    format!("{label:<14}{text}\n")
}

/// The items of an array; none when it is none.
pub(in crate::cli) fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Between two columns.
const GAP: usize = 2;

/// Rows as columns, each as wide as its widest cell; nothing without rows.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    if rows.len() == 1 {
        return String::new();
    }
    let widest = |column: usize| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(widest);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(widths) {
            line += &format!("{cell}{:1$}", "", widest - width(cell) + GAP);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A titled part of a document.
pub(super) fn section(title: &str, text: &str) -> String {
    if text.is_empty() {
        format!("{title}: none\n")
    } else {
        format!("{}\n{text}", toned(Tone::Strong, title))
    }
}

/// An object as labelled lines.
pub(in crate::cli) fn fields(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{name:<16} {}\n", cell(value))).collect()
}
