//! What is kept of a session, and under which key. Data only: no rule is decided here.
//!
//! Never the server's own state: a checkpoint holds what Tidegate itself knows and has told the session.

use crate::PendingAction;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::{
    CallState, ComponentName, Generation, NextAction, Now, OpenCall, PrincipalName, ProcessIdentity,
    SessionId, WallTime, WorkClass,
};
use tidegate_store::{Key, Scope};

/// Everything this crate stores lies under this prefix.
pub const PREFIX: &str = "checkpoint/";

/// The key of a session's record: `checkpoint/PRINCIPAL/NAME`.
#[must_use]
pub fn key(session: &SessionId) -> Key {
    // Two names of at most 128 bytes without control characters always make a key.
    #[allow(clippy::expect_used)]
    Key::new(&format!("{PREFIX}{session}")).expect("two checked names make a key")
}

/// The prefix of all sessions of one principal.
#[must_use]
pub fn prefix_of(principal: &PrincipalName) -> String {
    format!("{PREFIX}{principal}/")
}

/// What decisions about these sessions must read.
#[must_use]
pub fn scope<'a>(sessions: impl IntoIterator<Item = &'a SessionId>) -> Scope {
    sessions.into_iter().fold(Scope::new(), |scope, session| scope.key(&key(session)))
}

/// What decisions about the *names* of a principal's sessions must read: attaching and ending.
#[must_use]
pub fn scope_of_principal(principal: &PrincipalName) -> Scope {
    Scope::new().prefix(prefix_of(principal))
}

/// The durable record of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Whose it is.
    pub session: SessionId,
    /// How often it has been written. Grows by one with every change.
    pub version: u64,
    /// The client's process (the parent of its shims), where there is one. Evidence, not ownership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ProcessIdentity>,
    /// Its open connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamFact>,
    /// The generation of each component that it last knew.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub generations: BTreeMap<ComponentName, Generation>,
    /// Its calls that were not settled when a drain last ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallFact>,
    /// Calls that did not fit. They were the least dangerous ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_dropped: u64,
    /// The keys of the leases it holds.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leases: BTreeSet<String>,
    /// The resources it is subscribed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub subscriptions: BTreeSet<Subscription>,
    /// The log level it asked each component for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub log_level: BTreeMap<ComponentName, String>,
    /// What it asked to be remembered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// What it has yet to be told or to do, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingAction>,
    /// The number of the last pending action; the next gets one more.
    #[serde(default)]
    pub last_action: u64,
    /// Pending actions that did not fit. They were the least pressing ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending_dropped: u64,
    /// When it was first attached.
    pub began: WallTime,
    /// When it was last changed.
    pub updated_at: WallTime,
    /// Set once it has been ended; the next client of this name starts anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// When somebody took it over from a living client, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steals: Vec<Steal>,
    /// Fields of a newer minor version, kept when the record is rewritten.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Checkpoint {
    /// The record of a session of which nothing is known yet.
    #[must_use]
    pub fn new(session: SessionId, now: &Now) -> Self {
        Self {
            session,
            version: 0,
            client: None,
            streams: Vec::new(),
            generations: BTreeMap::new(),
            calls: Vec::new(),
            calls_dropped: 0,
            leases: BTreeSet::new(),
            subscriptions: BTreeSet::new(),
            log_level: BTreeMap::new(),
            notes: Vec::new(),
            pending: Vec::new(),
            last_action: 0,
            pending_dropped: 0,
            began: now.wall,
            updated_at: now.wall,
            ended: None,
            steals: Vec::new(),
            extra: serde_json::Map::new(),
        }
    }

    /// Whether a client is connected.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether something goes on in it: a connection, a lease, a call that a server may still be executing.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let running = |call: &CallFact| {
            matches!(call.state, CallState::Queued | CallState::Written | CallState::Detached)
        };
        self.is_attached() || !self.leases.is_empty() || self.calls.iter().any(running)
    }

    /// Whether it has yet to be told that nobody knows the outcome of a call.
    #[must_use]
    pub fn has_to_verify(&self) -> bool {
        let unknown =
            |p: &PendingAction| matches!(p.action, NextAction::VerifyThenRetry { answer: None, .. });
        self.pending.iter().any(unknown)
    }

    /// Whether it lasts, and has ever been connected to one of these components.
    #[must_use]
    pub fn has_to_do_with(&self, scope: &[ComponentName]) -> bool {
        self.ended.is_none() && scope.iter().any(|name| self.generations.contains_key(name))
    }

    /// Whether this connection is the session's.
    #[must_use]
    pub fn has_stream(&self, id: &str) -> bool {
        self.streams.iter().any(|stream| stream.stream == id)
    }

    /// Whether a client that came back would learn something: a note, an action.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.notes.is_empty() || !self.pending.is_empty()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape serde asks for
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// One connection of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFact {
    /// Its own id, never used twice.
    pub stream: String,
    /// Where it leads; `None` is the control endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<ComponentName>,
    /// The connections of a former client that were to be closed when it came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

/// One call that was not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFact {
    /// Its id, which no other call of the session to this component has, over whichever of its connections.
    pub id: String,
    /// Where it was made.
    pub component: ComponentName,
    /// The tool, or the method of a request that is not a tool call.
    pub tool: String,
    /// What may be done with it.
    pub class: WorkClass,
    /// How far it got.
    pub state: CallState,
}

impl CallFact {
    /// What is kept of a call that got so far.
    #[must_use]
    pub fn of(call: &OpenCall, state: CallState) -> Self {
        let OpenCall { component, tool, class, id, .. } = call.clone();
        Self { id, component, tool, class, state }
    }

    /// Whether it may have been carried out, and nobody has an answer: its client is gone, or none will come.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.class.is_unsafe() && matches!(self.state, CallState::Detached | CallState::Unknown)
    }
}

/// A resource subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subscription {
    /// Where.
    pub component: ComponentName,
    /// The resource.
    pub uri: String,
}

/// Something the session asked to be remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its own id: the same note written twice is one note.
    pub id: String,
    /// When.
    pub at: WallTime,
    /// What.
    pub text: String,
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: WallTime,
    /// Who ended it.
    pub by: PrincipalName,
    /// Why.
    pub reason: String,
    /// The connections that it had: whoever ends it again may be the one who closes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

/// A take-over from a living client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steal {
    /// When.
    pub at: WallTime,
    /// Who took it.
    pub by: PrincipalName,
    /// Whom it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ProcessIdentity>,
    /// The connection that took it.
    pub stream: String,
    /// The connections that were cut.
    pub cut: Vec<String>,
}
