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

/// Asks the daemon and returns its document; progress goes to `progress`, a phase once however often it is told.
pub(super) async fn ask(
    global: &Global,
    request: &Request,
    mut progress: impl FnMut(&Value),
) -> Result<Value, CliError> {
    let config = global.load()?;
    let hello = Hello { wire: WIRE_VERSION, token: global.token()?, role: Role::Command };
    let cannot = |asked, error: io::Error| {
        // Only one that accepted is looked for: the lock is not touched under a daemon that may just be starting.
        let silent = error.kind() == io::ErrorKind::TimedOut;
        let holder = match silent.then(|| crate::daemon::hold(&config.state_dir)) {
            Some(Err(LockError::Busy { pid, .. })) if pid != 0 => Some(pid),
            _ => None,
        };
        CliError::cannot(unanswered(&config, asked, &error, holder))
    };
    let mut link =
        Link::connect(&config.socket(), &hello).await.map_err(|error| cannot(Asked::Nothing, error))?;
    if let Welcome::Refused { message, .. } = link.welcome {
        return Err(CliError::cannot(message));
    }
    let mut phase = None;
    let news = |said: &Value| match said.get("phase") {
        Some(same) if phase.as_ref() == Some(same) => {}
        told => {
            phase = told.cloned().or(phase.take());
            progress(said);
        }
    };
    let answer = link.ask(request, news).await.map_err(|error| cannot(Asked::Already, error))?;
    Ok(answer?)
}

/// How far it went with a daemon that doesn't answer.
#[derive(Clone, Copy)]
enum Asked {
    /// It has not even answered the hello.
    Nothing,
    /// The request was sent.
    Already,
}

/// Why there is no answer, and what to do: one that holds the state directory and says nothing isn't helped by another.
fn unanswered(config: &Config, asked: Asked, error: &io::Error, holder: Option<u32>) -> String {
    let (socket, file) = (config.socket(), config.path.display());
    let open = match asked {
        Asked::Nothing => "",
        Asked::Already => {
            "; what was asked may or may not have been done: look with `tidegate status` when a daemon answers"
        }
    };
    match (holder, asked) {
        (Some(pid), _) if error.kind() == io::ErrorKind::TimedOut => format!(
            "the daemon, process {pid}, accepts at {} and does not answer: {error}; it is stopped (`kill -CONT {pid}`), its disk hangs, \
             or it is stuck: look at its log, and if it stays so end it with `kill -9 {pid}` and start another with `tidegate serve \
             --config {file}`, which settles what was under way{open}",
            socket.display()
        ),
        (_, Asked::Already) => format!("the daemon ended before it answered ({error}){open}"),
        (_, Asked::Nothing) => format!(
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
        let says =
            |asked, kind: io::ErrorKind, holder| unanswered(&config, asked, &io::Error::from(kind), holder);
        for asked in [Asked::Nothing, Asked::Already] {
            let silent = says(asked, io::ErrorKind::TimedOut, Some(7));
            assert!(silent.contains("process 7") && silent.contains("kill -CONT 7"), "{silent}");
            assert_eq!(silent.contains("may or may not"), matches!(asked, Asked::Already), "{silent}");
        }
        let ended = says(Asked::Already, io::ErrorKind::UnexpectedEof, None);
        assert!(ended.starts_with("the daemon ended before it answered"), "{ended}");
        for (kind, holder) in [(io::ErrorKind::TimedOut, None), (io::ErrorKind::ConnectionRefused, Some(7))] {
            let absent = says(Asked::Nothing, kind, holder);
            assert!(absent.starts_with("no daemon answers at ./s/tidegate.sock ("), "{absent}");
            assert!(absent.ends_with("start one with `tidegate serve --config tidegate.toml`"), "{absent}");
        }
    }
}
