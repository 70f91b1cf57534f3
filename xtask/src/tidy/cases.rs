//! Rules on the tables of faults in `docs/cases-*.md`: `| fault | right behaviour | test |`. A row is worth what its test
//! is worth, so each test that a row names has to be there. Whether it shows what the row says is for its reader.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Finding;

/// A row without a test begins its last cell with this, and says why there is none.
const NONE: &str = "none: ";
/// What stands between a test's file and its name.
const SEPARATOR: &str = ".rs::";

/// Whether this is a table of faults.
pub(super) fn is_table(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path.parent() == Some(Path::new("docs")) && name.starts_with("cases-") && name.ends_with(".md")
}

/// Every row names tests that `sources` has, as `` `path/from/the/root.rs::name` ``, or says why it has none.
pub(super) fn name_their_tests(
    path: &Path,
    table: &str,
    sources: &BTreeMap<PathBuf, String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in table.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else { continue };
        if row.starts_with("---") || row.trim_start().starts_with("fault ") {
            continue;
        }
        let place = format!("{}:{}", path.display(), at + 1);
        let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        let [_, _, last] = cells[..] else {
            findings.push(format!("{place}: a row has three cells: fault, right behaviour, test"));
            continue;
        };
        let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && last.strip_prefix(NONE).is_none_or(str::is_empty) {
            findings.push(format!(
                "{place}: name the test that shows this (`path.rs::name`), or begin with `{NONE}`why"
            ));
        }
        findings.extend(
            named.into_iter().filter_map(|test| missing(test, sources)).map(|why| format!("{place}: {why}")),
        );
    }
    findings
}

/// Why a test that is named isn't one, if it isn't.
fn missing(test: &str, sources: &BTreeMap<PathBuf, String>) -> Option<String> {
    let Some((file, name)) = test.split_once(SEPARATOR) else {
        return Some(format!("{test} is not the name of a test: write `path/from/the/root.rs::name`"));
    };
    let Some(text) = sources.get(Path::new(&format!("{file}.rs"))) else {
        return Some(format!("there is no file {file}.rs"));
    };
    (!has_test(text, name)).then(|| format!("{file}.rs has no test {name}"))
}

/// Whether `text` has a function of this name. That it's a test is not looked for: a macro may make it one.
fn has_test(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let Some((_, rest)) = line.split_once("fn ") else { return false };
        rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_tests_that_are_there_or_says_why_it_has_none() {
        let sources = BTreeMap::from([(
            PathBuf::from("crates/a/tests/it/b.rs"),
            "//! B.\n\n#[test]\nfn the_kind_holds() {}\n".to_owned(),
        )]);
        let check = |row: &str, expected: &[&str]| {
            let table = format!("# Faults\n\n| fault | right behaviour | test |\n|---|---|---|\n{row}\n");
            let found = name_their_tests(Path::new("docs/cases-x.md"), &table, &sources);
            let expected: Vec<String> =
                expected.iter().map(|finding| format!("docs/cases-x.md:5: {finding}")).collect();
            assert_eq!(found, expected, "{row}");
        };
        check("| a | b | `crates/a/tests/it/b.rs::the_kind_holds` |", &[]);
        check("| a | b | `crates/a/tests/it/b.rs::the_kind_holds`, for all |", &[]);
        check("| a | b | none: not built yet |", &[]);
        check("prose between the tables", &[]);
        check(
            "| a | b | `crates/a/tests/it/b.rs::the_kind` |",
            &["crates/a/tests/it/b.rs has no test the_kind"],
        );
        check("| a | b | `crates/a/c.rs::the_kind_holds` |", &["there is no file crates/a/c.rs"]);
        check(
            "| a | b | `the_kind_holds` |",
            &["the_kind_holds is not the name of a test: write `path/from/the/root.rs::name`"],
        );
        let nothing = "name the test that shows this (`path.rs::name`), or begin with `none: `why";
        check("| a | b | it is fine |", &[nothing]);
        check("| a | b | |", &[nothing]);
        check("| a | b |", &["a row has three cells: fault, right behaviour, test"]);
    }

    #[test]
    fn a_table_of_faults_is_known_by_its_name() {
        assert!(is_table(Path::new("docs/cases-domain.md")));
        assert!(!is_table(Path::new("docs/operations.md")));
        assert!(!is_table(Path::new("cases-domain.md")));
    }
}
