//! What a test of the suite leaves: a file when it starts, the same file again when it ends. It never judges: what is
//! missing or failed is the report's business.

use crate::Level;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::id;
use tidegate_core::Clock;
use tidegate_host::SystemClock;

/// Evidence that could not be left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The file could not be written.
    #[error(
        "the evidence {path} could not be written: {source}; check the permissions of the target directory"
    )]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no clock to measure the test's duration with.
    #[error("the machine's clock can't be read: {0}")]
    Clock(#[from] tidegate_host::HostError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Started,
    Passed,
    Failed,
}

#[derive(Debug, Serialize)]
struct Left<'a> {
    test: &'a str,
    bullet: u8,
    level: Level,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    seeds: Option<u64>,
    duration_ms: u64,
}

/// The evidence of one test that is running. Dropped without [`Evidence::finish`], by a panic, it says `failed`.
#[derive(Debug)]
#[must_use = "evidence that is dropped says that its test failed"]
pub struct Evidence {
    dir: PathBuf,
    test: String,
    bullet: u8,
    level: Level,
    seeds: Option<u64>,
    clock: SystemClock,
    started_ms: u64,
    ended: bool,
}

/// Where evidence is left: `$CARGO_TARGET_DIR`, or the workspace's `target`, and below it `tidegate/evidence`.
#[must_use]
pub fn directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    target.join("tidegate/evidence")
}

impl Evidence {
    /// Says that `test`, by its name in the manifest, has begun to prove `bullet` at `level`.
    ///
    /// # Errors
    /// [`EvidenceError`].
    pub fn start(test: &str, bullet: u8, level: Level) -> Result<Self, EvidenceError> {
        Self::start_in(&directory(), test, bullet, level)
    }

    /// As [`Evidence::start`], with the evidence left in `dir`.
    ///
    /// # Errors
    /// [`EvidenceError`].
    pub fn start_in(dir: &Path, test: &str, bullet: u8, level: Level) -> Result<Self, EvidenceError> {
        let clock = SystemClock::new()?;
        let started_ms = clock.now().boot_ms;
        let (dir, test) = (dir.to_owned(), test.to_owned());
        let evidence = Self { dir, test, bullet, level, seeds: None, clock, started_ms, ended: false };
        evidence.write(Outcome::Started)?;
        Ok(evidence)
    }

    /// How many schedules the proof rests on.
    pub fn seeds(&mut self, seeds: u64) {
        self.seeds = Some(seeds);
    }

    /// Says that the test has passed.
    ///
    /// # Errors
    /// [`EvidenceError`]; the evidence then says `started` still, which no report takes for a proof.
    pub fn finish(mut self) -> Result<(), EvidenceError> {
        self.ended = true;
        self.write(Outcome::Passed)
    }

    /// The file, whole or not at all.
    fn write(&self, outcome: Outcome) -> Result<(), EvidenceError> {
        let left = Left {
            test: &self.test,
            bullet: self.bullet,
            level: self.level,
            outcome,
            seeds: self.seeds,
            duration_ms: self.clock.now().since(self.started_ms),
        };
        // Colons are no part of a file's name everywhere that the evidence is carried to.
        let name = self.test.replace("::", ".");
        let path = self.dir.join(format!("{name}.json"));
        let beside = self.dir.join(format!("{name}.json.{}", id()));
        let write = || {
            std::fs::create_dir_all(&self.dir)?;
            std::fs::write(&beside, serde_json::to_vec_pretty(&left)?)?;
            std::fs::rename(&beside, &path)
        };
        write().map_err(|source: io::Error| EvidenceError::Write { path: path.clone(), source })
    }
}

impl Drop for Evidence {
    fn drop(&mut self) {
        if !self.ended {
            // What can't be written stays `started`, which is no proof either.
            let _ = self.write(Outcome::Failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn left(dir: &Path) -> Value {
        serde_json::from_slice(&std::fs::read(dir.join("process.some_test.json")).unwrap()).unwrap()
    }

    fn start(dir: &Path) -> Evidence {
        Evidence::start_in(dir, "process::some_test", 3, Level::Process).unwrap()
    }

    #[test]
    fn a_test_that_runs_has_started_and_one_that_ends_has_passed() {
        let dir = tempfile::tempdir().unwrap();
        let mut evidence = start(dir.path());
        let begun = left(dir.path());
        assert_eq!((&begun["test"], &begun["outcome"]), (&json!("process::some_test"), &json!("started")));
        assert_eq!((&begun["bullet"], &begun["level"]), (&json!(3), &json!("process")));
        evidence.seeds(100);
        evidence.finish().unwrap();
        let ended = left(dir.path());
        assert_eq!((&ended["outcome"], &ended["seeds"]), (&json!("passed"), &json!(100)));
        assert!(ended["duration_ms"].is_u64());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_test_that_panics_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let panicked = std::thread::spawn(move || {
            let _evidence = start(&path);
            assert_eq!(1, 2, "this test fails on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(left(dir.path())["outcome"], "failed");
    }
}
