//! The tests through nextest: run them, list them, and show that the slices of a partition cover each test once.
//! Which tests there are is nextest's word alone; nothing here keeps a list of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::Command;
use std::str::FromStr;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::board::Timer;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// One slice of the tests: `slice:INDEX/COUNT`, as nextest spells it, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Slice {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl Slice {
    pub(crate) const WHOLE: Self = Self { index: 1, count: 1 };
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice:{}/{}", self.index, self.count)
    }
}

impl From<Slice> for String {
    fn from(slice: Slice) -> Self {
        slice.to_string()
    }
}

impl TryFrom<String> for Slice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Slice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.strip_prefix("slice:").and_then(|rest| rest.split_once('/'));
        let parsed = numbers.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(format!(
                "{text:?} is no slice: write slice:INDEX/COUNT with INDEX from 1 to COUNT, such as slice:1/2"
            )),
        }
    }
}

/// Runs tests and shows them as they end. `selection` are further arguments of `cargo nextest run`, `sizes` variables that
/// make some tests larger.
pub(crate) fn run(
    workspace: &Workspace,
    timer: &Timer,
    profile: &str,
    slice: Slice,
    selection: &[String],
    sizes: &[(&str, &str)],
) -> anyhow::Result<()> {
    let mut command = nextest(workspace, "run", profile, slice);
    command.args(selection).envs(sizes.iter().copied());
    Program { what: "cargo nextest run", command, show: Show::Live, logs: &workspace.logs() }
        .succeed(timer)
        .map(drop)
}

/// The names of the tests of one slice, as `BINARY TEST`.
pub(crate) fn list(workspace: &Workspace, timer: &Timer, slice: Slice) -> anyhow::Result<BTreeSet<String>> {
    let mut command = nextest(workspace, "list", "ci", slice);
    command.args(["--message-format", "json"]);
    let what = format!("cargo nextest list {slice}");
    let json =
        Program { what: &what, command, show: Show::Answer, logs: &workspace.logs() }.succeed(timer)?;
    selected(&json)
}

fn nextest(workspace: &Workspace, verb: &str, profile: &str, slice: Slice) -> Command {
    let mut command = Command::new("cargo");
    command.args(["nextest", verb, "--workspace", "--profile", profile]).current_dir(&workspace.root);
    if slice != Slice::WHOLE {
        command.args(["--partition", &slice.to_string()]);
    }
    if profile == "ci" {
        // A test compares with its snapshot and writes none; a shard may turn out to have nothing to run.
        command.env("INSTA_UPDATE", "no");
        if verb == "run" {
            command.arg("--no-tests=pass");
        }
    }
    command
}

/// The tests that nextest's JSON listing says it would run.
fn selected(json: &str) -> anyhow::Result<BTreeSet<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Listing {
        rust_suites: BTreeMap<String, Suite>,
    }
    #[derive(Deserialize)]
    struct Suite {
        testcases: BTreeMap<String, Case>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Case {
        filter_match: Match,
    }
    #[derive(Deserialize)]
    struct Match {
        status: String,
    }
    let listing: Listing = serde_json::from_str(json).context("read what cargo nextest list printed")?;
    let tests = listing.rust_suites.iter().flat_map(|(binary, suite)| {
        suite
            .testcases
            .iter()
            .filter(|(_, case)| case.filter_match.status == "matches")
            .map(move |(test, _)| format!("{binary} {test}"))
    });
    Ok(tests.collect())
}

/// What is wrong with a division of `whole` into `slices`: each test belongs to exactly one.
pub(crate) fn uncovered(whole: &BTreeSet<String>, slices: &[BTreeSet<String>]) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = whole.iter().map(|test| (test.as_str(), 0)).collect();
    let mut problems = Vec::new();
    for test in slices.iter().flatten() {
        match times.get_mut(test.as_str()) {
            Some(count) => *count += 1,
            None => problems.push(format!("{test}: in a slice, but no test of the whole")),
        }
    }
    problems.extend(times.into_iter().filter(|(_, count)| *count != 1).map(|(test, count)| match count {
        0 => format!("{test}: in no slice"),
        count => format!("{test}: in {count} slices"),
    }));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_written_as_nextest_writes_it() {
        let check = |text: &str, expected: Option<(usize, usize)>| {
            let parsed = text.parse::<Slice>();
            assert_eq!(parsed.as_ref().ok().map(|slice| (slice.index, slice.count)), expected, "{text}");
            if let Ok(slice) = parsed {
                assert_eq!(slice.to_string(), text);
            }
        };
        check("slice:1/1", Some((1, 1)));
        check("slice:2/3", Some((2, 3)));
        check("slice:0/3", None);
        check("slice:4/3", None);
        check("slice:1/0", None);
        check("count:1/3", None);
        check("1/3", None);
        check("slice:1", None);
        check("slice:a/b", None);
    }

    #[test]
    fn a_listing_names_the_tests_that_match() {
        let json = r#"{"test-count": 3, "rust-suites": {
            "core": {"testcases": {"a": {"ignored": false, "filter-match": {"status": "matches"}},
                                   "b": {"ignored": false, "filter-match": {"status": "mismatch", "reason": "partition"}}}},
            "core::it": {"testcases": {"a": {"ignored": false, "filter-match": {"status": "matches"}}}}}}"#;
        assert_eq!(selected(json).unwrap(), set(&["core a", "core::it a"]));
        assert!(selected("{}").is_err());
    }

    fn set(tests: &[&str]) -> BTreeSet<String> {
        tests.iter().map(|test| (*test).to_owned()).collect()
    }

    #[test]
    fn slices_cover_each_test_exactly_once() {
        let check = |slices: &[&[&str]], problems: &[&str]| {
            let slices: Vec<_> = slices.iter().map(|slice| set(slice)).collect();
            assert_eq!(uncovered(&set(&["a", "b", "c"]), &slices), problems);
        };
        check(&[&["a", "b", "c"]], &[]);
        check(&[&["a", "c"], &["b"]], &[]);
        check(&[&["a"], &["b"]], &["c: in no slice"]);
        check(&[&["a", "b"], &["b", "c"]], &["b: in 2 slices"]);
        check(&[&["a", "b", "c", "d"]], &["d: in a slice, but no test of the whole"]);
        check(&[], &["a: in no slice", "b: in no slice", "c: in no slice"]);
    }
}
