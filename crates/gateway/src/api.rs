//! What can be asked of the daemon, by the command line and by the governance tools alike.
//!
//! A request is one line of JSON; it is answered by any number of progress lines and one result. The result's document
//! is the public JSON of the command; people's text is rendered from it by the caller.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_core::{ComponentName, Fence, IncidentId, OperationId, SessionName, WorkClass};

/// The version of the public JSON documents.
pub(crate) const DOCUMENT_VERSION: u32 = 1;

/// One request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    RestartAsk {
        components: Vec<ComponentName>,
        reason: String,
        #[serde(default)]
        operation: Option<OperationId>,
        #[serde(default)]
        break_glass: bool,
        /// Cut unsafe calls that outlive the drain's deadline.
        #[serde(default)]
        abandon_unsafe: bool,
        /// Start this instead; empty where nothing changes.
        #[serde(default)]
        command: Vec<String>,
    },
    /// Propose operations for what the configuration has otherwise now.
    Reload,
    /// Drain and stop everything, so that the caller can take this daemon's place.
    Takeover {
        reason: String,
    },
    RestartApprove {
        id: OperationId,
    },
    RestartDeny {
        id: OperationId,
    },
    RestartCancel {
        id: OperationId,
    },
    RestartList,
    RestartShow {
        id: OperationId,
    },
    /// Answered when the operation has ended; its holders are told as progress.
    RestartWait {
        id: OperationId,
    },
    SessionList,
    SessionShow {
        session: SessionName,
    },
    SessionEnd {
        session: SessionName,
    },
    /// Facts and next action of a session: the one named, else the caller's own.
    Resume {
        #[serde(default)]
        session: Option<SessionName>,
    },
    /// Notes for the caller's own session.
    Checkpoint {
        notes: String,
    },
    CheckpointList,
    CheckpointShow {
        session: SessionName,
    },
    LeaseList,
    LeaseShow {
        key: String,
    },
    LeaseAcquire {
        #[serde(default)]
        session: Option<SessionName>,
        key: String,
        class: WorkClass,
        ttl_ms: u64,
    },
    LeaseRenew {
        #[serde(default)]
        session: Option<SessionName>,
        key: String,
        fence: Fence,
    },
    LeaseRelease {
        #[serde(default)]
        session: Option<SessionName>,
        key: String,
        fence: Fence,
    },
    LeaseAdopt {
        key: String,
        session: SessionName,
    },
    IncidentList,
    IncidentShow {
        id: IncidentId,
    },
    IncidentAcknowledge {
        id: IncidentId,
    },
    IncidentResolve {
        id: IncidentId,
    },
    StoreCompact,
}

/// One line of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// Something to show while waiting.
    Progress(Value),
    /// The document; the request is answered.
    Done(Value),
    /// The request failed.
    Failed(Failure),
}

/// Why a request was not done.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// `true`: it was understood and the answer is no (exit 1). `false`: it couldn't be run (exit 2).
    pub(crate) refused: bool,
    /// For people.
    pub(crate) message: String,
    /// The refusal object of the public contract, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<Value>,
}

impl Failure {
    /// The answer is no.
    pub(crate) fn no(message: impl std::fmt::Display) -> Self {
        Self { refused: true, message: message.to_string(), refusal: None }
    }

    /// It could not be run.
    pub(crate) fn cannot(message: impl std::fmt::Display) -> Self {
        Self { refused: false, message: message.to_string(), refusal: None }
    }
}
