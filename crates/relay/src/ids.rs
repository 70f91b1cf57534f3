//! Ids as they stand on the wire: compared and echoed byte for byte, type included. Never re-serialised.

use std::fmt;
use std::sync::Arc;

/// The longest id, in bytes. Every SDK uses a number or a UUID; a longer one is a mistake.
pub const MAX_ID_BYTES: usize = 512;

/// The JSON text of a request id or a progress token: `1` and `"1"` are two.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawId(Arc<str>);

impl RawId {
    /// Takes a string or a number as it stands; `None` for any other JSON, and for one that is too long.
    #[must_use]
    pub fn new(json: &str) -> Option<Self> {
        let first = *json.as_bytes().first()?;
        let scalar = first == b'"' || first == b'-' || first.is_ascii_digit();
        (scalar && json.len() <= MAX_ID_BYTES).then(|| Self(Arc::from(json)))
    }

    /// The number `n`.
    #[must_use]
    pub fn number(n: u64) -> Self {
        Self(Arc::from(n.to_string()))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The number it is, where it is a whole one that fits.
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One connection of one session to the component. Given by the gateway, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
