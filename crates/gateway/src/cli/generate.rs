//! `tidegate completions` and `tidegate man`: made from the one definition of the command line, so that they can't differ from it.

use super::Cli;
use crate::exit::{CliError, CliResult, Outcome};
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::{self, Write as _};
use std::path::Path;

/// The script that teaches a shell every command and option.
pub(super) fn completions(shell: Shell) -> CliResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
    print(&script)
}

/// The manual: the first page on standard output, or every page into a directory.
pub(super) fn man(out: Option<&Path>) -> CliResult {
    let Some(dir) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(CliError::cannot)?;
        return print(&page);
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.map_err(|error| {
        CliError::cannot(format!("the manual can't be written to {}: {error}", dir.display()))
    })?;
    Ok(Outcome::Done)
}

fn print(bytes: &[u8]) -> CliResult {
    match io::stdout().write_all(bytes) {
        // Whoever has read enough closes the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::cannot(format!("it can't be printed: {error}")))
        }
        _ => Ok(Outcome::Done),
    }
}
