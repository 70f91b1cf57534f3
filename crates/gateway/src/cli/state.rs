//! The commands that look at the state directory itself: they work without a daemon.

use super::print::document;
use super::render;
use super::{Global, StoreCommand};
use crate::api::{DOCUMENT_VERSION, Request};
use crate::config::Config;
use crate::daemon::credentials::Credentials;
use crate::daemon::documents;
use crate::exit::{CliError, CliResult, Outcome};
use serde_json::{Value, json};
use tidegate_core::{Clock as _, SessionName};
use tidegate_governor::Caller;
use tidegate_host::SystemClock;
use tidegate_store::{FileError, FileStore, OpenOptions};

/// `tidegate resume`.
pub(super) fn resume(global: &Global, session: &SessionName) -> CliResult {
    let config = global.load()?;
    let caller = Credentials::new(&config).caller(global.token()?.as_deref()).map_err(CliError::cannot)?;
    let answer = read_resume(&config, &caller, session)?;
    document(global, &answer, render::resume)?;
    Ok(Outcome::Done)
}

/// A session's facts and next action from the state directory alone, for a caller without a credential.
///
/// # Errors
/// What is wrong, for people.
pub(crate) fn resume_offline(config: &Config, session: &SessionName) -> Result<Value, String> {
    read_resume(config, &Caller::local(), session).map_err(|e| e.to_string())
}

fn read_resume(config: &Config, caller: &Caller, session: &SessionName) -> Result<Value, CliError> {
    let (store, _) =
        FileStore::open(&config.state_dir, OpenOptions::new().read_only(true)).map_err(CliError::failed)?;
    // A runtime that lives and ends on a thread of its own: the caller may be inside another one.
    let sessions = std::thread::scope(|scope| {
        let read = || {
            let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
            runtime.block_on(tidegate_checkpoints::list(&store)).map_err(CliError::cannot)
        };
        scope.spawn(read).join()
    });
    let sessions = sessions.map_err(|_| CliError::cannot("reading the sessions failed"))??;
    let found = documents::find_session(&sessions, caller, session)?;
    Ok(documents::resume(found))
}

/// A journal that isn't whole is an answer; without one there was nothing to look at.
fn unchecked(error: FileError) -> CliError {
    match error {
        FileError::Damaged { .. } | FileError::NotAJournal { .. } | FileError::JournalMissing { .. } => {
            CliError::no(error)
        }
        error => CliError::failed(error),
    }
}

/// `tidegate store`.
pub(super) fn store(global: &Global, command: &StoreCommand) -> CliResult {
    let config = global.load()?;
    let dir = &config.state_dir;
    match command {
        StoreCommand::Check => {
            let report = tidegate_store::check(dir).map_err(unchecked)?;
            let answer = json!({ "version": DOCUMENT_VERSION, "store": report });
            document(global, &answer, |doc, _| render::fields(&doc["store"]))?;
        }
        StoreCommand::Adopt => {
            // Nobody may be writing while the epoch changes.
            let _alone = crate::daemon::hold(dir).map_err(CliError::no)?;
            let clock = SystemClock::new().map_err(CliError::cannot)?;
            let seconds = u64::try_from(clock.now().wall.0 / 1_000).unwrap_or(0);
            let adopted = tidegate_store::adopt(dir, seconds).map_err(CliError::failed)?;
            let answer = json!({ "version": DOCUMENT_VERSION, "adopted": adopted });
            document(global, &answer, |doc, _| render::fields(&doc["adopted"]))?;
        }
        StoreCommand::Compact => {
            let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
            match crate::daemon::hold(dir) {
                Ok(_alone) => {
                    let (store, _) = FileStore::open(dir, OpenOptions::new()).map_err(CliError::failed)?;
                    runtime.block_on(store.compact()).map_err(CliError::failed)?;
                }
                // While a daemon runs, every write goes through it.
                Err(_) => {
                    drop(runtime.block_on(super::client::ask(global, &Request::StoreCompact, |_| ()))?)
                }
            }
            let report = tidegate_store::check(dir).map_err(CliError::failed)?;
            let answer = json!({ "version": DOCUMENT_VERSION, "store": report });
            document(global, &answer, |doc, _| render::fields(&doc["store"]))?;
        }
    }
    Ok(Outcome::Done)
}
