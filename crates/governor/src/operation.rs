//! The operation's record: everything that is durable about one restart. It decides nothing.

use crate::{AskDigest, CallerKind, Launches, Phase, Upgrade, Verified};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::{
    ComponentName, Deadline, DrainId, Generation, IncidentId, Now, OperationId, PrincipalName, SessionId,
    WallTime,
};
use tidegate_drain::Holder;
use tidegate_store::Key;

/// Where operations are kept.
pub(crate) const PREFIX: &str = "operation/";

/// The longest reason, in bytes: a few sentences for the person who approves, not a log.
pub const MAX_REASON_BYTES: usize = 2_048;

/// The most components of one operation. Each is a few records of one commit, and commits are bounded.
pub const MAX_SCOPE: usize = 64;

/// The most holders that an operation names. The count of the rest is in its note; nobody reads a list of hundreds.
pub const MAX_HOLDERS: usize = 64;

/// What is to become of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Intent {
    /// Stopped and started again.
    Restart,
    /// Stopped: the daemon was told to end.
    Shutdown,
    /// Stopped: the daemon ends, and another one takes its place.
    Takeover,
}

impl Intent {
    /// Whether the daemon ends with it, and its gates stay closed.
    #[must_use]
    pub fn ends_daemon(self) -> bool {
        matches!(self, Self::Shutdown | Self::Takeover)
    }
}

/// One principal's yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Whose.
    pub principal: PrincipalName,
    /// When.
    pub at: WallTime,
}

/// A component's generation before the operation and, once one was begun, the newest it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generations {
    /// Before it.
    pub before: Generation,
    /// The last one it began.
    pub after: Option<Generation>,
}

/// One restart operation, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// Where it is.
    pub phase: Phase,
    /// What is to become of the servers.
    pub intent: Intent,
    /// The components, in order of their names, each once.
    pub scope: Vec<ComponentName>,
    /// Why, in the requester's words.
    pub reason: String,
    /// Who asked.
    pub requested_by: PrincipalName,
    /// What the requester's credential was.
    pub requester: CallerKind,
    /// The session that asked, where one did. A claim, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// When it was asked for.
    pub requested_at: WallTime,
    /// Until when it may be approved and begun.
    pub expires: Deadline,
    /// What the approvals are bound to.
    pub digest: AskDigest,
    /// What each component is started as, as approved.
    pub launches: Launches,
    /// How many approvals it needs.
    pub approvals_needed: u32,
    /// Those it has.
    pub approvals: Vec<Approval>,
    /// Whether an operator skipped the approvals.
    pub break_glass: bool,
    /// Whether unsafe calls that outlive the drain's deadline are cut instead of refusing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandon_unsafe: bool,
    /// The unsafe calls that were cut; at most [`MAX_HOLDERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub abandoned: Vec<Holder>,
    /// What is started other than before.
    #[serde(default)]
    pub upgrade: Upgrade,
    /// How long its drain waits.
    #[serde(rename = "drain_deadline_ms", with = "tidegate_core::millis")]
    pub drain_deadline: std::time::Duration,
    /// Its drain, once begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// The work that refused it, or that it was waiting for when last recorded; at most [`MAX_HOLDERS`].
    pub holders: Vec<Holder>,
    /// The read-only calls that were still running when the drain ended: replayed or told to retry.
    #[serde(default)]
    pub interrupted: Vec<Holder>,
    /// Generations by component.
    pub generations: BTreeMap<ComponentName, Generations>,
    /// The sessions that were checkpointed for it: those to be told when it has ended.
    #[serde(default)]
    pub sessions: BTreeSet<SessionId>,
    /// The components still to be stopped, started and verified in this attempt.
    #[serde(default)]
    pub pending: BTreeSet<ComponentName>,
    /// How often they have been started: 0 before the first time.
    #[serde(default)]
    pub starts: u32,
    /// Those among them whose start or verification failed in this attempt, and what they said.
    #[serde(default)]
    pub failing: BTreeMap<ComponentName, String>,
    /// The components that could not be brought back, and what they said. Final.
    #[serde(default)]
    pub failures: BTreeMap<ComponentName, String>,
    /// What the verification of those that were brought back showed.
    #[serde(default)]
    pub verified: BTreeMap<ComponentName, Verified>,
    /// The incident, where it ended in one.
    pub incident: Option<IncidentId>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<WallTime>,
    /// When its gates were open again and it gave up its components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reopened_at: Option<WallTime>,
    /// Who ended it and why, in a sentence, where the phase alone doesn't say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// A number of the write that made this version: a writer that was told "perhaps" recognises its own.
    pub stamp: String,
    /// Fields of newer minor versions, kept when rewritten.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// The drain of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Its id; gates and timers carry it.
    pub id: DrainId,
    /// When it ends, one way or the other.
    pub deadline: Deadline,
    /// When it began, on the boot clock of `deadline`.
    pub began_ms: u64,
    /// Up to when the time that sessions were held has been given back to their leases, on the same clock.
    pub settled_ms: u64,
}

impl Operation {
    /// The key of the operation `id`.
    #[must_use]
    pub fn key(id: &OperationId) -> Key {
        #[allow(clippy::expect_used)] // An id is at most 128 bytes without control characters.
        Key::new(&format!("{PREFIX}{id}")).expect("an operation's key is valid")
    }

    /// Whether all approvals are there.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.approvals.len() >= self.approvals_needed as usize
    }

    /// Whether it has ended and its gates may still be closed, so that the last step has to be taken (again).
    #[must_use]
    pub fn is_to_reopen(&self) -> bool {
        self.phase.is_end() && self.drain.is_some() && self.reopened_at.is_none()
    }

    /// What failed in it, and what it said: what could not be brought back, and what was tried and rolled back.
    #[must_use]
    pub fn what_failed(&self) -> BTreeMap<&ComponentName, &str> {
        let all = self.upgrade.rejected.iter().chain(&self.failures);
        all.map(|(name, said)| (name, said.as_str())).collect()
    }

    /// Ends it.
    pub(crate) fn end(&mut self, phase: Phase, note: String, now: &Now) {
        self.phase = phase;
        self.note = note;
        self.ended_at = Some(now.wall);
    }

    /// Whether `principal` has approved it.
    #[must_use]
    pub fn has_approved(&self, principal: &PrincipalName) -> bool {
        self.approvals.iter().any(|a| a.principal == *principal)
    }
}
