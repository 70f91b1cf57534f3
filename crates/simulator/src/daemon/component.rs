//! A component as the rest of the daemon sees it: a mailbox. What happens to a message is the actor's.

use super::revive::{NotRevived, Revived};
use crate::channel::{Receiver, Sender, channel};
use crate::world::{KeptCall, Said};
use std::sync::Arc;
use tidegate_core::{
    CallState, ComponentName, Generation, IncidentId, OpenCall, OperationId, ProcessIdentity, SessionId,
    WorkClass,
};
use tidegate_drain::Gate;
use tidegate_governor::Verified;
use tidegate_relay::{Marked, RawId, ServerFacts, StreamFacts, StreamId};

/// What the actor is told.
pub(super) enum Msg {
    /// A connection has been attached to a session.
    Opened { stream: StreamId, session: SessionId, outbox: Outbox, resumed: Option<Resumed> },
    /// What became of a call that an earlier daemon had begun to forward: its late answer, where there is one.
    Reported { stream: StreamId, session: SessionId, call: Box<Marked>, answer: Option<Vec<u8>> },
    /// A connection said something.
    Line { stream: StreamId, line: Vec<u8> },
    /// A connection is gone; answered when what it has left is on record.
    Gone { stream: StreamId, done: Sender<()> },
    /// The session is somebody else's now, or nobody's: as [`Msg::Gone`], and the shim is told not to come back.
    End { stream: StreamId, id: String, session: SessionId, done: Sender<()> },
    /// The server wrote something, or nothing more.
    Server { pid: u32, said: Said },
    /// Whether the server is proved dead.
    Proved { pid: u32, proof: Proof },
    /// What came of a start of its own.
    Revived { attempt: u64, revived: Result<Revived, NotRevived> },
    /// A new generation has been verified.
    Ready { server: ProcessIdentity, facts: Box<ServerFacts>, verified: Sender<Verified> },
    /// End the server, if there is one; the answer is the proof.
    Stop { governed: bool, proof: Sender<Proof> },
    /// Every restart of its own is over or has not begun, or they are allowed again.
    Hands { off: bool, done: Sender<()> },
    /// There is no server and won't be one by itself.
    Unavailable { incident: Option<IncidentId>, message: String },
    /// The gate was closed for this operation.
    Closed { operation: Option<OperationId> },
    /// The gate was opened.
    Reopened,
    /// Send this line to every connection.
    Tell { line: Vec<u8> },
    /// What is in flight.
    Look { seen: Sender<Seen> },
}

/// That nothing of a server lives any more, or why that can't be said.
pub(super) type Proof = Result<(), String>;

/// A stream that an earlier daemon served.
pub(super) struct Resumed {
    pub(super) facts: StreamFacts,
    pub(super) marked: Vec<Marked>,
}

/// What an actor shows of itself.
pub(super) struct Seen {
    pub(super) generation: Generation,
    pub(super) calls: Vec<(OpenCall, CallState)>,
    pub(super) sessions: Vec<SessionId>,
}

/// The mailbox of one component. Cheap to clone.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) name: ComponentName,
    pub(super) gate: Gate,
    mailbox: Sender<Msg>,
}

impl Handle {
    pub(super) fn new(gate: Gate) -> (Self, Receiver<Msg>) {
        let (mailbox, inbox) = channel();
        (Self { name: gate.component().clone(), gate, mailbox }, inbox)
    }

    /// Tells the actor.
    pub(super) fn tell(&self, msg: Msg) {
        self.mailbox.send(msg);
    }

    /// Tells the actor and waits for its answer; `None` when it has ended with the daemon.
    pub(super) async fn ask<T>(&self, msg: impl FnOnce(Sender<T>) -> Msg) -> Option<T> {
        let (sender, mut answer) = channel();
        self.tell(msg(sender));
        answer.recv().await
    }
}

/// What a daemon that dies leaves with the shim of a request.
#[derive(Clone)]
pub(crate) struct Mark {
    pub(crate) class: WorkClass,
    pub(crate) tool: String,
    /// How its server knows it.
    pub(crate) call: Option<KeptCall>,
}

/// What a shim hears of its daemon.
pub(crate) enum ToShim {
    /// It serves this session.
    Welcome(SessionId),
    /// It doesn't; try again where that may help.
    Refused { retry: bool },
    /// A message for the client.
    Line(Vec<u8>),
    /// This request is about to be written to the server.
    Forwarding { id: RawId, mark: Mark },
    /// Don't come back.
    End,
    /// The connection is gone.
    Lost,
}

/// The way to a shim. When the last clone goes, the connection does.
#[derive(Clone)]
pub(crate) struct Outbox(Arc<Wire>);

struct Wire {
    /// Tells the connections of one shim apart.
    connection: u64,
    shim: Sender<(u64, ToShim)>,
}

impl Outbox {
    pub(crate) fn new(connection: u64, shim: Sender<(u64, ToShim)>) -> Self {
        Self(Arc::new(Wire { connection, shim }))
    }

    pub(super) fn send(&self, what: ToShim) {
        self.0.shim.send((self.0.connection, what));
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shim.send((self.connection, ToShim::Lost));
    }
}
