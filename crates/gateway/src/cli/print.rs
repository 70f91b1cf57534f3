//! Showing documents: `--json` prints them as they are, otherwise they are rendered for people.
#![allow(clippy::print_stdout, clippy::print_stderr)] // this is the command line's one mouth

use super::Global;
use serde_json::Value;

/// Prints a document, rendered by `text` for people.
pub(super) fn document(global: &Global, document: &Value, text: impl FnOnce(&Value) -> String) {
    if global.json {
        println!("{document:#}");
    } else {
        let text = text(document);
        println!("{}", text.trim_end());
    }
}

/// Prints a line beside the document, for people who wait.
pub(super) fn aside(line: &str) {
    eprintln!("{line}");
}

/// Rows as columns, each as wide as its widest cell.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let pad = if i + 1 == cells.len() { 0 } else { width - cell.chars().count() + 2 };
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', pad));
        }
        text.trim_end().to_owned()
    };
    let head: Vec<String> = head.iter().map(|h| (*h).to_owned()).collect();
    std::iter::once(line(&head)).chain(rows.iter().map(|r| line(r))).collect::<Vec<_>>().join("\n")
}

/// A field as text: strings without quotes, null as a dash.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(s) => s.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Milliseconds for people: `850 ms`, `12.3 s`, `4 min 10 s`.
pub(super) fn duration(ms: &Value) -> String {
    let Some(ms) = ms.as_u64() else { return cell(ms) };
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// A column of a table: the key it shows, and how.
pub(super) type Column<'a> = (&'a str, fn(&Value) -> String);

/// The rows of an array of objects, one column a key.
pub(super) fn rows(list: &Value, columns: &[Column<'_>]) -> Vec<Vec<String>> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| columns.iter().map(|(key, show)| show(&item[*key])).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_lines_its_columns_up() {
        let list = json!([{"name": "a", "age_ms": 5}, {"name": "longer", "age_ms": 61_000}]);
        let rows = rows(&list, &[("name", cell), ("age_ms", duration)]);
        assert_eq!(table(&["NAME", "AGE"], &rows), "NAME    AGE\na       5 ms\nlonger  1 min 1 s");
    }
}
