//! `tidegate serve`: the daemon in the foreground.

use super::Global;
use crate::exit::{CliError, CliResult, Outcome};

pub(super) fn run(global: &Global) -> CliResult {
    let config = global.load()?;
    let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
    let ended = runtime.block_on(crate::daemon::serve(config));
    // Whatever still waits has no one to answer to.
    runtime.shutdown_background();
    match ended {
        Ok(crate::daemon::Ended::Drained) => Ok(Outcome::Done),
        Ok(crate::daemon::Ended::LeftRunning { message }) => Err(CliError::no(message)),
        Err(error) => Err(CliError::failed(error)),
    }
}
