//! A server of a component as the rest of the daemon sees it: a mailbox. What happens to a message is the actor's.

use super::outbox::Outbox;
use super::seat::Seat;
use crate::config::ComponentConfig;
use crate::marks::Marks;
use crate::process::Server;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_core::{CallState, ComponentName, Generation, IncidentId, OpenCall, OperationId, SessionId};
use tidegate_drain::Gate;
use tidegate_governor::Verified;
use tidegate_relay::{Introduction, Marked, RelayConfig, ServerFacts, StreamFacts, StreamId};
use tokio::sync::{mpsc, oneshot};

/// Messages that wait for the actor. Connections wait for room one by one, so that none crowds out the others.
const MAILBOX: usize = 256;

/// What the actor is told.
pub(super) enum Msg {
    /// A connection has been attached to a session.
    Opened { stream: StreamId, session: SessionId, peer: Peer, resumed: Option<Resumed> },
    /// What became of a call that an earlier daemon had begun to forward: its late answer, where there is one.
    Reported { stream: StreamId, session: SessionId, call: Box<Marked>, answer: Option<Vec<u8>> },
    /// A connection said something.
    Line { stream: StreamId, line: Vec<u8> },
    /// A connection said too much at once.
    TooLong { stream: StreamId, head: Vec<u8>, tail: Vec<u8>, bytes: usize },
    /// A connection is gone; answered when what it has left is on record.
    Gone { stream: StreamId, done: oneshot::Sender<()> },
    /// The session is another client's, or nobody's any more: as [`Msg::Gone`], and the shim is told not to come back.
    End { stream: StreamId, message: String, done: oneshot::Sender<()> },
    /// A new generation has been verified.
    Ready { server: Box<Server>, facts: Box<ServerFacts>, verified: oneshot::Sender<Verified> },
    /// End the server, if there is one; the answer is the proof.
    Stop { proof: oneshot::Sender<Proof> },
    /// It is configured otherwise from now on; no server runs.
    Configured { config: Box<ComponentConfig>, relay: Box<RelayConfig> },
    /// Every restart of its own is over or has not begun; `Resume` allows them again.
    Hands { off: bool, done: oneshot::Sender<()> },
    /// There is no server and won't be one by itself.
    Unavailable { incident: Option<IncidentId>, message: String },
    /// What a server that an operation started had said when it was stopped before it was ready.
    LastWords { stderr: String },
    /// The gate was closed for this operation.
    Closed { operation: Option<OperationId> },
    /// The gate was opened.
    Reopened,
    /// Send this line to every connection past its handshake, of these sessions or of all.
    Tell { line: Vec<u8>, to: Option<BTreeSet<SessionId>> },
    /// The session whose own server this is has ended.
    Over,
    /// What is in flight.
    Look { seen: oneshot::Sender<Seen> },
}

/// The way to a shim: what it is told, and what it finds when nobody tells it anything any more.
pub(super) struct Peer {
    pub(super) outbox: Outbox,
    pub(super) marks: Marks,
}

/// That nothing of a server lives any more, and which one it was, by its nonce, where there was one; or why that can't be said.
pub(super) type Proof = Result<Option<String>, String>;

/// A stream that an earlier daemon served.
pub(super) struct Resumed {
    /// How its client has introduced itself.
    pub(super) initialize: Option<Vec<u8>>,
    pub(super) facts: StreamFacts,
    pub(super) marked: Vec<Marked>,
}

/// What an actor shows of itself.
pub(super) struct Seen {
    pub(super) pid: Option<u32>,
    pub(super) generation: Generation,
    pub(super) held: usize,
    /// Calls are answered that there is no server.
    pub(super) unavailable: bool,
    pub(super) last_stderr: String,
    /// What the server has written to stderr in all.
    pub(super) stderr_bytes: u64,
    /// Lines of servers' standard output that were no message, and were skipped.
    pub(super) skipped_lines: u64,
    /// For whom a server is to be started, where it is one session's own.
    pub(super) wanted: Option<Introduction>,
    /// There is no server and nobody to start one for.
    pub(super) is_idle: bool,
    pub(super) calls: Vec<(OpenCall, CallState)>,
    pub(super) sessions: Vec<SessionId>,
}

/// The mailbox of one component. Cheap to clone.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) name: ComponentName,
    pub(super) seat: Arc<Seat>,
    pub(super) gate: Gate,
    mailbox: mpsc::Sender<Msg>,
}

impl Handle {
    pub(super) fn new(seat: Arc<Seat>, gate: Gate) -> (Self, mpsc::Receiver<Msg>) {
        let (mailbox, inbox) = mpsc::channel(MAILBOX);
        (Self { name: seat.component.clone(), seat, gate, mailbox }, inbox)
    }

    /// Tells an actor that nobody else knows of yet: there is room in its mailbox.
    pub(super) fn tell_first(&self, msg: Msg) {
        let _ = self.mailbox.try_send(msg); // as with `tell`
    }

    /// Whether so many have this handle, and no more.
    pub(super) fn is_shared_by(&self, holders: usize) -> bool {
        self.mailbox.strong_count() <= holders
    }

    /// Tells the actor. One that has ended, with the daemon, hears nothing.
    pub(super) async fn tell(&self, msg: Msg) {
        let _ = self.mailbox.send(msg).await;
    }

    /// Tells the actor and waits for its answer; `None` when it has ended with the daemon.
    pub(super) async fn ask<T>(&self, msg: impl FnOnce(oneshot::Sender<T>) -> Msg) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        self.tell(msg(sender)).await;
        answer.await.ok()
    }
}
