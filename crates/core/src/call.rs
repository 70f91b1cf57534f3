//! A call that has no answer yet, as everybody knows it who has to do with it: whoever passes it on, and whoever records what
//! became of it.

use crate::{ComponentName, Generation, SessionId, WorkClass};
use serde::{Deserialize, Serialize};

/// A call of which no answer has reached its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// Whose.
    pub session: SessionId,
    /// Where.
    pub component: ComponentName,
    /// The tool, or the method of what is no tool call.
    pub tool: String,
    /// Its class.
    pub class: WorkClass,
    /// Its id, unique for the session and the component.
    pub id: String,
}

impl OpenCall {
    /// The id of the call of this number to a generation, which is 0 where that isn't known.
    #[must_use]
    pub fn id(generation: Generation, number: u64) -> String {
        format!("{generation}-{number}")
    }
}

/// How far a call got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallState {
    /// Answered: nothing is left of it.
    Answered,
    /// Cancelled before it was written.
    Cancelled,
    /// Held: it never reached the server.
    Queued,
    /// Written to the server, not yet answered.
    Written,
    /// Written, and its caller is gone; the server may still be executing it.
    Detached,
    /// Written, and never to be answered.
    Unknown,
}
