//! `tidegate serve`: the daemon in the foreground.

use super::Global;
use crate::config::is_of_a_client;
use crate::config::mcp::Import;
use crate::exit::{CliError, CliResult, Outcome};
use crate::log::{self, Level, LogFormat};
use std::path::Path;

pub(super) fn run(
    global: &Global,
    takeover: bool,
    mcp_config: Option<&Path>,
    log_format: LogFormat,
) -> CliResult {
    log::begin(log_format);
    if let Some(file) = mcp_config.filter(|file| !is_of_a_client(file)) {
        return Err(CliError::cannot(format!(
            "{} does not end in .json; --config takes a tidegate.toml",
            file.display()
        )));
    }
    let named = mcp_config.map(Path::to_owned).or_else(|| global.config.clone());
    let global = &Global { config: named, ..global.clone() };
    let config = global.load()?;
    if is_of_a_client(&config.path) {
        say_what_is_left(&config.path)?;
    }
    let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
    if takeover {
        runtime.block_on(super::takeover::run(global, &config))?;
    }
    let ended = runtime.block_on(crate::daemon::serve(config));
    // Whatever still waits has no one to answer to.
    runtime.shutdown_background();
    match ended {
        Ok(crate::daemon::Ended::Drained) => Ok(Outcome::Done),
        Ok(crate::daemon::Ended::LeftRunning { message }) => Err(CliError::no(message)),
        Err(error) => Err(CliError::failed(error)),
    }
}

/// A client's file may have servers that can't be served; its reader has to hear of it.
fn say_what_is_left(file: &Path) -> Result<(), CliError> {
    for (server, why) in Import::read(file).map_err(CliError::cannot)?.left() {
        log::line(Level::Warning, &[], &format!("{server} is left out: {why}"));
    }
    Ok(())
}
