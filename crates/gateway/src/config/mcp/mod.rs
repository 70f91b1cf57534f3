//! The `mcpServers` file of an MCP client as a configuration: what of it can be served, what is left out and why.
//! It reads one file and writes none, expands no variable, and never prints a value that may be a secret.

mod servers;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use servers::looks_secret;

use std::path::{Path, PathBuf};
use tidegate_core::ComponentName;

/// The longest file that is read: clients keep their whole history beside their servers.
const MAX_BYTES: u64 = 64 << 20;
/// Where the state is kept that such a file says nothing about: beside it, out of sight.
pub(super) const STATE_BESIDE: &str = "file:./.tidegate";
/// Where a configuration made from such a file keeps its state.
const STATE: &str = "file:./state";

/// What became of one server of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its name in the file.
    pub(crate) name: String,
    pub(crate) fate: Fate,
    /// What its owner should know.
    pub(crate) notes: Vec<String>,
}

/// Whether a server can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Component(Component),
    /// It is `tidegate connect …` already.
    Shim(Vec<String>),
    /// It can't, for this reason.
    Left(String),
}

/// A component as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    pub(crate) name: ComponentName,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<PathBuf>,
}

/// The servers of a file, in its order.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    pub(crate) path: PathBuf,
    pub(crate) servers: Vec<Server>,
}

/// A file that holds no servers that could be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ImportError {
    #[error("failed to read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is longer than {MAX_BYTES} bytes; copy its mcpServers into a file of their own")]
    TooLong { path: PathBuf },
    #[error("{path} is no JSON: {source}; comments and trailing commas are none either: take them out")]
    Syntax { path: PathBuf, source: serde_json::Error },
    #[error(
        "{path} has no servers: there is no `mcpServers`, `servers` or `context_servers` in it; it has {found}"
    )]
    NoServers { path: PathBuf, found: String },
    #[error("{path} has two servers named {name:?}; clients take the last one: give one another name")]
    Twice { path: PathBuf, name: String },
}

impl Import {
    /// Reads a client's file.
    ///
    /// # Errors
    /// [`ImportError`]; a server that can't be served is none, but [`Fate::Left`].
    pub(crate) fn read(path: &Path) -> Result<Self, ImportError> {
        let failed = |source| ImportError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
            return Err(ImportError::TooLong { path: path.to_owned() });
        }
        Self::parse(path, &std::fs::read_to_string(path).map_err(failed)?)
    }

    /// Reads the text of a client's file; relative directories in it are relative to the file.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ImportError> {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let dir = whole.parent().unwrap_or(Path::new("/"));
        Ok(Self { path: path.to_owned(), servers: servers::parse(path, dir, text)? })
    }

    /// The components that can be served.
    pub(crate) fn components(&self) -> impl Iterator<Item = (&str, &Component)> {
        self.servers.iter().filter_map(|server| match &server.fate {
            Fate::Component(component) => Some((server.name.as_str(), component)),
            Fate::Shim(_) | Fate::Left(_) => None,
        })
    }

    /// The servers that can't be served, and why.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&str, &str)> {
        self.servers.iter().filter_map(|server| match &server.fate {
            Fate::Component(_) => None,
            Fate::Shim(_) => Some((server.name.as_str(), "it goes through Tidegate already")),
            Fate::Left(why) => Some((server.name.as_str(), why.as_str())),
        })
    }

    /// A whole `tidegate.toml`, to be edited further.
    pub(crate) fn configuration(&self) -> String {
        write::configuration(self, STATE)
    }

    /// The text that is served when the file itself is the configuration.
    pub(super) fn as_it_is(&self) -> String {
        write::configuration(self, STATE_BESIDE)
    }
}
