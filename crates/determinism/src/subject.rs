//! What exactly is run: the resolved executable, the files named on the command line, and their digests.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::plan::Plan;
use crate::record::{Subject, SubjectFile};

/// Environment variables and flags that pin something which would otherwise vary: `(prefix, what it pins)`.
const PINS: &[(&str, &str)] = &[
    ("--random-seed", "the runtime's random numbers"),
    ("--hash-seed", "the runtime's hash seed"),
    ("--predictable", "the runtime's scheduling"),
    ("--single-threaded", "the runtime's threads"),
    ("PYTHONHASHSEED=", "Python's hash seed"),
    ("SOURCE_DATE_EPOCH=", "build dates"),
    ("FAKETIME=", "the clock"),
    ("LD_PRELOAD=", "library calls"),
];

/// Identifies the subject by the bytes of its executable and of every file that its arguments name.
pub(crate) fn identify(plan: &Plan, search_path: Option<&OsStr>) -> Subject {
    let executable = plan.argv.first().and_then(|program| resolve(program, search_path));
    let named = plan.argv.iter().skip(1).map(PathBuf::from).filter(|path| path.is_file());
    let files: Vec<SubjectFile> = executable
        .iter()
        .cloned()
        .chain(named)
        .filter_map(|path| {
            let sha256 = sha256_hex(&std::fs::read(&path).ok()?);
            Some(SubjectFile { path: path.display().to_string(), sha256 })
        })
        .collect();
    let mut identity = plan.argv.join("\0");
    for file in &files {
        identity.push('\0');
        identity.push_str(&file.sha256);
    }
    Subject {
        kind: "command".to_owned(),
        digest: format!("sha256:{}", sha256_hex(identity.as_bytes())),
        argv: plan.argv.clone(),
        executable: executable.map(|path| path.display().to_string()),
        files,
    }
}

/// What in the command line or the environment pins something, so that the run is a normalised one.
pub(crate) fn relaxations(
    argv: &[String],
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let variables = environment.map(|(name, _)| format!("{}=", name.display()));
    let mut found: Vec<String> = argv
        .iter()
        .cloned()
        .chain(variables)
        .filter_map(|text| {
            let (prefix, pinned) = PINS.iter().find(|(prefix, _)| text.starts_with(prefix))?;
            Some(format!("{} pins {pinned}", prefix.trim_end_matches('=')))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Where a program is, as a shell finds it.
pub(crate) fn resolve(program: &str, search_path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    std::env::split_paths(search_path?).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_variables_that_pin_something_are_named() {
        let argv = ["node", "--random-seed=7", "server.js"].map(str::to_owned);
        let environment =
            [("PYTHONHASHSEED", "0"), ("HOME", "/root")].map(|(name, value)| (name.into(), value.into()));
        let found = relaxations(&argv, environment.into_iter());
        assert_eq!(
            found,
            ["--random-seed pins the runtime's random numbers", "PYTHONHASHSEED pins Python's hash seed"]
        );
    }

    #[test]
    fn a_subject_is_known_by_its_bytes_and_not_by_its_name_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("input");
        let plan = Plan::new(["cat".to_owned(), file.display().to_string()], "companion");
        std::fs::write(&file, "a").unwrap();
        let path = Some(OsStr::new("/bin:/usr/bin"));
        let before = identify(&plan, path);
        std::fs::write(&file, "b").unwrap();
        let after = identify(&plan, path);
        assert!(before.executable.unwrap().ends_with("/cat"));
        assert_eq!(before.files.len(), 2);
        assert_ne!(before.digest, after.digest);
        assert_eq!(identify(&Plan::new(["no-such-program"], "c"), path).executable, None);
    }
}
