//! The command line's end of the daemon's socket: one request, its progress, its result.

use super::Global;
use crate::api::{Reply, Request};
use crate::config::Config;
use crate::exit::CliError;
use crate::wire::{self, Hello, Line, MAX_LINE_BYTES, Role, WIRE_VERSION, Welcome, json_line, read_line};
use serde_json::Value;
use std::io;
use std::path::Path;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The variable with the caller's token.
pub(crate) const TOKEN_VAR: &str = "TIDEGATE_TOKEN";

impl Global {
    /// The configuration that applies.
    pub(crate) fn load(&self) -> Result<Config, CliError> {
        Config::load(&Config::locate(self.config.as_deref())).map_err(CliError::cannot)
    }

    /// The caller's token: `--token-file`, else `$TIDEGATE_TOKEN`.
    pub(crate) fn token(&self) -> Result<Option<String>, CliError> {
        if let Some(path) = &self.token_file {
            let text = std::fs::read_to_string(path).map_err(|e| {
                CliError::cannot(format!("failed to read the token file {}: {e}", path.display()))
            })?;
            return Ok(Some(text.trim().to_owned()));
        }
        Ok(std::env::var(TOKEN_VAR).ok().filter(|t| !t.is_empty()))
    }
}

/// Connects to the daemon's socket and says hello.
///
/// # Errors
/// The socket's error, or what the daemon says.
pub(crate) async fn connect(
    socket: &Path,
    hello: &Hello,
) -> io::Result<(BufReader<tokio::net::unix::OwnedReadHalf>, tokio::net::unix::OwnedWriteHalf, Welcome)> {
    let (reader, mut writer) = UnixStream::connect(socket).await?.into_split();
    let mut line = json_line(hello);
    line.push(b'\n');
    writer.write_all(&line).await?;
    let mut reader = BufReader::new(reader);
    let mut answer = Vec::new();
    match read_line(&mut reader, &mut answer, MAX_LINE_BYTES).await? {
        Line::Whole => {}
        Line::TooLong(_) | Line::End => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    let welcome = serde_json::from_slice(&answer).map_err(io::Error::other)?;
    Ok((reader, writer, welcome))
}

/// The hello of a plain command.
pub(crate) fn hello_command(token: Option<String>) -> Hello {
    Hello { wire: WIRE_VERSION, token, role: Role::Command }
}

/// Asks the daemon and returns its document; progress goes to `progress`.
pub(super) async fn ask(
    global: &Global,
    request: &Request,
    mut progress: impl FnMut(&Value),
) -> Result<Value, CliError> {
    let config = global.load()?;
    let socket = config.socket();
    let unreachable = |e: io::Error| {
        CliError::cannot(format!(
            "no daemon answers at {} ({e}); start one with `tidegate serve --config {}`",
            socket.display(),
            config.path.display()
        ))
    };
    let (mut reader, mut writer, welcome) =
        connect(&socket, &hello_command(global.token()?)).await.map_err(unreachable)?;
    if let Welcome::Refused { message, .. } = welcome {
        return Err(CliError::cannot(message));
    }
    let mut line = json_line(request);
    line.push(b'\n');
    writer.write_all(&line).await.map_err(unreachable)?;
    loop {
        match read_line(&mut reader, &mut line, wire::MAX_LINE_BYTES).await.map_err(unreachable)? {
            Line::Whole => {}
            Line::TooLong(_) | Line::End => {
                return Err(CliError::cannot(
                    "the daemon ended before it answered; what was asked may or may not have been done: look with `tidegate status`",
                ));
            }
        }
        match serde_json::from_slice(&line) {
            Ok(Reply::Progress(value)) => progress(&value),
            Ok(Reply::Done(value)) => return Ok(value),
            Ok(Reply::Failed(failure)) => return Err(failure.into()),
            Err(e) => {
                return Err(CliError::cannot(format!(
                    "the daemon's answer can't be read ({e}); is it of another version?"
                )));
            }
        }
    }
}
