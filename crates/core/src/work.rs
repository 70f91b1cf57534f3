//! Work classes and generations.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What may be done with a call whose outcome is unknown. The order is by danger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkClass {
    /// Changes nothing: may be sent again.
    ReadOnly,
    /// Sent twice is the same as sent once, unless something else came between.
    Idempotent,
    /// May change something; the class of everything nobody has vouched for.
    Mutating,
}

impl WorkClass {
    /// Everything but [`WorkClass::ReadOnly`]: work that blocks a restart while it may be executing.
    #[must_use]
    pub fn is_unsafe(self) -> bool {
        self != Self::ReadOnly
    }
}

impl fmt::Display for WorkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::Idempotent => "idempotent",
            Self::Mutating => "mutating",
        })
    }
}

impl FromStr for WorkClass {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "read-only" => Ok(Self::ReadOnly),
            "idempotent" => Ok(Self::Idempotent),
            "mutating" => Ok(Self::Mutating),
            other => Err(format!("a work class is read-only, idempotent or mutating; {other:?} is not")),
        }
    }
}

/// The number of a component's incarnation. Only grows; 0 is "never started".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
