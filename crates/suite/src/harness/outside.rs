//! Where the programs are that nobody here wrote: servers and clients of the MCP project, pinned, and installed by
//! `cargo xtask setup`. Nothing here installs anything: what is missing is a panic that names the command.

use super::binary::workspace;
use std::path::{Path, PathBuf};

fn fixture(path: &str) -> PathBuf {
    there(workspace().join("fixtures").join(path), "cargo xtask setup")
}

/// The driver of the TypeScript SDK, for node.
///
/// # Panics
/// When the SDK isn't installed.
#[must_use]
pub fn typescript_client() -> PathBuf {
    let _sdk = fixture("mcp-servers/node_modules/@modelcontextprotocol/sdk/package.json");
    fixture("mcp-servers/clients/sdk-client.mjs")
}

/// The driver of the Python SDK, for the environment's `python`.
#[must_use]
pub fn python_client() -> PathBuf {
    fixture("mcp-python/client.py")
}

/// The command of a server of the npm organisation of the MCP project, without its arguments.
///
/// # Panics
/// When it isn't installed.
#[must_use]
pub fn node_server(package: &str) -> Vec<String> {
    let script = format!("mcp-servers/node_modules/@modelcontextprotocol/{package}/dist/index.js");
    vec!["node".to_owned(), fixture(&script).to_str().unwrap().to_owned()]
}

/// A program of the Python environment.
///
/// # Panics
/// When it isn't installed.
#[must_use]
pub fn python_program(name: &str) -> PathBuf {
    there(results().join("python/bin").join(name), "cargo xtask setup")
}

/// The driver of rmcp.
///
/// # Panics
/// When it wasn't built.
#[must_use]
pub fn rmcp_client() -> PathBuf {
    there(results().join("rmcp/debug/tidegate-rmcp-client"), "cargo xtask setup --peers")
}

/// The command line of the MCP inspector: program and first arguments.
///
/// # Panics
/// When it isn't installed.
#[must_use]
pub fn inspector() -> Vec<String> {
    let script = "mcp-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let script = there(workspace().join("fixtures").join(script), "cargo xtask setup --peers");
    ["node", script.to_str().unwrap(), "--cli"].map(str::to_owned).into()
}

/// What xtask's steps leave for one another.
fn results() -> PathBuf {
    crate::evidence::directory().parent().map(Path::to_owned).unwrap_or_default()
}

fn there(path: PathBuf, installer: &str) -> PathBuf {
    assert!(path.exists(), "{} is missing: run `{installer}`", path.display());
    path
}
