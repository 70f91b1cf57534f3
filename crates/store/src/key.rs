//! Keys: bounded UTF-8 text, stored exactly or refused, never mangled.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest key, in bytes. Room for a prefix and a resource name of 512 bytes.
pub const MAX_KEY_BYTES: usize = 768;

/// A key that can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing was given.
    #[error("a key must not be empty")]
    Empty,
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("a key has at most {MAX_KEY_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A control character, which would make listings lie.
    #[error("a key has no control characters; {key:?} has one")]
    Control {
        /// What was given.
        key: String,
    },
}

/// The name of a record. Slashes make prefixes; there are no other special characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Checks and takes a key.
    ///
    /// # Errors
    /// [`KeyError`] when it is empty, too long or has a control character.
    pub fn new(key: &str) -> Result<Self, KeyError> {
        if key.is_empty() {
            Err(KeyError::Empty)
        } else if key.len() > MAX_KEY_BYTES {
            Err(KeyError::TooLong { bytes: key.len() })
        } else if key.chars().any(char::is_control) {
            Err(KeyError::Control { key: key.to_owned() })
        } else {
            Ok(Self(Arc::from(key)))
        }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = KeyError;
    fn from_str(s: &str) -> Result<Self, KeyError> {
        Self::new(s)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        tidegate_core::from_text(d)
    }
}
