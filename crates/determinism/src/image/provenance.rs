//! What says where an image comes from: the commit and the run of CI that its digest is bound to.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The version of the format.
const VERSION: u32 = 1;

/// Written beside an image by whoever built it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of the format: 1.
    pub version: u32,
    /// The digest of the image's manifest.
    pub digest: String,
    /// The commit that it was built from, followed by `+changes` when the tree wasn't just that.
    pub commit: String,
    /// The run of CI that built it; `null` when it was built by hand.
    pub ci_run: Option<String>,
    /// The digests of what went into it, by name.
    pub inputs: BTreeMap<String, String>,
    /// The versions of what built it, by name.
    pub tools: BTreeMap<String, String>,
}

impl Provenance {
    /// The provenance of an image with this digest.
    pub fn new(digest: &str, commit: &str, ci_run: Option<String>) -> Self {
        let (digest, commit) = (digest.to_owned(), commit.to_owned());
        Self { version: VERSION, digest, commit, ci_run, inputs: BTreeMap::new(), tools: BTreeMap::new() }
    }

    /// Reads what was written; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When there is a file that can't be read as one.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let provenance: Self = serde_json::from_slice(&text)?;
        if provenance.version != VERSION {
            return Err(io::Error::other(format!(
                "provenance of version {}, not {VERSION}",
                provenance.version
            )));
        }
        Ok(Some(provenance))
    }

    /// Digest and commit, when a run of CI built the image; one that was built by hand has neither.
    pub fn built_by_ci(&self) -> Option<(String, String)> {
        self.ci_run.is_some().then(|| (self.digest.clone(), self.commit.clone()))
    }
}
