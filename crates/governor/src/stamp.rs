//! A number for one write. Everything new in that write is named after it, so that a decision taken again after an
//! uncertain commit names the same things and recognises what it has already written.

use std::fmt;
use tidegate_core::{DrainId, Entropy, IncidentId};

/// The number of one write: fresh for each, the same however often the write is attempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(String);

impl Stamp {
    /// A fresh one.
    #[must_use]
    pub fn fresh(entropy: &dyn Entropy) -> Self {
        let id = entropy.id("w");
        Self(id[2..].to_owned())
    }

    /// It as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of the drain that this write begins.
    #[must_use]
    pub fn drain(&self) -> DrainId {
        #[allow(clippy::expect_used)] // Letters and digits.
        DrainId::new(&format!("drain-{}", self.0)).expect("a stamp makes an id")
    }

    /// The id of the `nth` incident that this write opens.
    #[must_use]
    pub fn incident(&self, nth: usize) -> IncidentId {
        let text = if nth == 0 { format!("inc-{}", self.0) } else { format!("inc-{}.{nth}", self.0) };
        #[allow(clippy::expect_used)] // Letters, digits, a dash and a dot.
        IncidentId::new(&text).expect("a stamp makes an id")
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<Stamp> for String {
    fn eq(&self, other: &Stamp) -> bool {
        *self == other.0
    }
}
