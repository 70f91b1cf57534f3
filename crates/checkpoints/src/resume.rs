//! What a session is told when it comes back: its facts and its one next action, from the store alone.

use crate::{Checkpoint, next_action};
use serde_json::{Value, json};
use tidegate_core::{NextAction, SessionId};

/// The version of the JSON document.
pub const RESUME_VERSION: u32 = 1;

/// The answer to "where was I, and what do I do now?".
#[derive(Debug, Clone, PartialEq)]
pub struct Resume {
    /// Whose.
    pub session: SessionId,
    /// What is known.
    pub facts: Checkpoint,
    /// What to do.
    pub next_action: NextAction,
    /// Up to which pending action this tells: hand it to [`Clear::ToldUpTo`](crate::Clear::ToldUpTo) once the session
    /// has the answer.
    pub tells_up_to: u64,
}

impl Resume {
    /// What `checkpoint` says.
    #[must_use]
    pub fn of(checkpoint: Checkpoint) -> Self {
        Self {
            session: checkpoint.session.clone(),
            next_action: next_action(&checkpoint),
            tells_up_to: checkpoint.last_action,
            facts: checkpoint,
        }
    }

    /// The document of the public contract: `{version, session, facts, next_action}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "version": RESUME_VERSION,
            "session": self.session,
            "facts": facts(&self.facts),
            "next_action": self.next_action.to_json(),
        })
    }
}

/// The facts, every list present even when empty, every pending action with its prompt.
fn facts(c: &Checkpoint) -> Value {
    let pending: Vec<Value> = c
        .pending
        .iter()
        .map(|p| {
            let mut action = p.action.to_json();
            if let Some(object) = action.as_object_mut() {
                object.insert("since".to_owned(), json!(p.since));
            }
            action
        })
        .collect();
    json!({
        "checkpoint": c.version,
        "attached": c.is_attached(),
        "streams": c.streams,
        "generations": c.generations,
        "calls": c.calls,
        "calls_dropped": c.calls_dropped,
        "leases": c.leases,
        "subscriptions": c.subscriptions,
        "log_level": c.log_level,
        "notes": c.notes,
        "pending": pending,
        "pending_dropped": c.pending_dropped,
        "steals": c.steals,
        "began": c.began,
        "updated_at": c.updated_at,
        "ended": c.ended,
    })
}
