//! What the command line asks the daemon with: the configuration, the token, the socket.

use super::Global;
use crate::api::Request;
use crate::config::Config;
use crate::exit::CliError;
use crate::link::Link;
use crate::wire::{Hello, Role, WIRE_VERSION, Welcome};
use serde_json::Value;

/// The variable with the caller's token.
const TOKEN_VAR: &str = "TIDEGATE_TOKEN";

impl Global {
    /// The configuration that applies.
    pub(crate) fn load(&self) -> Result<Config, CliError> {
        Config::load(&Config::locate(self.config.as_deref())).map_err(CliError::cannot)
    }

    /// The caller's token: `--token-file`, else `$TIDEGATE_TOKEN`.
    pub(crate) fn token(&self) -> Result<Option<String>, CliError> {
        if let Some(path) = &self.token_file {
            let text = std::fs::read_to_string(path).map_err(|e| {
                CliError::cannot(format!(
                    "failed to read the token file {}: {e}; `tidegate token` makes a token",
                    path.display()
                ))
            })?;
            return Ok(Some(text.trim().to_owned()));
        }
        Ok(std::env::var(TOKEN_VAR).ok().filter(|t| !t.is_empty()))
    }
}

/// Asks the daemon and returns its document; progress goes to `progress`.
pub(super) async fn ask(
    global: &Global,
    request: &Request,
    progress: impl FnMut(&Value),
) -> Result<Value, CliError> {
    let config = global.load()?;
    let socket = config.socket();
    let hello = Hello { wire: WIRE_VERSION, token: global.token()?, role: Role::Command };
    let mut link = Link::connect(&socket, &hello).await.map_err(|error| {
        CliError::cannot(format!(
            "no daemon answers at {} ({error}); start one with `tidegate serve --config {}`",
            socket.display(),
            config.path.display()
        ))
    })?;
    if let Welcome::Refused { message, .. } = link.welcome {
        return Err(CliError::cannot(message));
    }
    let answer = link.ask(request, progress).await.map_err(|error| {
        CliError::cannot(format!(
            "the daemon ended before it answered ({error}); what was asked may or may not have been done: look with `tidegate \
             status`"
        ))
    })?;
    Ok(answer?)
}
