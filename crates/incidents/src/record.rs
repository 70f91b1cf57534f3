//! What is kept of an incident, and under which keys. Data only: no rule is decided here.

use crate::{IncidentKind, IncidentState, Severity, WhoIsNext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use tidegate_core::{
    ComponentName, Deadline, IncidentId, NextAction, OperationId, PrincipalName, SessionId, WallTime,
};
use tidegate_store::{Key, Scope};

/// The incidents lie under this prefix, by id.
pub const PREFIX: &str = "incident/";

/// What makes two reports the same incident lies under this prefix.
pub const KEY_PREFIX: &str = "incident-key/";

/// What is to be delivered to trackers lies under this prefix, by incident id.
pub const OUTBOX_PREFIX: &str = "incident-outbox/";

/// The key of an incident: `incident/ID`.
#[must_use]
pub fn key(id: &IncidentId) -> Key {
    checked(format!("{PREFIX}{id}"))
}

/// The key that all reports of one incident contend for: `incident-key/KIND/DEDUP`. `dedup` is redacted and bounded.
pub(crate) fn dedup_key(kind: IncidentKind, dedup: &str) -> Key {
    checked(format!("{KEY_PREFIX}{kind}/{dedup}"))
}

/// The key of what is to be delivered of an incident: `incident-outbox/ID`.
#[must_use]
pub fn outbox_key(id: &IncidentId) -> Key {
    checked(format!("{OUTBOX_PREFIX}{id}"))
}

fn checked(key: String) -> Key {
    // Made of checked names and of bounded text without control characters.
    #[allow(clippy::expect_used)]
    Key::new(&key).expect("an incident's parts make a key")
}

/// What every decision of this crate must read: one snapshot of its three prefixes, so that a dedup key is never seen
/// without its incident. All of it is bounded by [`MAX_INCIDENTS`](crate::MAX_INCIDENTS).
#[must_use]
pub fn scope() -> Scope {
    Scope::new().prefix("incident")
}

/// Who did something to an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// Tidegate itself.
    Tidegate,
    /// An operator.
    Operator(PrincipalName),
    /// A session.
    Session(SessionId),
    /// Another principal, outside of any session.
    Principal(PrincipalName),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tidegate => f.write_str("tidegate"),
            Self::Operator(name) => write!(f, "operator {name}"),
            Self::Session(session) => write!(f, "session {session}"),
            Self::Principal(name) => name.fmt(f),
        }
    }
}

/// One step in an incident's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Step {
    /// First reported.
    Opened,
    /// Reported again after it had been resolved.
    Reopened,
    /// Reopened so often that it is kept open until it has been quiet.
    Flapping,
    /// Somebody has seen it.
    Acknowledged,
    /// Nothing is left to do.
    Resolved,
}

/// An entry of an incident's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When.
    pub at: WallTime,
    /// What.
    pub step: Step,
    /// Who.
    pub by: Actor,
    /// In their words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The durable record of one incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Its id.
    pub id: IncidentId,
    /// What happened.
    pub kind: IncidentKind,
    /// What makes two reports of this kind the same incident.
    pub dedup: String,
    /// Where it is in its life.
    pub state: IncidentState,
    /// How bad it is: the worst that was reported since it was opened.
    pub severity: Severity,
    /// One line that says it.
    pub title: String,
    /// The component it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ComponentName>,
    /// The restart operation it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
    /// The session it happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// How often it was reported, ever.
    pub count: u64,
    /// When it was first reported.
    pub first_seen: WallTime,
    /// When it was last reported.
    pub last_seen: WallTime,
    /// Whose turn it is.
    pub who_is_next: WhoIsNext,
    /// What they are to do.
    pub next_action: NextAction,
    /// The same in words.
    pub next_prompt: String,
    /// What was seen, redacted and bounded; the newest report's word where several name one thing.
    #[serde(default)]
    pub evidence: BTreeMap<String, String>,
    /// Whether it keeps failing and recovering.
    #[serde(default)]
    pub flapping: bool,
    /// Until when each of the latest reopenings counts towards flapping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_reopenings: Vec<Deadline>,
    /// Set while it is flapping and has recovered: when it has been quiet for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_at: Option<Deadline>,
    /// The latest reports, by their ids, so that one whose commit was uncertain is not counted twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_reports: Vec<IncidentId>,
    /// Its life, oldest first. The first entry is always kept.
    pub history: Vec<HistoryEntry>,
    /// Entries that were dropped from the middle of `history`.
    #[serde(default)]
    pub history_dropped: u64,
    /// Fields of a newer minor version, kept when the record is rewritten.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, Value>,
}

impl Incident {
    /// Whether something is left to do.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state != IncidentState::Resolved
    }

    /// The incident as the JSON object of the public contract.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "severity": self.severity,
            "title": self.title,
            "scope": self.scope,
            "operation": self.operation,
            "session": self.session,
            "count": self.count,
            "flapping": self.flapping,
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "who_is_next": self.who_is_next,
            "next_action": self.next_action.to_json(),
            "next_prompt": self.next_prompt,
            "evidence": self.evidence,
            "history": self.history,
            "history_dropped": self.history_dropped,
        })
    }
}

/// Which incident a dedup key stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyRecord {
    pub(crate) incident: IncidentId,
}

/// What a tracker is to be told of an incident: at most one entry per incident, its latest change.
///
/// Written in the same commit as the incident. A deliverer deletes it, on the condition that it is as it was read, once
/// the tracker has taken `delivery` as an idempotency key; the delivery itself is not part of this crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// Which incident.
    pub incident: IncidentId,
    /// The same for every attempt at telling this change, different for every change.
    pub delivery: String,
    /// What changed.
    pub step: Step,
    /// When.
    pub at: WallTime,
}
