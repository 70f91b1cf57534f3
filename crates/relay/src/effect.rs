//! What the relay wants done, in order. Lines have no newline at their end; whoever writes them adds it.

use crate::{List, RawId, StreamId};
use std::num::NonZero;
use std::sync::Arc;
use tidegate_core::{Generation, LateAnswer, OpenCall, WorkClass};

/// One thing to do. The order of effects is part of the decision: do them one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Tell the shim that this request is about to be written. It must be on its way *before* the write that follows:
    /// a shim resends after a crash what was never marked, and reports what was.
    MarkForwarding {
        /// The shim's stream.
        stream: StreamId,
        /// The client's id of the request.
        id: RawId,
        /// Which line of the stream the request was, counted from 1; `None` for one that was reported as marked when the
        /// stream was resumed.
        line: Option<NonZero<u64>>,
        /// The class by which it is settled after a crash.
        class: WorkClass,
        /// The tool, or the method.
        tool: Arc<str>,
    },
    /// The first write of this generation that isn't read-only follows: the component's sticky mark must be durable
    /// before it.
    UnsafePossible {
        /// The generation.
        generation: Generation,
    },
    /// Write a line to the server.
    WriteServer {
        /// The line.
        line: Vec<u8>,
    },
    /// Send a line to a client.
    ToClient {
        /// Its stream.
        stream: StreamId,
        /// The line.
        line: Vec<u8>,
    },
    /// A call's outcome can't be known. Said exactly once per such call: for the checkpoint and the incident.
    Unknown(OpenCall),
    /// The client of a call that was written is gone, and it isn't read-only: whoever comes back has to be told.
    Detached(OpenCall),
    /// A call of which [`Effect::Detached`] was said has been answered after all.
    AnsweredLate {
        /// Which.
        call: OpenCall,
        /// How.
        answer: LateAnswer,
    },
    /// A call that was lost with its server has been written again.
    Replayed(OpenCall),
    /// The server says that a list has changed: ask for it again with [`Relay::own_request`](crate::Relay::own_request).
    ListChanged {
        /// Which.
        list: List,
    },
    /// The new generation offers other tools; the streams have been told to list them again.
    ToolsChanged {
        /// New names.
        added: Vec<String>,
        /// Names that are gone.
        removed: Vec<String>,
    },
    /// The answer to an own request.
    OwnAnswer {
        /// The tag it was made with.
        tag: String,
        /// The server's line.
        line: Vec<u8>,
    },
    /// Subscriptions or log level of this stream changed: must be durable before the answer that follows is sent.
    FactsChanged {
        /// The stream.
        stream: StreamId,
    },
}

/// What was dropped, and how often. For status, and for finding out why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers of the server to nothing that is waited for any more.
    pub late_answers: u64,
    /// Answers of clients to nothing the server waits for any more.
    pub late_client_answers: u64,
    /// Lines of the server that are no message.
    pub junk_lines: u64,
    /// Progress after the result, or with a token nobody gave.
    pub dropped_progress: u64,
    /// Notifications that belong to no session, or that came while nothing may reach the server.
    pub dropped_notifications: u64,
    /// Cancellations of nothing that is in flight.
    pub dropped_cancellations: u64,
}
