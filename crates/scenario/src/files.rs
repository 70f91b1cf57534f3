//! Finds scenario files.

use crate::{Scenario, ScenarioError};
use std::fs;
use std::io;
use std::path::Path;

/// The scenarios (`*.txt`) of a directory, by name without the extension, in the order of their names.
///
/// # Errors
/// When the directory or a file can't be read, or a file isn't a scenario; the message names the file and the line.
pub fn scenarios_in(directory: impl AsRef<Path>) -> io::Result<Vec<(String, Scenario)>> {
    let directory = directory.as_ref();
    let named = |path: &Path, error: &dyn ToString| format!("{}: {}", path.display(), error.to_string());
    let mut scenarios = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| io::Error::new(e.kind(), named(directory, &e)))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = fs::read_to_string(&path).map_err(|e| io::Error::new(e.kind(), named(&path, &e)))?;
            let scenario = text
                .parse()
                .map_err(|e: ScenarioError| io::Error::new(io::ErrorKind::InvalidData, named(&path, &e)))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            scenarios.push((name, scenario));
        }
    }
    scenarios.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(scenarios)
}
