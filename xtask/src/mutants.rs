//! `cargo xtask mutants`: the decisions changed one at a time by cargo-mutants, and the tests asked whether they notice.
//! `fixtures/mutants.toml` says which files are decisions, and which mutants nobody could notice and why: that list only
//! shrinks. A mutant that hangs its tests is one that is noticed.
//!
//! A mutant costs seconds: all of them are built in one copy of the tree, incrementally and without optimisation, and only
//! the tests of their own package are asked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::clock::Stopwatch;
use crate::workspace::Workspace;

/// What is mutated, and what may survive.
pub(crate) const LIST: &str = "fixtures/mutants.toml";
/// Where the copy of the tree is built, below `target`, and where each module's results are kept, below `target/tidegate`.
const MUTANTS: &str = "mutants";
/// The copy that is mutated, below the former.
const TREE: &str = "tree";
/// A mutant hangs when its tests take this many times what they take without it, and this many seconds at least: the
/// machine may be busier by then.
const HANGS: [&str; 4] = ["--timeout-multiplier", "5", "--minimum-test-timeout", "15"];
/// Debug information is not read by anybody here, and changing one function should build no more than it must.
const QUICK: [(&str, &str); 2] = [("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_DEV_DEBUG", "false")];
/// A decision has no value by default, so what returns one instead of deciding never compiles.
const NEVER_COMPILES: &str = r"Decision::(new|from|from_iter)\(";
/// cargo-mutants' own exit codes: every mutant caught, some survived, some hung. Anything else is no result.
const RESULT_CODES: [i32; 3] = [0, 2, 3];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this module (may be repeated); all of them without it
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Print the mutants, and run nothing
    #[arg(long)]
    list: bool,
}

/// The list as it is stored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutants {
    /// How long the list of survivors is; it is lowered with each that goes, and never raised.
    at_most: usize,
    /// What is mutated, by the name that `--module` takes.
    module: BTreeMap<String, Module>,
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// Files whose decisions are mutated together, against the tests of their package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Module {
    package: String,
    files: Vec<String>,
    /// Which tests are asked, as nextest writes it: those that could notice, and not those that take long.
    tests: String,
}

/// A mutant that no test can notice.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    /// `path: what is changed in which function`, as cargo-mutants says it without the place in the file.
    mutant: String,
    /// Why it makes no difference.
    reason: String,
}

/// What the tests made of one module's mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    caught: usize,
    hung: usize,
    /// Those that don't compile say nothing.
    unviable: usize,
    survived: Vec<String>,
}

impl Mutants {
    fn read(workspace: &Workspace) -> anyhow::Result<Self> {
        let file = workspace.root.join(LIST);
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("read {}", file.display()))
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// What is wrong with the list itself. `is_file` says whether the tree has a file.
    pub(crate) fn problems(&self, is_file: impl Fn(&str) -> bool) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, module) in &self.module {
            for file in module.files.iter().filter(|file| !is_file(file)) {
                problems.push(format!("{LIST}: the module {name} has no file {file} any more"));
            }
        }
        for Survivor { mutant, reason } in &self.survivor {
            if self.module_of(mutant).is_none() {
                problems.push(format!("{LIST}: no module has the file of {mutant:?}"));
            }
            if reason.trim().is_empty() {
                problems.push(format!("{LIST}: say why nobody can notice {mutant:?}"));
            }
        }
        if self.survivor.len() != self.at_most {
            problems.push(format!(
                "{LIST}: {} survivors and at_most = {}: the list only shrinks; lower at_most with it, or kill what is new",
                self.survivor.len(),
                self.at_most
            ));
        }
        problems
    }

    fn module_of(&self, mutant: &str) -> Option<&str> {
        let (file, _) = mutant.split_once(": ")?;
        let found = self.module.iter().find(|(_, module)| module.files.iter().any(|it| it == file));
        found.map(|(name, _)| name.as_str())
    }

    /// What is to be done about a module's outcome: a survivor that isn't listed, and a listed one that is killed now.
    /// Several mutants of one function may read the same; so many rows are so many mutants.
    fn verdict(&self, module: &str, outcome: &Outcome) -> Vec<String> {
        let mut count: BTreeMap<&str, i64> = BTreeMap::new();
        for mutant in &outcome.survived {
            *count.entry(mutant).or_default() += 1;
        }
        for survivor in self.survivor.iter().filter(|it| self.module_of(&it.mutant) == Some(module)) {
            *count.entry(&survivor.mutant).or_default() -= 1;
        }
        count
            .into_iter()
            .filter_map(|(mutant, more)| match more {
                0 => None,
                1.. => Some(format!("survives, and isn't listed: {mutant}")),
                _ => Some(format!(
                    "is listed, and killed now: {mutant}: take it off {LIST}, and lower at_most"
                )),
            })
            .collect()
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    let mutants = Mutants::read(workspace)?;
    let known = || mutants.module.keys().cloned().collect::<Vec<_>>();
    if let Some(name) = args.module.iter().find(|name| !mutants.module.contains_key(*name)) {
        bail!("no module is called {name:?}; there are {}", known().join(", "));
    }
    if !is_installed() {
        bail!("cargo-mutants is not there: cargo install cargo-mutants --locked");
    }
    let mut findings = Vec::new();
    for name in if args.module.is_empty() { known() } else { args.module.clone() } {
        let Some(module) = mutants.module.get(&name) else { continue };
        let Some(outcome) = mutate(workspace, &name, module, args.list)? else { continue };
        println!(
            "{name}: {} caught, {} hung, {} survived, {} don't compile",
            outcome.caught,
            outcome.hung,
            outcome.survived.len(),
            outcome.unviable
        );
        findings.extend(mutants.verdict(&name, &outcome));
    }
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_installed() -> bool {
    let version = Command::new("cargo").args(["mutants", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// Mutates the copy of the tree. It stays where it is, so that what hasn't changed since the last run isn't built again.
fn mutate(workspace: &Workspace, name: &str, module: &Module, list: bool) -> anyhow::Result<Option<Outcome>> {
    let target = workspace.target.join(MUTANTS);
    let tree = Workspace { root: target.join(TREE), target };
    bring_up_to_date(workspace, &tree)?;
    let output = workspace.results().join(MUTANTS).join(name);
    fs::create_dir_all(&output).with_context(|| format!("create {}", output.display()))?;
    let mut command = Command::new("cargo");
    command.args(["mutants", "--in-place", "--package", &module.package, "--test-package", &module.package]);
    command.args(["--test-tool", "nextest", "--colors", "never", "--exclude-re", NEVER_COMPILES]);
    for file in &module.files {
        command.args(["--file", file]);
    }
    command.env("CARGO_TARGET_DIR", &tree.target).envs(QUICK).current_dir(&tree.root);
    if list {
        let status = command.arg("--list").status().context("start cargo mutants")?;
        return if status.success() {
            Ok(None)
        } else {
            bail!("cargo mutants has no list for {name} ({status})")
        };
    }
    command.args(HANGS).args(["--caught", "--unviable", "--output"]).arg(&output);
    let unoptimised = format!("--config=profile.dev.package.{}.opt-level=0", module.package);
    for argument in ["--lib", "--test=it", &unoptimised] {
        command.arg(format!("--cargo-arg={argument}"));
    }
    for argument in ["--max-fail=1:immediate", "-E", &module.tests] {
        command.arg(format!("--cargo-test-arg={argument}"));
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo mutants")?;
    if let Some(said) = child.stdout.take() {
        tell_progress(BufReader::new(said).lines().map_while(Result::ok));
    }
    let status = child.wait().context("wait for cargo mutants")?;
    if !status.code().is_some_and(|code| RESULT_CODES.contains(&code)) {
        bail!("cargo mutants gave no result for {name} ({status}); its words are above");
    }
    Ok(Some(outcome(&output.join("mutants.out"))?))
}

/// Makes a copy of the tree what the tree is. Only what differs is written: the rest was built by an earlier run.
fn bring_up_to_date(workspace: &Workspace, copy: &Workspace) -> anyhow::Result<()> {
    fs::create_dir_all(&copy.root).with_context(|| format!("create {}", copy.root.display()))?;
    let files = workspace.files()?;
    for file in &files {
        let (from, to) = (workspace.root.join(file), copy.root.join(file));
        let text = fs::read(&from).with_context(|| format!("read {}", from.display()))?;
        if fs::read(&to).is_ok_and(|old| old == text) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(&copy.root))
            .with_context(|| format!("create {}", to.display()))?;
        fs::copy(&from, &to).with_context(|| format!("write {}", to.display()))?;
    }
    let gone = |file: &PathBuf| files.binary_search(file).is_err();
    for file in copy.files()?.iter().filter(|file| gone(file)) {
        fs::remove_file(copy.root.join(file)).with_context(|| format!("remove {}", file.display()))?;
    }
    Ok(())
}

/// Repeats what cargo-mutants says, each mutant with how many there are and how long the rest will take.
fn tell_progress(lines: impl Iterator<Item = String>) {
    let (mut all, mut done, mut watch) = (0_u32, 0, Stopwatch::start());
    for line in lines {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Found"), Some(count)) => all = count.parse().unwrap_or(all),
            (Some("ok"), _) => watch = Stopwatch::start(),
            (Some("caught" | "MISSED" | "TIMEOUT" | "unviable"), _) => {
                done += 1;
                let left = watch.elapsed() / done * all.saturating_sub(done);
                println!("{done}/{all}, about {} s left: {line}", left.as_secs());
                continue;
            }
            _ => {}
        }
        println!("{line}");
    }
}

fn outcome(dir: &Path) -> anyhow::Result<Outcome> {
    let lines = |name: &str| -> anyhow::Result<Vec<String>> {
        let file = dir.join(name);
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        Ok(text.lines().map(without_place).collect())
    };
    Ok(Outcome {
        caught: lines("caught.txt")?.len(),
        hung: lines("timeout.txt")?.len(),
        unviable: lines("unviable.txt")?.len(),
        survived: lines("missed.txt")?,
    })
}

/// `src/a.rs:12:9: replace …` → `src/a.rs: replace …`: lines move, what is changed in which function stays.
fn without_place(line: &str) -> String {
    let Some((place, what)) = line.split_once(": ") else { return line.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = r#"
at_most = 2
[module.leases]
package = "tidegate-leases"
files = ["src/a.rs", "src/b.rs"]
tests = "all()"
[module.drain]
package = "tidegate-drain"
files = ["src/c.rs"]
tests = "all()"
[[survivor]]
mutant = "src/a.rs: replace < with <= in late"
reason = "both are the same instant"
[[survivor]]
mutant = "src/c.rs: replace + with * in sum"
reason = "one of them is 2 and the other 2"
"#;

    fn mutants() -> Mutants {
        Mutants::parse(LISTED).unwrap()
    }

    #[test]
    fn only_what_is_listed_may_survive_and_what_is_listed_must() {
        let check = |survived: &[&str], expected: &[&str]| {
            let survived = survived.iter().map(|it| (*it).to_owned()).collect();
            let outcome = Outcome { survived, ..Outcome::default() };
            assert_eq!(mutants().verdict("leases", &outcome), expected);
        };
        let listed = "src/a.rs: replace < with <= in late";
        check(&[listed], &[]);
        check(
            &[],
            &[
                "is listed, and killed now: src/a.rs: replace < with <= in late: take it off fixtures/mutants.toml, and lower at_most",
            ],
        );
        check(
            &[listed, "src/b.rs: replace f with ()"],
            &["survives, and isn't listed: src/b.rs: replace f with ()"],
        );
        check(&[listed, listed], &["survives, and isn't listed: src/a.rs: replace < with <= in late"]);
    }

    #[test]
    fn the_list_names_files_that_are_there_reasons_and_its_own_length() {
        let check = |from: &str, to: &str, expected: &str| {
            let mutants = Mutants::parse(&LISTED.replacen(from, to, 1)).unwrap();
            let problems = mutants.problems(|file| file != "src/gone.rs");
            assert_eq!(problems.is_empty(), expected.is_empty(), "{problems:?}");
            assert!(problems.concat().contains(expected), "{problems:?}");
        };
        check("", "", "");
        check("src/b.rs", "src/gone.rs", "the module leases has no file src/gone.rs any more");
        check("\"src/c.rs\"", "\"src/d.rs\"", "no module has the file of \"src/c.rs");
        check("both are the same instant", " ", "say why nobody can notice");
        check("at_most = 2", "at_most = 3", "2 survivors and at_most = 3");
    }

    #[test]
    fn a_mutant_is_known_without_its_place_in_the_file() {
        let check = |line: &str, expected: &str| assert_eq!(without_place(line), expected);
        check("src/a.rs:12:9: replace < with <= in late", "src/a.rs: replace < with <= in late");
        check(
            "src/a.rs:1:1: replace <impl X for Y>::f -> a::B with B: default",
            "src/a.rs: replace <impl X for Y>::f -> a::B with B: default",
        );
    }
}
