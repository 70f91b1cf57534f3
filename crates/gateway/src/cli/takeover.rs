//! `serve --takeover`: has the daemon that runs drain and end, as an operation, and waits until its place is free.

use super::print::aside;
use super::render;
use super::{Global, client};
use crate::api::Request;
use crate::config::Config;
use crate::exit::CliError;
use std::time::Duration;
use tidegate_store::LockError;
use tokio::net::UnixStream;
use tokio::time::Instant;

/// Why it is asked for, for whoever approves it.
const REASON: &str = "another daemon takes over (serve --takeover)";
/// How long the old daemon may take to end once it has stopped everything.
const LAST_STEPS: Duration = Duration::from_secs(10);
/// How often its lock is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Returns when there is no daemon any more.
///
/// # Errors
/// When the operation ended otherwise, and the old daemon goes on.
pub(super) async fn run(global: &Global, config: &Config) -> Result<(), CliError> {
    if UnixStream::connect(config.socket()).await.is_err() {
        return Ok(()); // nobody is there, or the daemon's lock says who is
    }
    let asked = client::ask(global, &Request::Takeover { reason: REASON.to_owned() }, |_| {}).await?;
    let operation = &asked["operation"];
    let id = operation["id"].as_str().unwrap_or_default();
    if operation["phase"] == "Requested" {
        aside(&format!("waiting for an approval of operation {id}: `tidegate restart approve {id}`"));
    }
    let id = id.parse().map_err(CliError::cannot)?;
    let show = |progress: &serde_json::Value| aside(&render::progress(progress));
    match client::ask(global, &Request::RestartWait { id }, show).await {
        Ok(ended) if ended["operation"]["phase"] == "Completed" => {}
        Ok(ended) => {
            let (phase, note) = (&ended["operation"]["phase"], &ended["operation"]["note"]);
            let text = format!("the running daemon was not taken over: {phase} ({note})");
            return Err(CliError::no(text.replace('"', "")));
        }
        // It may have ended before it could say so.
        Err(_) => {}
    }
    let until = Instant::now() + LAST_STEPS;
    loop {
        match crate::daemon::hold(&config.state_dir) {
            Err(LockError::Busy { .. }) if Instant::now() < until => tokio::time::sleep(LOOK_EVERY).await,
            // Anything else is the new daemon's to find.
            _ => return Ok(()),
        }
    }
}
