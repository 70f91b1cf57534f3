//! `tidegate token`: a fresh token and the hash that goes into the configuration. Nothing is stored.

use super::{Global, print, render};
use crate::api::DOCUMENT_VERSION;
use crate::exit::{CliResult, Outcome};
use serde_json::json;
use tidegate_core::Entropy as _;
use tidegate_host::OsEntropy;

pub(super) fn run(global: &Global) -> CliResult {
    let token = format!("tg_{:032x}{:032x}", OsEntropy.bits(), OsEntropy.bits());
    let hash = crate::daemon::credentials::token_hash(&token);
    let document = json!({ "version": DOCUMENT_VERSION, "token": token, "token_sha256": hash });
    print::document(global, &document, |doc, _| {
        format!(
            "{}\nKeep the token in a file that only you can read (chmod 600), and give it with --token-file; put the hash into an \
             [[operator]] or [[principal]] of the configuration.",
            render::fields(&json!({ "token": doc["token"], "token_sha256": doc["token_sha256"] }))
        )
    })?;
    Ok(Outcome::Done)
}
