//! What goes over the daemon's socket: a hello, a welcome, then lines.
//!
//! A stream carries MCP messages byte for byte behind a one-letter tag, so that nothing is ever escaped or re-encoded;
//! everything else is one JSON document a line. Nothing here knows what a message means.

use crate::keeper::KeptCall;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate_core::{ComponentName, PrincipalName, ProcessIdentity, SessionId, SessionName, WorkClass};

/// The version of this protocol; both ends must speak the same.
pub(crate) const WIRE_VERSION: u32 = 2;

/// The longest hello: everything that a shim holds may have been marked, and its `initialize`; names and marks beside it.
pub(crate) const MAX_HELLO_BYTES: usize = MAX_UNANSWERED_BYTES + 2 * tidegate_relay::MAX_LINE_BYTES;

/// Bytes of the unanswered requests of one stream: a few of the largest messages.
pub(crate) const MAX_UNANSWERED_BYTES: usize = 4 * tidegate_relay::MAX_LINE_BYTES;

/// The first line of a connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// [`WIRE_VERSION`] of the caller.
    pub(crate) wire: u32,
    /// The caller's credential; without one it is `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// What the connection is for.
    pub(crate) role: Role,
}

/// What a connection is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Requests of [`crate::api`], in no session's name.
    Command,
    /// Requests of [`crate::api`], in the name of a session.
    Control(Attach),
    /// MCP messages to one component.
    Stream {
        component: ComponentName,
        attach: Attach,
        /// Set when the stream was served before by a daemon that is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<Resume>,
    },
}

/// Which session a connection belongs to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Attach {
    /// The name asked for; generated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<SessionName>,
    /// Take the name over from a client that lives.
    #[serde(default)]
    pub(crate) steal: bool,
    /// Whose session it is, where it was taken over; the caller's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<PrincipalName>,
    /// The client: the process that started the shim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<ProcessIdentity>,
    /// The name was this client's before, under a daemon that is gone.
    #[serde(default)]
    pub(crate) again: bool,
}

/// What a shim knows of its stream when it comes back after the daemon's death.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Resume {
    /// The client's `initialize` request, when it had been answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) initialize: Option<Box<RawValue>>,
    /// Requests that had been marked as forwarded and were not answered.
    pub(crate) forwarded: Vec<Reported>,
}

/// A request that the daemon marked before it began to write it to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The tool, or the method where it is no tool call.
    pub(crate) tool: String,
    /// Its work class, as the daemon had decided.
    pub(crate) class: WorkClass,
    /// As the server knows it; by that the next daemon finds an answer that came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<KeptCall>,
}

/// A marked request, as a shim reports it to the next daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reported {
    /// The client's line.
    pub(crate) line: Box<RawValue>,
    pub(crate) mark: Mark,
    /// Milliseconds since the client sent it.
    pub(crate) age_ms: u64,
}

/// The daemon's answer to a hello.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Welcome {
    /// The connection is open. For `Control` and `Stream`: in the name of `session`. With that of a stream comes the file of
    /// its [marks](crate::marks).
    Open {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// Something the person or model on the other side should know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
    },
    /// It is not; trying again won't help unless `retry` is set.
    Refused {
        message: String,
        #[serde(default)]
        retry: bool,
    },
}

/// Tag of a line that is an MCP message.
pub(crate) const MESSAGE: u8 = b'm';
/// Tag of a line that is a [`Note`].
pub(crate) const NOTE: u8 = b'n';

/// What the daemon tells a shim beside messages.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// The stream is over; the shim is not to come back.
    End { message: String },
}

/// One line of a stream: tag, payload, line feed.
pub(crate) fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(payload.len() + 2);
    line.push(tag);
    line.extend_from_slice(payload);
    line.push(b'\n');
    line
}

/// A note as a line.
pub(crate) fn note_frame(note: &Note) -> Vec<u8> {
    let mut line = vec![NOTE];
    line.extend(json_line(note));
    line
}

/// A document as one line of JSON.
pub(crate) fn json_line<T: Serialize>(document: &T) -> Vec<u8> {
    // Only maps whose keys aren't strings fail; no document of this protocol has one.
    let mut line = serde_json::to_vec(document).unwrap_or_default();
    line.push(b'\n');
    line
}
