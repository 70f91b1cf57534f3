//! `tidegate doctor`: looks at everything that a daemon and its clients need, and says what to do about each thing that is
//! wrong. It changes nothing; what it starts is `PROGRAM --version` of a runtime, and it waits for nothing for long.

mod clients;
mod configuration;
mod daemon;
mod finding;
mod machine;
mod runtimes;
mod state;
#[cfg(test)]
mod tests;

use super::{Global, print};
use crate::api::DOCUMENT_VERSION;
use crate::config::{CONFIG_VAR, Config};
use crate::exit::{CliError, CliResult, Outcome};
use finding::{Finding, Verdict};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(super) fn run(global: &Global) -> CliResult {
    let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
    let findings = runtime.block_on(look(global));
    let healthy = !findings.iter().any(|finding| finding.verdict == Verdict::Failed);
    let document = json!({ "version": DOCUMENT_VERSION, "healthy": healthy, "findings": findings });
    print::document(global, &document, |doc, _| finding::table(doc))?;
    Ok(if healthy { Outcome::Done } else { Outcome::No })
}

/// Everything, in the order in which somebody would look; what rests on a configuration needs one.
async fn look(global: &Global) -> Vec<Finding> {
    let mut findings = machine::look();
    let path = Config::locate(global.config.as_deref());
    let config = match Config::load(&path) {
        Ok(config) => config,
        Err(error) => {
            findings.push(configuration::unusable(&path, &error));
            findings.extend(clients::look(&places(), None));
            return findings;
        }
    };
    findings.extend(configuration::look(&config));
    let locked = state::look(&config, &mut findings);
    findings.extend(daemon::look(global, &config, locked).await);
    for component in &config.components {
        findings.extend(runtimes::look(component).await);
    }
    findings.extend(clients::look(&places(), Some(&config)));
    findings
}

/// Where clients may have their files: below the home directory, and below the current one.
struct Places {
    home: Option<PathBuf>,
    here: PathBuf,
    /// The configuration that a shim without `--config` would take, if the environment names one.
    config: Option<PathBuf>,
}

fn places() -> Places {
    Places {
        home: std::env::var_os("HOME").map(PathBuf::from),
        here: std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned()),
        config: std::env::var_os(CONFIG_VAR).map(PathBuf::from),
    }
}
