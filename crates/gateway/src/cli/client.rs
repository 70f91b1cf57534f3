//! What the command line asks the daemon with: the configuration, the token, the socket.

use super::Global;
use crate::api::Request;
use crate::config::Config;
use crate::exit::CliError;
use crate::link::Link;
use crate::wire::{Hello, Role, WIRE_VERSION, Welcome};
use serde_json::Value;
use std::io;
use tidegate_store::LockError;

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
        // Only one that accepted is looked for: the lock is not touched under a daemon that may just be starting.
        let silent = error.kind() == io::ErrorKind::TimedOut;
        let holder = match silent.then(|| crate::daemon::hold(&config.state_dir)) {
            Some(Err(LockError::Busy { pid, .. })) if pid != 0 => Some(pid),
            _ => None,
        };
        CliError::cannot(unreachable(&config, &error, holder))
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

/// Why nobody could be asked, and what to do: one that holds the state directory and says nothing isn't helped by another.
fn unreachable(config: &Config, error: &io::Error, holder: Option<u32>) -> String {
    let (socket, file) = (config.socket(), config.path.display());
    match holder {
        Some(pid) if error.kind() == io::ErrorKind::TimedOut => format!(
            "the daemon, process {pid}, accepts at {} and does not answer: {error}; it is stopped (`kill -CONT {pid}`), its disk hangs, \
             or it is stuck: look at its log, and if it stays so end it with `kill -9 {pid}` and start another with `tidegate serve \
             --config {file}`, which settles what was under way",
            socket.display()
        ),
        _ => format!(
            "no daemon answers at {} ({error}); start one with `tidegate serve --config {file}`",
            socket.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_daemon_that_is_there_and_says_nothing_is_told_from_one_that_is_not_there() {
        let text = "[state]\nstore = \"file:./s\"\n";
        let config = crate::config::parse(Path::new("tidegate.toml"), text).unwrap();
        let says = |kind: io::ErrorKind, holder| unreachable(&config, &io::Error::from(kind), holder);
        let silent = says(io::ErrorKind::TimedOut, Some(7));
        assert!(silent.contains("process 7") && silent.contains("kill -CONT 7"), "{silent}");
        for (kind, holder) in [(io::ErrorKind::TimedOut, None), (io::ErrorKind::ConnectionRefused, Some(7))] {
            let absent = says(kind, holder);
            assert!(absent.starts_with("no daemon answers at ./s/tidegate.sock ("), "{absent}");
            assert!(absent.ends_with("start one with `tidegate serve --config tidegate.toml`"), "{absent}");
        }
    }
}
