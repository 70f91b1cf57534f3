//! The durable record of a drain: under each component of its scope the same record, so that one read tells whether
//! the component drains, and every component keeps exactly its last drain.

use crate::Holder;
use serde::{Deserialize, Serialize};
use tidegate_core::{ComponentName, Deadline, DrainId, OperationId, PrincipalName, WallTime};
use tidegate_store::{Key, Scope};

/// The prefix of all records of this crate.
pub const PREFIX: &str = "drain/";

/// The most holders a record names; the rest is only counted. Enough to act on, small enough to store.
pub const MAX_RECORDED_HOLDERS: usize = 64;

/// The most components one drain closes.
pub const MAX_SCOPE: usize = 256;

/// Where a drain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrainState {
    /// The gates are closed, work is in flight.
    Closed,
    /// Nothing unsafe is in flight; the gates stay closed until the restart is over.
    Drained,
    /// The deadline passed with unsafe work in flight. Over.
    Refused,
    /// The gates were opened again. Over.
    Reopened,
}

impl DrainState {
    /// Whether the gates are meant to be closed.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Closed | Self::Drained)
    }
}

/// One drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {
    /// Its id.
    pub id: DrainId,
    /// The restart operation it belongs to, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
    /// The components it closes.
    pub scope: Vec<ComponentName>,
    /// Who asked for it.
    pub requested_by: PrincipalName,
    /// When it began.
    pub began: WallTime,
    /// Counted from its beginning and never moved.
    pub deadline: Deadline,
    /// Where it stands.
    pub state: DrainState,
    /// When it came to that state.
    pub changed: WallTime,
    /// What refused it: the first [`MAX_RECORDED_HOLDERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// How many holders there were.
    #[serde(default)]
    pub holder_count: usize,
    /// Why it was reopened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Fields of a newer version, kept as they are.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// The key of a component's last drain.
#[must_use]
pub fn key(component: &ComponentName) -> Key {
    // A prefix of 6 bytes and a checked name of at most 128 are a key.
    #[allow(clippy::expect_used)]
    Key::new(&format!("{PREFIX}{component}")).expect("a component name makes a key")
}

/// What a decision about these components reads.
#[must_use]
pub fn scope(components: &[ComponentName]) -> Scope {
    components.iter().fold(Scope::new(), |scope, component| scope.key(&key(component)))
}

/// What [`recover`](crate::recover) reads.
#[must_use]
pub fn scope_of_all() -> Scope {
    Scope::new().prefix(PREFIX)
}
