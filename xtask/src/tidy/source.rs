//! Rules on one file's text. They look at lines, not at syntax: a rule that needs a parser belongs in a lint.

use std::path::Path;

use super::Finding;

/// Past this, a file owns more than one thing.
const MAX_LINES: usize = 500;
/// Tables of cases are long and still one thing.
const MAX_TEST_LINES: usize = 800;
/// Where packages come from is the installer's setting, never ours. (Spelt in halves: this file has the rule too.)
const REGISTRY_HOSTS: [&str; 7] = [
    concat!("registry.", "npmjs.org"),
    concat!("registry.", "yarnpkg.com"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("files.", "pythonhosted.org"),
    concat!("deb.", "debian.org"),
    concat!("registry-1.", "docker.io"),
];

/// Every rule that applies to the file at `path`.
pub(super) fn all(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = no_registry_hosts(path, text);
    let extension = path.extension().and_then(|extension| extension.to_str());
    if matches!(extension, Some("rs" | "mjs")) {
        findings.extend(short_enough(path, text));
    }
    if extension == Some("rs") {
        findings.extend(says_what_it_is(path, text));
        findings.extend(never_sleeps_in_tests(path, text));
        findings.extend(ignores_no_test(path, text));
    }
    findings
}

pub(super) fn no_pending_snapshot(path: &Path) -> Option<Finding> {
    let name = path.file_name()?.to_str()?;
    (name.ends_with(".snap.new") || name.ends_with(".pending-snap"))
        .then(|| format!("{}: a snapshot waits for review: accept it or fix the test", path.display()))
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

fn short_enough(path: &Path, text: &str) -> Option<Finding> {
    let limit = if is_test(path) { MAX_TEST_LINES } else { MAX_LINES };
    let lines = text.lines().count();
    (lines > limit).then(|| format!("{}: {lines} lines, the limit is {limit}: split it", path.display()))
}

fn says_what_it_is(path: &Path, text: &str) -> Option<Finding> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    (!first.starts_with("//!")).then(|| format!("{}: begin with `//!`: what this file owns", path.display()))
}

fn never_sleeps_in_tests(path: &Path, text: &str) -> Vec<Finding> {
    let mut in_tests = is_test(path);
    let mut findings = Vec::new();
    for (number, line) in code_lines(text) {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        if in_tests && sleeps(line) {
            findings.push(format!(
                "{}:{number}: wait on a condition with a deadline instead of sleeping",
                path.display()
            ));
        }
    }
    findings
}

/// Whether a line calls a function named `sleep` or `sleep_until`. A method of an injected timer is no sleep.
fn sleeps(line: &str) -> bool {
    ["sleep(", "sleep_until("].iter().any(|call| {
        line.match_indices(call).any(|(at, _)| {
            let before = line[..at].chars().next_back().unwrap_or(' ');
            !(before.is_alphanumeric() || before == '_' || before == '.' || line[..at].ends_with("fn "))
        })
    })
}

fn ignores_no_test(path: &Path, text: &str) -> Vec<Finding> {
    code_lines(text)
        .filter(|(_, line)| line.trim_start().starts_with("#[ignore"))
        .map(|(number, _)| format!("{}:{number}: no test is ignored: fix it or delete it", path.display()))
        .collect()
}

fn no_registry_hosts(path: &Path, text: &str) -> Vec<Finding> {
    REGISTRY_HOSTS
        .iter()
        .filter(|host| text.contains(**host))
        .map(|host| {
            format!("{}: names the package registry {host}: leave that to the installer", path.display())
        })
        .collect()
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(all(Path::new(path), text), expected, "{path}");
    }

    #[test]
    fn a_tidy_file_has_no_findings() {
        check("crates/core/src/lib.rs", "//! Words.\n\npub fn word() {}\n", &[]);
        check("README.md", "no module documentation here\n", &[]);
    }

    #[test]
    fn a_file_begins_by_saying_what_it_owns() {
        let finding = "src/a.rs: begin with `//!`: what this file owns";
        check("src/a.rs", "pub fn word() {}\n", &[finding]);
        check("src/a.rs", "// Words.\n//! Words.\n", &[finding]);
        check("src/a.rs", "", &[finding]);
        check("src/a.rs", "\n//! Words.\n", &[]);
    }

    #[test]
    fn a_long_file_wants_splitting() {
        let lines = |count: usize| format!("//! Words.\n{}", "x\n".repeat(count - 1));
        check("src/a.rs", &lines(500), &[]);
        check("src/a.rs", &lines(501), &["src/a.rs: 501 lines, the limit is 500: split it"]);
        check("clients/a.mjs", &lines(501), &["clients/a.mjs: 501 lines, the limit is 500: split it"]);
        check("tests/it/a.rs", &lines(800), &[]);
        check("tests/it/a.rs", &lines(801), &["tests/it/a.rs: 801 lines, the limit is 800: split it"]);
        check("src/a/tests.rs", &lines(800), &[]);
    }

    #[test]
    fn a_test_waits_on_a_condition_and_never_sleeps() {
        let sleep = concat!("sle", "ep(D)");
        let at = |line: usize| {
            format!("tests/it/a.rs:{line}: wait on a condition with a deadline instead of sleeping")
        };
        check("tests/it/a.rs", &format!("//! T.\nthread::{sleep};\n"), &[&at(2)]);
        check("tests/it/a.rs", &format!("//! T.\n\n    {sleep};\n"), &[&at(3)]);
        check("tests/it/a.rs", &format!("//! T.\n// {sleep}\n"), &[]);
        check("tests/it/a.rs", &format!("//! T.\ntimer.{sleep};\nno_{sleep};\nfn {sleep}\n"), &[]);
        check("src/a.rs", &format!("//! T.\n{sleep};\n"), &[]);
        check(
            "src/a.rs",
            &format!("//! T.\n#[cfg(test)]\nmod tests {{\n{sleep};\n"),
            &["src/a.rs:4: wait on a condition with a deadline instead of sleeping"],
        );
    }

    #[test]
    fn no_test_is_ignored() {
        let ignore = concat!("#[ign", "ore");
        let finding = "tests/a.rs:2: no test is ignored: fix it or delete it";
        check("tests/a.rs", &format!("//! T.\n  {ignore}]\n"), &[finding]);
        check("tests/a.rs", &format!("//! T.\n{ignore} = \"slow\"]\n"), &[finding]);
    }

    #[test]
    fn no_file_names_a_package_registry() {
        let host = REGISTRY_HOSTS[0];
        check(
            "fixtures/package-lock.json",
            &format!("https://{host}/a"),
            &[&format!(
                "fixtures/package-lock.json: names the package registry {host}: leave that to the installer"
            )],
        );
    }

    #[test]
    fn a_pending_snapshot_is_found_by_its_name() {
        let found = |path: &str| no_pending_snapshot(Path::new(path)).is_some();
        assert!(found("tests/it/snapshots/a.snap.new"));
        assert!(found("src/.lib.rs.pending-snap"));
        assert!(!found("tests/it/snapshots/a.snap"));
    }
}
