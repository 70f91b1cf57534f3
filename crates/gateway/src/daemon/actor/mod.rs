//! The actor of one server's place, a component's or a session's own: owns its relay, its server and its connections, and does what the relay decides.
//!
//! It decides nothing about requests. A server that ends by itself is settled, proved dead and started again here;
//! everything else about its life is an operation's.

mod effects;
mod inlet;
mod life;
mod own;

use super::component::{Handle, Msg, Peer, Proof, Resumed, Seen};
use super::context::{Context, grumble, of_component};
use super::liveness::Liveness;
use super::revive::{NotRevived, Revived};
use super::seat::Seat;
use super::start::STDERR_LINES;
use crate::config::ComponentConfig;
use crate::lines::{Line, Lines};
use crate::process::{ServerHandle, ServerStdout, StopError, StopReport};
use crate::wire::{Note, note_frame};
use inlet::Inlet;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{Generation, IncidentId, SessionId};
use tidegate_governor::Supervision;
use tidegate_incidents::IncidentKind;
use tidegate_relay::{Effect, List, Message, Pages, Relay, StreamId, Unavailable};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// When an idle actor looks at its clock.
const IDLE: Duration = Duration::from_secs(3_600);

/// A server that runs, or has just ended.
struct Up {
    stdout: Lines<ServerStdout>,
    handle: ServerHandle,
    /// Gone once nothing more is to be written.
    inlet: Option<Inlet>,
    generation: Generation,
    /// Its output has not ended.
    reading: bool,
    /// The relay has been told that it is dead.
    told_dead: bool,
    /// Set as soon as it is to end, or has begun to by itself.
    ending: Option<JoinHandle<Result<StopReport, StopError>>>,
    /// Who waits for the proof.
    proofs: Vec<oneshot::Sender<Proof>>,
    /// It ended by itself.
    crashed: bool,
    liveness: Liveness,
}

pub(super) struct Actor {
    ctx: Arc<Context>,
    seat: Arc<Seat>,
    config: ComponentConfig,
    relay: Relay,
    inbox: mpsc::Receiver<Msg>,
    streams: BTreeMap<StreamId, Peer>,
    up: Option<Up>,
    /// A start of its own that is under way, or waits for its time.
    reviving: Option<JoinHandle<Result<Revived, NotRevived>>>,
    supervision: Supervision,
    /// An operation has the component.
    hands_off: bool,
    /// It is unavailable until an operation, or a probe, brings it back.
    unavailable: Option<Option<IncidentId>>,
    /// Lists that are being read again, page by page.
    pages: BTreeMap<String, Pages>,
    /// Lists that have changed since.
    stale: BTreeSet<List>,
    last_stderr: String,
    /// What the last server that was ready stated as its version.
    version: Option<String>,
    /// Since when a session's own server has had no connection.
    alone_since_ms: Option<u64>,
    /// Its session has ended.
    over: bool,
}

/// What woke the actor.
enum Wake {
    Told(Option<Msg>),
    ServerSaid(std::io::Result<Option<Line>>),
    ServerExited,
    Ended(Result<StopReport, StopError>),
    Revived(Result<Revived, NotRevived>),
    Tick,
}

impl Actor {
    pub(super) fn new(
        ctx: Arc<Context>,
        seat: Arc<Seat>,
        config: ComponentConfig,
        relay: Relay,
        inbox: mpsc::Receiver<Msg>,
    ) -> Self {
        Self {
            ctx,
            seat,
            config,
            relay,
            inbox,
            streams: BTreeMap::new(),
            up: None,
            reviving: None,
            supervision: Supervision::new(),
            hands_off: true,
            unavailable: None,
            pages: BTreeMap::new(),
            stale: BTreeSet::new(),
            last_stderr: String::new(),
            version: None,
            alone_since_ms: None,
            over: false,
        }
    }

    /// Runs until the daemon ends.
    pub(super) async fn run(mut self) {
        loop {
            let woken = self.wake().await;
            self.look_at_leases().await;
            match woken {
                Wake::Told(None) => return,
                Wake::Told(Some(msg)) => self.told(msg).await,
                Wake::ServerSaid(line) => self.server_said(line).await,
                Wake::ServerExited => self.server_ended().await,
                Wake::Ended(proof) => self.ended(proof).await,
                Wake::Revived(revived) => self.revived(revived).await,
                Wake::Tick => {
                    let effects = self.relay.tick(&self.ctx.now());
                    self.perform(effects).await;
                    self.look_for_life().await;
                }
            }
            self.attend();
        }
    }

    /// Waits for the next thing to do.
    ///
    /// # Cancel safety
    /// Every branch is: lines stay in their buffers, messages in the mailbox.
    async fn wake(&mut self) -> Wake {
        let now_ms = self.ctx.now().boot_ms;
        let life = self.up.as_ref().filter(|up| up.ending.is_none()).map(|up| up.liveness.due_ms());
        let due = self.relay.next_deadline().into_iter().chain(life).chain(self.rest_due_ms(now_ms)).min();
        let tick = due.map_or(IDLE, |at| Duration::from_millis(at.saturating_sub(now_ms)));
        let Self { inbox, up, reviving, .. } = self;
        let (mut said, mut exited, mut ended) = (None, None, None);
        if let Some(Up { stdout, handle, reading, ending, .. }) = up {
            said = reading.then(|| stdout.next());
            match ending {
                Some(ending) => ended = Some(ending),
                None => exited = Some(handle.exit()),
            }
        }
        tokio::select! {
            line = or_never(said) => Wake::ServerSaid(line),
            msg = inbox.recv() => Wake::Told(msg),
            _ = or_never(exited) => Wake::ServerExited,
            proof = or_never(ended) => Wake::Ended(proof.unwrap_or_else(|e| Err(StopError::cut_short(&e)))),
            revived = or_never(reviving.as_mut()) => {
                *reviving = None;
                Wake::Revived(revived.unwrap_or_else(|e| Err(NotRevived::broken(&e))))
            }
            () = tokio::time::sleep(tick) => Wake::Tick,
        }
    }

    /// Tells the relay who holds which lease, where that decides anything: whatever comes next may release what it holds.
    async fn look_at_leases(&mut self) {
        if !self.relay.asks_for_leases() {
            return;
        }
        // Unless it can be read, nobody holds any.
        let held = grumble("the leases can't be read", self.ctx.leases.held().await);
        self.relay.leases_are(held.unwrap_or_default());
    }

    async fn told(&mut self, msg: Msg) {
        let now = self.ctx.now();
        let effects = match msg {
            Msg::Opened { stream, session, peer, resumed } => {
                self.streams.insert(stream, peer);
                self.over = false;
                match resumed {
                    None => {
                        self.relay.stream_opened(stream, session);
                        Vec::new()
                    }
                    Some(Resumed { initialize, facts, marked }) => {
                        let said = initialize.and_then(|line| Message::parse(line).ok());
                        said.iter().for_each(|initialize| self.relay.introduced(initialize));
                        self.relay.stream_resumed(stream, session, facts, marked, &now)
                    }
                }
            }
            Msg::Reported { stream, session, call, answer } => {
                self.relay.reported(stream, &session, *call, answer, &now)
            }
            Msg::Line { stream, line } => self.relay.client_message(stream, line, &now),
            Msg::TooLong { stream, head, tail, bytes } => {
                // Behind its tag, which is the wire's.
                self.relay.client_line_too_long(stream, head.get(1..).unwrap_or_default(), &tail, bytes)
            }
            Msg::Gone { stream, done } => {
                self.streams.remove(&stream);
                self.left(stream).await;
                let _ = done.send(()); // only the order matters
                Vec::new()
            }
            Msg::End { stream, message, done } => {
                let peer = self.streams.remove(&stream);
                self.left(stream).await;
                if let Some(Peer { outbox, .. }) = peer {
                    let _ = outbox.send(note_frame(&Note::End { message })); // a client that is gone knows
                }
                let _ = done.send(()); // as above
                Vec::new()
            }
            Msg::Ready { server, facts, verified } => {
                let shown = self.install(*server, *facts).await;
                self.supervision = self.supervision.ready(&self.ctx.now());
                let _ = verified.send(shown); // who asked may have given up; the server serves all the same
                let about = of_component(&self.seat.record);
                let how = format!("generation {} is ready", self.relay.generation());
                let recovered =
                    self.ctx.incidents.recovered(IncidentKind::ComponentCrashed, &about, &how).await;
                grumble("a recovery could not be recorded", recovered);
                Vec::new()
            }
            Msg::Stop { proof } => {
                self.stop(proof);
                Vec::new()
            }
            Msg::Configured { config, relay } => {
                self.config = *config;
                self.relay.reconfigure(*relay);
                Vec::new()
            }
            Msg::Hands { off, done } => {
                self.hands(off).await;
                let _ = done.send(()); // only the order matters
                Vec::new()
            }
            Msg::Unavailable { incident, message } => {
                self.unavailable = Some(incident.clone());
                self.supervision = self.supervision.given_up();
                self.relay.server_unavailable(Unavailable { incident, message }, &now)
            }
            Msg::LastWords { stderr } => {
                self.last_stderr = stderr;
                Vec::new()
            }
            Msg::Closed { operation } => self.relay.gate_closed(operation),
            Msg::Reopened => {
                let mut effects = self.relay.gate_reopened(&now);
                effects.extend(self.read_stale());
                effects
            }
            Msg::Tell { line, to } => {
                let concerned = |session: &SessionId| to.as_ref().is_none_or(|to| to.contains(session));
                let streams = self.relay.streams().filter(|(_, session)| concerned(session));
                streams.map(|(stream, _)| Effect::ToClient { stream, line: line.clone() }).collect()
            }
            Msg::Over => {
                self.over = true;
                Vec::new()
            }
            Msg::Look { seen } => {
                let _ = seen.send(self.look()); // who asked has given up
                Vec::new()
            }
        };
        self.perform(effects).await;
    }

    /// Nobody is behind a stream any more: what it has left is on record before anybody else comes in that session.
    async fn left(&mut self, stream: StreamId) {
        let effects = self.relay.stream_gone(stream, &self.ctx.now());
        self.perform(effects).await;
    }

    fn look(&self) -> Seen {
        let mut sessions: Vec<SessionId> = self.relay.streams().map(|(_, session)| session.clone()).collect();
        sessions.sort();
        sessions.dedup();
        let handle = self.up.as_ref().map(|up| &up.handle);
        Seen {
            pid: handle.filter(|h| h.exited().is_none()).map(|h| h.identity().pid),
            generation: self.relay.generation(),
            held: self.relay.held(),
            unavailable: self.relay.is_unavailable(),
            last_stderr: handle.map_or_else(|| self.last_stderr.clone(), |h| h.stderr_tail(STDERR_LINES)),
            stderr_bytes: handle.map_or(0, ServerHandle::stderr_bytes),
            skipped_lines: handle.map_or(0, ServerHandle::junk_lines) + self.relay.counters().junk_lines,
            wanted: self.wanted().cloned(),
            is_idle: self.up.is_none() && self.reviving.is_none() && self.is_alone(),
            calls: self.relay.calls(),
            sessions,
        }
    }
}

/// The future, where there is one.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Starts the actor of a server's place.
pub(super) fn start(ctx: Arc<Context>, seat: Arc<Seat>, config: ComponentConfig, relay: Relay) -> Handle {
    let (handle, inbox) = Handle::new(seat.clone(), relay.gate().clone());
    tokio::spawn(Actor::new(ctx, seat, config, relay, inbox).run());
    handle
}
