//! The rules that no compiler checks. Each rule is a plain function on text or on cargo's own description of the
//! workspace and answers with findings; only this file reads the tree. No rule changes a file.

mod cases;
mod graph;
mod source;
mod workflow;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::board::Timer;
use crate::mutants::{self, Mutants};
use crate::process::{Program, Show};
use crate::workspace::Workspace;

pub(crate) use workflow::{PARTITIONS_FILE, slice_count};

/// Something that breaks a rule: where, and what to do about it.
pub(crate) type Finding = String;

/// Runs every rule over the whole tree.
///
/// # Errors
/// All findings at once, one per line.
pub(crate) fn run(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let files = workspace.files()?;
    let mut findings = Vec::new();
    let mut tables = Vec::new();
    let mut sources = BTreeMap::new();
    for path in &files {
        findings.extend(source::no_pending_snapshot(path));
        let bytes =
            std::fs::read(workspace.root.join(path)).with_context(|| format!("read {}", path.display()))?;
        // Only text has rules; a fixture may be anything.
        if let Ok(text) = String::from_utf8(bytes) {
            findings.extend(source::all(path, &text));
            if cases::is_table(path) {
                tables.push((path, text));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.insert(path.clone(), text);
            }
        }
    }
    for (path, table) in tables {
        findings.extend(cases::name_their_tests(path, &table, &sources));
    }

    let read = |path: &str| {
        std::fs::read_to_string(workspace.root.join(path)).with_context(|| format!("read {path}"))
    };
    let metadata = graph::Metadata::parse(&cargo_metadata(workspace, timer)?)?;
    for package in &metadata.packages {
        findings.extend(graph::inherits_lints(package, &std::fs::read_to_string(&package.manifest)?));
    }
    findings.extend(graph::dependencies_are_listed(&metadata, &read("docs/dependencies.md")?));
    findings.extend(graph::point_down(&metadata));
    findings.extend(graph::stay_light(&metadata));
    findings.extend(graph::nothing_is_planted(&metadata));
    let is_file = |path: &str| files.iter().any(|file| file == Path::new(path));
    findings.extend(Mutants::parse(&read(mutants::LIST)?)?.problems(is_file));
    findings.extend(workflow::matrix_is_complete(&read(PARTITIONS_FILE)?));

    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    Ok(format!("{} files, {} crates", files.len(), metadata.packages.len()))
}

fn cargo_metadata(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--format-version", "1"]).current_dir(&workspace.root);
    Program { what: "cargo metadata", command, show: Show::Answer, logs: &workspace.logs() }.succeed(timer)
}
