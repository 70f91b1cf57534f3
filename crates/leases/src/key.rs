//! The name of a leased resource. It is stored exactly as given or refused, never mangled.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use tidegate_store::Key;

/// Where the records of leases live in the store.
pub const PREFIX: &str = "lease/";

/// The longest name of a resource, in bytes: a path, not a document; with [`PREFIX`] it fits a store key.
pub const MAX_LEASE_KEY_BYTES: usize = 512;

/// A name that can't be leased, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseKeyError {
    /// Nothing was given.
    #[error("the name of a lease must not be empty")]
    Empty,
    /// Longer than [`MAX_LEASE_KEY_BYTES`].
    #[error("the name of a lease has at most {MAX_LEASE_KEY_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The store can't name a record so.
    #[error("the name of a lease can't be stored: {0}")]
    Unstorable(tidegate_store::KeyError),
}

/// The name of a leased resource, such as `repo/main` or `files//srv/a b.txt`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey(Key);

impl LeaseKey {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`LeaseKeyError`] when it is empty, too long or has a control character.
    pub fn new(name: &str) -> Result<Self, LeaseKeyError> {
        match name.len() {
            0 => Err(LeaseKeyError::Empty),
            bytes if bytes > MAX_LEASE_KEY_BYTES => Err(LeaseKeyError::TooLong { bytes }),
            _ => Key::new(&format!("{PREFIX}{name}")).map(Self).map_err(LeaseKeyError::Unstorable),
        }
    }

    /// The name as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.as_str()[PREFIX.len()..]
    }

    /// The key of the lease's record in the store.
    #[must_use]
    pub fn record(&self) -> &Key {
        &self.0
    }
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for LeaseKey {
    type Err = LeaseKeyError;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl Serialize for LeaseKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for LeaseKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        tidegate_core::from_text(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        let got = LeaseKey::new(name).map_or_else(|e| e.to_string(), |key| key.to_string());
        assert!(got.contains(expected), "{name:?}: {got}");
    }

    #[test]
    fn a_name_is_stored_exactly_or_refused() {
        check("repo/main", "repo/main");
        check("files//srv/a b.txt", "files//srv/a b.txt");
        check("лодка/⛵", "лодка/⛵");
        check(&"x".repeat(512), &"x".repeat(512));
        check("", "must not be empty");
        check(&"x".repeat(513), "at most 512 bytes, this one has 513");
        check("a\nb", "control characters");
    }
}
