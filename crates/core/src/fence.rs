//! Epoch, revision and the fencing token made of both. They only grow.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The number the store gives a commit. Grows through restarts and compaction; starts at 1, 0 is "before anything".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// The number of the store's history. Raised whenever the store is restored from a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fencing token: ordered by epoch, then by the revision of the commit that granted it. Written `EPOCH.REVISION`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The store's epoch at the grant.
    pub epoch: Epoch,
    /// The revision of the granting commit.
    pub revision: Revision,
}

impl Fence {
    /// The token of a grant made in `epoch` by the commit `revision`.
    #[must_use]
    pub const fn new(epoch: Epoch, revision: Revision) -> Self {
        Self { epoch, revision }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.revision)
    }
}

/// Text that isn't a fence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a fence is EPOCH.REVISION, two whole numbers; {text:?} is not")]
pub struct ParseFenceError {
    text: String,
}

impl FromStr for Fence {
    type Err = ParseFenceError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseFenceError { text: text.to_owned() };
        let (epoch, revision) = text.split_once('.').ok_or_else(bad)?;
        let number = |part: &str| {
            if part.bytes().all(|b| b.is_ascii_digit()) {
                part.parse::<u64>().map_err(|_| bad())
            } else {
                Err(bad())
            }
        };
        Ok(Self::new(Epoch(number(epoch)?), Revision(number(revision)?)))
    }
}

impl Serialize for Fence {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fence {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::from_text(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_outranks_every_fence_of_its_past() {
        assert!(Fence::new(Epoch(2), Revision(1)) > Fence::new(Epoch(1), Revision(u64::MAX)));
    }

    #[test]
    fn only_two_whole_numbers_are_a_fence() {
        for (text, good) in [
            ("1.7", true),
            ("0.0", true),
            ("1", false),
            ("1.", false),
            (".7", false),
            ("1.7.2", false),
            ("+1.7", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<Fence>().is_ok(), good, "{text:?}");
        }
        assert_eq!("12.34".parse::<Fence>().unwrap().to_string(), "12.34");
    }
}
