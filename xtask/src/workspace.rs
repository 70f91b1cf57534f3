//! Where things are: the workspace's root, its target directory, and what the steps leave there.
//! Nothing here creates or reads a file but the source tree's own list.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Directories that hold no source of ours.
const NOT_SOURCE: [&str; 3] = [".git", "target", "node_modules"];

/// The checkout that xtask was built from.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// The checkout whose `xtask` this is. `CARGO_TARGET_DIR` is honoured as cargo does it.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask stands in a directory of the workspace")?
            .to_owned();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => std::env::current_dir()?.join(dir),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// Everything that steps leave for one another: a partition's directory is a copy of it.
    pub(crate) fn results(&self) -> PathBuf {
        self.target.join("tidegate")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.results().join("logs")
    }

    /// The pinned MCP servers.
    pub(crate) fn mcp_servers(&self) -> PathBuf {
        self.root.join("fixtures/mcp-servers")
    }

    /// Every file of the source tree, sorted, as paths below the root; whether git tracks them doesn't matter.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut left = vec![self.root.clone()];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() && !NOT_SOURCE.iter().any(|name| entry.file_name() == *name) {
                    left.push(entry.path());
                } else if kind.is_file() {
                    found.push(entry.path().strip_prefix(&self.root)?.to_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
