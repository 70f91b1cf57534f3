//! `cargo xtask report [--merge DIR…]`: gathers what the runs left, decides, and writes the report. The decision is
//! `decide`, a plain function; this file only reads and writes.

mod bullets;
mod decide;
mod glance;
pub(crate) mod model;
mod story;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_determinism::document;

use crate::board::{Board, Step};
use crate::workspace::Workspace;
use model::{Link, Part, Release, Report};

pub(crate) use decide::{MIN_SEEDS, determinism_blocks};

/// Below the results of a run or partition.
pub(crate) const EVIDENCE: &str = "evidence";
pub(crate) const RUN: &str = "run.json";
pub(crate) const BENCH: &str = "bench.json";
pub(crate) const SIMULATION: &str = "simulation.json";
pub(crate) const DETERMINISM: &str = "determinism";
pub(crate) const DETERMINISM_RECORD: &str = "determinism/determinism.json";
pub(crate) const REPORT: &str = "report";

/// Reports on the partitions in `merge`, or on the last run here.
pub(crate) fn run(board: &mut Board, workspace: &Workspace, merge: Vec<PathBuf>) {
    let dirs = if merge.is_empty() { vec![workspace.results()] } else { merge };
    board.step(&Step::new("report", 30, "cargo xtask report"), |_| write(workspace, &dirs));
}

/// Writes the report over `dirs`, each of which is the `target/tidegate` of one run or partition.
///
/// # Errors
/// Something could not be read or written, or the release is blocked: every reason is in the error.
pub(crate) fn write(workspace: &Workspace, dirs: &[PathBuf]) -> anyhow::Result<String> {
    let report = decide::decide(decide::Input {
        links: links(&workspace.root.join("fixtures/links.toml"))?,
        manifest: crate::suite::manifest(),
        parts: dirs.iter().map(|dir| gather(dir)).collect::<anyhow::Result<_>>()?,
    });
    let dir = workspace.results().join(REPORT);
    render(&dir, &report)?;
    if report.release == Release::Blocked {
        bail!(
            "the release is blocked:\n{}\nread {}",
            report.blockers.join("\n"),
            dir.join("report.md").display()
        );
    }
    Ok(format!("the release is allowed: {}", dir.join("report.md").display()))
}

fn render(dir: &Path, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let story = story::tell(report);
    let mut json = serde_json::to_string_pretty(report)?;
    json.push('\n');
    for (name, text) in [
        ("report.json", json),
        ("report.md", document::markdown(&story)),
        ("index.html", document::html(story::TITLE, &story)),
    ] {
        let file = dir.join(name);
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

/// What one run or partition left in `dir`. What isn't there is for the decision to notice.
fn gather(dir: &Path) -> anyhow::Result<Part> {
    if !dir.is_dir() {
        bail!("{} is no directory: give the target/tidegate directory of each partition", dir.display());
    }
    let mut evidence = Vec::new();
    let mut files = match std::fs::read_dir(dir.join(EVIDENCE)) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("read {}", dir.join(EVIDENCE).display())),
    };
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        evidence.extend(read(file)?);
    }
    Ok(Part {
        name: dir.display().to_string(),
        run: read(&dir.join(RUN))?,
        evidence,
        bench: read(&dir.join(BENCH))?,
        simulation: read(&dir.join(SIMULATION))?,
        determinism: read(&dir.join(DETERMINISM_RECORD))?,
    })
}

/// A JSON file, or `None` where there is none.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Option<T>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    serde_json::from_str(&text)
        .map(Some)
        .with_context(|| format!("{} is damaged: run its step again", file.display()))
}

/// The parent work items, from `fixtures/links.toml`: `[[links]]` with `title` and `url`.
fn links(file: &Path) -> anyhow::Result<Vec<Link>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Links {
        #[serde(default)]
        links: Vec<Link>,
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let links: Links =
        toml::from_str(&text).with_context(|| format!("{} is not as expected", file.display()))?;
    Ok(links.links)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::decide::{Input, decide, tests::complete};
    use super::*;

    #[track_caller]
    fn valid(schema: &Value, report: &Value) -> bool {
        jsonschema::validator_for(schema).unwrap().is_valid(report)
    }

    #[test]
    fn the_report_is_as_its_schema_says() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../schemas/report.schema.json")).unwrap();
        for input in [complete(), Input::default()] {
            let report = serde_json::to_value(decide(input)).unwrap();
            let problems: Vec<_> = jsonschema::validator_for(&schema)
                .unwrap()
                .iter_errors(&report)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(problems.is_empty(), "{problems:#?}");
        }
    }

    #[test]
    fn the_schema_notices_what_is_missing_or_misspelt() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../schemas/report.schema.json")).unwrap();
        let report = serde_json::to_value(decide(complete())).unwrap();
        assert!(valid(&schema, &report));
        let check = |pointer: &str, value: Value| {
            let mut changed = report.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert!(!valid(&schema, &changed), "{pointer}");
        };
        check("/release", "maybe".into());
        check("/bullets/0/id", 11.into());
        check("/bullets/0/levels/process/status", "proved".into());
        check("/bullets/0/levels/process/evidence/0/outcome", "started".into());
        check("/bullets/0/levels/process", Value::Null);
        check("/simulation/transcript_sha256", "short".into());
        for key in ["version", "commit", "links", "release", "bullets", "simulation", "determinism"] {
            let mut changed = report.clone();
            changed.as_object_mut().unwrap().remove(key);
            assert!(!valid(&schema, &changed), "{key}");
        }
    }

    #[test]
    fn what_a_run_left_is_gathered_and_what_it_did_not_leave_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(EVIDENCE)).unwrap();
        let text =
            r#"{"test": "a", "bullet": 3, "level": "process", "outcome": "started", "duration_ms": 0}"#;
        std::fs::write(dir.path().join(EVIDENCE).join("a.json"), text).unwrap();
        std::fs::write(dir.path().join(EVIDENCE).join("a.json.tmp"), "half a fi").unwrap();
        let part = gather(dir.path()).unwrap();
        assert_eq!(part.evidence.len(), 1);
        assert_eq!(part.evidence[0].test, "a");
        assert!(part.run.is_none() && part.simulation.is_none() && part.determinism.is_none());
    }

    #[test]
    fn damaged_evidence_is_an_error_and_never_absent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(EVIDENCE)).unwrap();
        std::fs::write(dir.path().join(EVIDENCE).join("a.json"), "{").unwrap();
        assert!(gather(dir.path()).is_err());
        assert!(gather(&dir.path().join("nowhere")).is_err());
    }

    #[test]
    fn links_may_be_absent_but_not_misspelt() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("links.toml");
        let check = |text: &str, expected: Option<usize>| {
            std::fs::write(&file, text).unwrap();
            assert_eq!(links(&file).ok().map(|links| links.len()), expected, "{text}");
        };
        check("", Some(0));
        check("[[links]]\ntitle = 'Restarts'\nurl = 'https://example.org/1'\n", Some(1));
        check("[[link]]\ntitle = 'Restarts'\nurl = 'https://example.org/1'\n", None);
        check("[[links]]\ntitle = 'Restarts'\n", None);
    }
}
