//! `tidegate.toml`: what it may say, checked once. Nothing here starts, opens or connects to anything, or
//! uses the rest of this crate: a fuzz target compiles it alone.

#[cfg(any(test, fuzzing))]
pub(crate) mod corpus;
mod keys;
pub(crate) mod mcp;
mod raw;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_core::{ComponentName, PrincipalName, WorkClass};
use tidegate_relay::{LeaseRules, Sharing};

#[cfg(test)]
pub(crate) use raw::MAX_OWN_NAME_BYTES;
pub(crate) use raw::STOP_GRACE;
#[cfg(test)]
pub(crate) use raw::parse;

/// The variable that names the configuration file.
pub(crate) const CONFIG_VAR: &str = "TIDEGATE_CONFIG";
/// The file that is read when nothing names one.
pub(crate) const DEFAULT_FILE: &str = "tidegate.toml";
/// The shortest configuration that serves something; shown to whoever has none.
const LEAST: &str = r#"
    [state]
    store = "file:./state"

    [[operator]]
    name = "ops"
    token_sha256 = "…"             # `tidegate token` makes a token and its hash

    [[component]]
    name = "files"
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"]"#;
/// The socket's name within the state directory.
pub(crate) const SOCKET: &str = "tidegate.sock";

/// A checked configuration. Relative paths are resolved against the file's directory.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where it was read from.
    pub(crate) path: PathBuf,
    /// The state directory: journal, lock and socket.
    pub(crate) state_dir: PathBuf,
    pub(crate) policy: PolicyConfig,
    pub(crate) operators: Vec<Credential>,
    pub(crate) principals: Vec<Credential>,
    pub(crate) components: Vec<ComponentConfig>,
}

/// `[policy]`.
#[derive(Debug, Clone)]
pub(crate) struct PolicyConfig {
    pub(crate) approvals: u32,
    pub(crate) approvers: Vec<PrincipalName>,
    pub(crate) operator_approvals: u32,
    pub(crate) drain_deadline: Duration,
    pub(crate) hold: Duration,
    pub(crate) request_ttl: Duration,
}

/// `[[operator]]` or `[[principal]]`: a name and the SHA-256 of its token, in lower-case hex.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) name: PrincipalName,
    pub(crate) token_sha256: String,
}

/// What a restart of the server loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// Nothing is kept between calls.
    Stateless,
    /// State lives outside the process.
    External,
    /// State lives in the process: a restart resets it, and sessions are told.
    InProcess,
}

/// `[[component]]`.
#[derive(Debug, Clone)]
pub(crate) struct ComponentConfig {
    pub(crate) name: ComponentName,
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) start_timeout: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) sharing: Sharing,
    pub(crate) state: ServerState,
    pub(crate) trust_annotations: bool,
    pub(crate) tools: Vec<ToolRule>,
    /// `[component.leases]`.
    pub(crate) leases: LeaseRules,
}

/// One line of `[component.tools]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRule {
    /// A glob on the tool's name.
    pub(crate) pattern: String,
    pub(crate) class: WorkClass,
    /// Whether an idempotent call may be sent again after a death.
    pub(crate) replay: bool,
}

/// A configuration that can't be used. The text names the file, the place and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    #[error(
        "there is no configuration {path}; name one with --config or ${CONFIG_VAR}, or write {DEFAULT_FILE} here, at least:\n{LEAST}"
    )]
    Missing { path: PathBuf },
    #[error("failed to read the configuration {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}: {message}")]
    Invalid { path: PathBuf, line: usize, message: String },
    #[error(transparent)]
    Import(#[from] mcp::ImportError),
    #[error("{import} as a configuration: {message}")]
    Imported { import: PathBuf, message: String },
}

/// The kernel's limit for the path of a socket, without the final zero.
pub(crate) const MAX_SOCKET_PATH: usize = 107;

impl Config {
    /// The file that applies: `--config`, else `$TIDEGATE_CONFIG`, else `./tidegate.toml`.
    pub(crate) fn locate(given: Option<&Path>) -> PathBuf {
        given.map(Path::to_owned).unwrap_or_else(|| PathBuf::from(DEFAULT_FILE))
    }

    /// Reads and checks a configuration file: one of ours, or the `mcpServers` file of a client.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        if is_of_a_client(path) {
            return Self::of_a_client(&mcp::Import::read(path)?);
        }
        let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => ConfigError::Missing { path: path.to_owned() },
            _ => ConfigError::Read { path: path.to_owned(), source },
        })?;
        raw::parse(path, &text)
    }

    /// The servers of a client's file, as they are there.
    fn of_a_client(import: &mcp::Import) -> Result<Self, ConfigError> {
        raw::parse(&import.path, &import.as_it_is()).map_err(|error| match error {
            // Its line is one of a text that nobody has.
            ConfigError::Invalid { message, .. } => {
                ConfigError::Imported { import: import.path.clone(), message }
            }
            error => error,
        })
    }

    /// Where the daemon listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.state_dir.join(SOCKET)
    }

    /// The component of that name, where there is one.
    pub(crate) fn component(&self, name: &ComponentName) -> Option<&ComponentConfig> {
        self.components.iter().find(|c| &c.name == name)
    }
}

/// Whether a file is a client's: those are JSON.
pub(crate) fn is_of_a_client(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// The known name nearest to a mistyped one, when it is near enough to be what was meant.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.6; // below this, similarities are chance
    known
        .into_iter()
        .map(|k| (strsim::normalized_damerau_levenshtein(given, k), k))
        .filter(|(score, _)| *score >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}
