//! Who is calling: tokens against hashes. A name is a claim; only a token that hashes right is a credential.

use crate::config::Config;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use tidegate_governor::Caller;

/// The lower-case hex SHA-256 of a token, as `token_sha256` has it.
pub(crate) fn token_hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // writing to a String can't fail
        hex
    })
}

/// The credentials of a configuration, as they were when the daemon started: they are never read again.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    known: Vec<(String, Caller)>,
}

impl Credentials {
    pub(crate) fn new(config: &Config) -> Self {
        let operators =
            config.operators.iter().map(|c| (c.token_sha256.clone(), Caller::operator(c.name.clone())));
        let principals =
            config.principals.iter().map(|c| (c.token_sha256.clone(), Caller::principal(c.name.clone())));
        Self { known: operators.chain(principals).collect() }
    }

    /// The caller behind a token; without one it is `local`.
    ///
    /// # Errors
    /// A message for the caller when the token is nobody's: acting as `local` instead would hide a mistake.
    pub(crate) fn caller(&self, token: Option<&str>) -> Result<Caller, String> {
        let Some(token) = token else {
            return Ok(Caller::local());
        };
        // Hashes are compared, so that the time it takes says nothing about a token.
        let hash = token_hash(token);
        self.known.iter().find(|(known, _)| *known == hash).map(|(_, caller)| caller.clone()).ok_or_else(|| {
            "the token belongs to no [[operator]] or [[principal]] of the running daemon; check $TIDEGATE_TOKEN or --token-file \
             (credentials are read when the daemon starts)"
                .to_owned()
        })
    }
}
