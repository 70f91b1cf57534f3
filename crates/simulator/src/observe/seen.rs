//! What can be seen: at the servers, at the clients, at the gates. Ground truth, told by the world and never by the code
//! under test.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use tidegate_core::{ComponentName, DrainId, Fence, Generation, OperationId, SessionId, WorkClass};
use tidegate_governor::{Caller, LaunchIdentity, Phase};

use crate::world::Executing;

/// One call of one session, wherever it goes: the nonce in its arguments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId(Arc<str>);

impl From<&str> for CallId {
    fn from(nonce: &str) -> Self {
        Self(nonce.into())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The lease that a call names, because its component asks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) key: String,
    /// The fence under which its client believes to hold it, where it says that.
    pub(crate) fence: Option<Fence>,
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fence {
            None => f.write_str(&self.key),
            Some(fence) => write!(f, "{} under {fence}", self.key),
        }
    }
}

/// A refusal as its client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) kind: String,
    /// The kind of its next action; empty when there is none.
    pub(crate) action: String,
    pub(crate) prompt: String,
}

/// What a client reads as the answer to its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server's answer: the text of its result.
    Answered(String),
    Refused(Refused),
    /// An error that is no refusal.
    Error(String),
}

impl Outcome {
    /// Reads a response.
    pub(crate) fn of(response: &Value) -> Self {
        let refusal = response.pointer("/result/_meta/tidegate~1refusal").or(response.pointer("/error/data"));
        if let Some(refusal) = refusal.filter(|it| it["kind"].is_string()) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Self::Refused(Refused {
                kind: text(&refusal["kind"]),
                action: text(&refusal["next_action"]["kind"]),
                prompt: text(&refusal["next_action"]["prompt"]),
            });
        }
        match response.get("error") {
            Some(error) => Self::Error(error["message"].as_str().unwrap_or_default().to_owned()),
            None => Self::Answered(
                response
                    .pointer("/result/content/0/text")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(text) if text.is_empty() => f.write_str("answered"),
            Self::Answered(text) => f.write_str(text),
            Self::Refused(Refused { kind, action, .. }) => write!(f, "{kind}, {action}"),
            Self::Error(message) => write!(f, "error: {message}"),
        }
    }
}

/// Something that a session was told is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    Attached,
    Note(String),
    Lease(String),
    Subscription(ComponentName, String),
}

/// One thing that was seen.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    DaemonStarted,
    DaemonDied,
    /// The store is what it was when a backup was taken, in a new epoch.
    Restored,
    /// Something happened that coverage counts, and nothing else.
    Mark(&'static str),
    /// A server's program runs.
    Started {
        component: ComponentName,
        generation: Generation,
        pid: u32,
        launch: LaunchIdentity,
    },
    /// The daemon takes a generation for the one that serves.
    Serving {
        component: ComponentName,
    },
    /// Somebody makes a server end.
    Stopping {
        component: ComponentName,
        generation: Generation,
        /// For an operation.
        governed: bool,
        /// Its daemon is gone: nothing that it answers reaches anybody.
        orphaned: bool,
        executing: Vec<Executing>,
    },
    /// The main process of a server is gone, and something of it is left.
    Crashed {
        component: ComponentName,
    },
    Died {
        component: ComponentName,
        pid: u32,
    },
    /// The daemon starts nothing, because something of the component's old server is still there.
    Survived {
        component: ComponentName,
    },
    /// That could not be recorded.
    StateNotRecorded {
        component: ComponentName,
    },
    GateClosed {
        component: ComponentName,
        drain: DrainId,
    },
    /// A gate that had just been closed was opened again, because another one could not be closed.
    GateUnclosed {
        component: ComponentName,
    },
    GateOpened {
        component: ComponentName,
        drain: DrainId,
    },
    /// A component's actor begins to look who holds which lease, for what it decides next.
    LeasesLookedAt {
        component: ComponentName,
    },
    /// It could not see that.
    LeasesUnread {
        component: ComponentName,
    },
    /// The store has refused to record that unsafe work may run: it waits until that is recorded.
    NotMarked {
        component: ComponentName,
    },
    /// A client makes a request.
    Sent {
        call: CallId,
        session: SessionId,
        component: ComponentName,
        class: WorkClass,
        replay: bool,
        /// Its tool, or its method.
        tool: String,
        lease: Option<Needed>,
    },
    /// A server reads a request that no client has made; decided in the step `decided`.
    ReadOwn {
        component: ComponentName,
        decided: u64,
    },
    /// A server reads it; the daemon decided to write it in the step `decided`.
    Received {
        call: CallId,
        component: ComponentName,
        decided: u64,
    },
    /// A server reads that it is cancelled.
    CancelReceived {
        call: CallId,
    },
    /// It has taken effect.
    Committed {
        call: CallId,
    },
    /// The server is done with it, answered or not.
    Finished {
        call: CallId,
    },
    /// The daemon has read the server's answer to it.
    AnswerRead {
        call: CallId,
    },
    /// A daemon has found an answer that a keeper kept while there was no daemon.
    LateAnswer {
        call: CallId,
    },
    /// It has looked for one, and the server had given it: it isn't kept.
    LateAnswerLost {
        call: CallId,
    },
    /// Its client reads an answer; `local`: of its shim, which has no daemon.
    Delivered {
        call: CallId,
        outcome: Outcome,
        local: bool,
    },
    /// Its client doesn't wait for it any more.
    GivenUp {
        call: CallId,
    },
    /// Its client has died in the middle of it.
    Left {
        call: CallId,
    },
    /// A shim has a connection, or has none any more.
    Connected {
        session: SessionId,
        component: ComponentName,
        up: bool,
    },
    /// A session was told that something is kept, or isn't any more.
    Kept {
        session: SessionId,
        fact: Fact,
    },
    Dropped {
        session: SessionId,
        fact: Fact,
    },
    /// A session holds a lease, by its own clock until then.
    LeaseHeld {
        /// It was given to it just now, and not renewed.
        granted: bool,
        session: SessionId,
        key: String,
        fence: Fence,
        until_ms: u64,
        pid: u32,
    },
    /// A session doesn't take itself for the holder any more.
    LeaseLeft {
        session: SessionId,
        key: String,
    },
    /// A session, or an operator, gave a lease back or handed it over.
    LeaseGiven {
        key: String,
    },
    /// A session may have given a lease back that a dead client of it held.
    GivenLate {
        key: String,
    },
    /// Somebody was told that the lease under this fence is released.
    Released {
        key: String,
        fence: Fence,
    },
    ClientDied {
        pid: u32,
    },
    /// Somebody asks for a restart, for the first time.
    Asked {
        operation: OperationId,
        caller: Caller,
    },
    /// Somebody who asked for it was told no, and that nothing has happened.
    ToldNothing {
        operation: OperationId,
    },
    /// Somebody with this credential says yes.
    Approving {
        operation: OperationId,
        caller: Caller,
    },
    /// The daemon closes a connection, and tells its shim not to come back: what it reads for it from now on is late.
    Cut {
        id: String,
        session: SessionId,
        component: ComponentName,
    },
    /// Somebody was told that an operation is in this phase.
    Told {
        operation: OperationId,
        phase: Phase,
    },
    /// A session was told what to do.
    Resumed {
        session: SessionId,
        action: String,
        prompt: String,
    },
    /// An operator is about to end a session.
    Ending {
        session: SessionId,
    },
    /// An operator was told that a session has ended, and that what it was in the middle of is on record.
    Ended {
        session: SessionId,
    },
    /// The daemon could not record something about these sessions, because its store refused.
    NotRecorded {
        sessions: Vec<SessionId>,
    },
}

/// The call that a line of a server answers.
pub(crate) fn answered_by(line: &[u8]) -> Option<CallId> {
    let response: Value = serde_json::from_slice(line).ok()?;
    let text = response.pointer("/result/content/0/text")?.as_str()?;
    text.split_once(' ').map(|(call, _)| CallId::from(call))
}
