//! The actor of one component: owns its relay, its server and its connections, and does what the relay decides.
//!
//! It decides nothing about requests. A server that ends by itself is settled, proved dead and started again here;
//! everything else about its life is an operation's.

use super::component::{Handle, Msg, Proof, Resumed, Seen};
use super::context::{Context, grumble, of_component, say};
use super::outbox::Outbox;
use super::revive::{NotRevived, Revived, revive};
use super::start::STDERR_LINES;
use crate::config::ComponentConfig;
use crate::process::{Line, Server, ServerHandle, StopError, StopReport};
use crate::wire::{MESSAGE, Mark, Note, frame, note_frame};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tidegate_checkpoints::{Actions, Fact, Subscription};
use tidegate_core::{Generation, IncidentId, NextAction, SessionId};
use tidegate_governor::{ComponentState, Next, Supervision, Verified};
use tidegate_host::OsEntropy;
use tidegate_incidents::{IncidentKind, Report, Severity};
use tidegate_relay::{Effect, List, Pages, Relay, ServerFacts, StreamId, Unavailable};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Lines to the server that wait for its pipe. More than the gate admits, so that a request never waits here for room.
const TO_SERVER: usize = 4_096;
/// How long the output of a server that has exited is read on: what it wrote is in the pipe, and only a process that
/// outlives it keeps the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long the mark of a request may wait for a client that doesn't read, before that client is cut off.
const MARK_PATIENCE: Duration = Duration::from_millis(250);
/// When an idle actor looks at its clock.
const IDLE: Duration = Duration::from_secs(3_600);

/// A server that runs, or has just ended.
struct Up {
    stdout: crate::process::Lines<tokio::process::ChildStdout>,
    handle: ServerHandle,
    to_server: mpsc::Sender<Vec<u8>>,
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
}

pub(super) struct Actor {
    ctx: Arc<Context>,
    config: ComponentConfig,
    relay: Relay,
    inbox: mpsc::Receiver<Msg>,
    streams: BTreeMap<StreamId, Outbox>,
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
    last_stderr: String,
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
        config: ComponentConfig,
        relay: Relay,
        inbox: mpsc::Receiver<Msg>,
    ) -> Self {
        Self {
            ctx,
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
            last_stderr: String::new(),
        }
    }

    /// Runs until the daemon ends.
    pub(super) async fn run(mut self) {
        loop {
            match self.wake().await {
                Wake::Told(None) => return,
                Wake::Told(Some(msg)) => self.told(msg).await,
                Wake::ServerSaid(line) => self.server_said(line).await,
                Wake::ServerExited => self.server_ended().await,
                Wake::Ended(proof) => self.ended(proof).await,
                Wake::Revived(revived) => self.revived(revived).await,
                Wake::Tick => {
                    let effects = self.relay.tick(&self.ctx.now());
                    self.perform(effects).await;
                }
            }
        }
    }

    /// Waits for the next thing to do.
    ///
    /// # Cancel safety
    /// Every branch is: lines stay in their buffers, messages in the mailbox.
    async fn wake(&mut self) -> Wake {
        let now_ms = self.ctx.now().boot_ms;
        let tick =
            self.relay.next_deadline().map_or(IDLE, |at| Duration::from_millis(at.saturating_sub(now_ms)));
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

    async fn told(&mut self, msg: Msg) {
        let now = self.ctx.now();
        let effects = match msg {
            Msg::Opened { stream, session, outbox, resumed } => {
                self.streams.insert(stream, outbox);
                match resumed {
                    None => {
                        self.relay.stream_opened(stream, session);
                        Vec::new()
                    }
                    Some(Resumed { facts, marked }) => {
                        self.relay.stream_resumed(stream, session, facts, marked, &now)
                    }
                }
            }
            Msg::Line { stream, line } => self.relay.client_message(stream, line, &now),
            Msg::TooLong { stream, bytes } => self.relay.client_line_too_long(stream, b"", b"", bytes),
            Msg::Gone { stream } => {
                self.streams.remove(&stream);
                self.relay.stream_gone(stream, &now)
            }
            Msg::End { stream, message } => {
                if let Some(outbox) = self.streams.remove(&stream) {
                    let _ = outbox.send(note_frame(&Note::End { message })); // a client that is gone knows
                }
                self.relay.stream_gone(stream, &now)
            }
            Msg::Ready { server, facts, verified } => {
                let shown = self.install(*server, *facts).await;
                self.supervision = self.supervision.ready(&self.ctx.now());
                let _ = verified.send(shown); // who asked may have given up; the server serves all the same
                let about = of_component(&self.config.name);
                let recovered = self.ctx.incidents.recovered(IncidentKind::ComponentCrashed, &about).await;
                grumble("a recovery could not be recorded", recovered);
                Vec::new()
            }
            Msg::Stop { proof } => {
                self.stop(proof);
                Vec::new()
            }
            Msg::Hands { off, done } => {
                self.hands(off).await;
                let _ = done.send(()); // only the order matters
                Vec::new()
            }
            Msg::Unavailable { incident, message } => {
                self.unavailable = Some(incident.clone());
                self.relay.server_unavailable(Unavailable { incident, message }, &now)
            }
            Msg::Closed { operation } => self.relay.gate_closed(operation),
            Msg::Reopened => self.relay.gate_reopened(&now),
            Msg::Tell { line } => {
                let streams: Vec<StreamId> = self.relay.streams().map(|(stream, _)| stream).collect();
                streams.into_iter().map(|stream| Effect::ToClient { stream, line: line.clone() }).collect()
            }
            Msg::Look { seen } => {
                let _ = seen.send(self.look()); // who asked has given up
                Vec::new()
            }
        };
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
            last_stderr: handle.map_or_else(|| self.last_stderr.clone(), |h| h.stderr_tail(STDERR_LINES)),
            calls: self.relay.calls(&self.ctx.now()),
            sessions,
        }
    }

    /// A verified server serves from now on, as soon as the gate allows.
    async fn install(&mut self, server: Server, facts: ServerFacts) -> Verified {
        let Server { stdin, stdout, handle } = server;
        let (to_server, mut lines) = mpsc::channel::<Vec<u8>>(TO_SERVER);
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                // A pipe that fails means a server that has ended, which its exit tells; nothing more is written then.
                if stdin.write_line(&line).await.is_err() {
                    return;
                }
            }
        });
        self.up = Some(Up {
            stdout,
            handle,
            to_server,
            generation: facts.generation,
            reading: true,
            told_dead: false,
            ending: None,
            proofs: Vec::new(),
            crashed: false,
        });
        self.unavailable = None;
        let mut verified = Verified {
            tools: facts.lists.tools().len(),
            version: facts.initialize.server_version.clone(),
            ..Verified::default()
        };
        let effects = self.relay.server_ready(facts, &self.ctx.now());
        for effect in &effects {
            if let Effect::ToolsChanged { added, removed } = effect {
                verified.added.clone_from(added);
                verified.removed.clone_from(removed);
            }
        }
        self.perform(effects).await;
        verified
    }

    async fn server_said(&mut self, line: std::io::Result<Option<Line>>) {
        let now = self.ctx.now();
        let effects = match line {
            Ok(Some(Line::Whole(line))) => self.relay.server_line(line, &now),
            Ok(Some(Line::TooLong { bytes, head, tail })) => self.relay.server_line_too_long(
                &head,
                &tail,
                usize::try_from(bytes).unwrap_or(usize::MAX),
                &now,
            ),
            Ok(Some(Line::Torn { .. })) => Vec::new(),
            Ok(None) | Err(_) => {
                if let Some(up) = &mut self.up {
                    up.reading = false;
                }
                return self.server_ended().await;
            }
        };
        self.perform(effects).await;
    }

    /// The server has exited, or closed its output: nothing more is to be had from it.
    async fn server_ended(&mut self) {
        let grace = self.config.stop_grace;
        let Some(up) = &mut self.up else { return };
        if up.ending.is_none() {
            up.crashed = true;
            let handle = up.handle.clone();
            up.ending = Some(tokio::spawn(async move { handle.stop(grace).await }));
        }
        self.settle_dead().await;
    }

    /// Everything that it said has been read, then the relay settles what it left.
    async fn settle_dead(&mut self) {
        let until = tokio::time::Instant::now() + LAST_WORDS;
        loop {
            let Some(up) = self.up.as_mut().filter(|up| up.reading && !up.told_dead) else { break };
            match tokio::time::timeout_at(until, up.stdout.next()).await {
                Ok(Ok(Some(Line::Whole(line)))) => {
                    let effects = self.relay.server_line(line, &self.ctx.now());
                    self.perform(effects).await;
                }
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None) | Err(_)) | Err(_) => up.reading = false,
            }
        }
        let Some(up) = self.up.as_mut() else { return };
        up.reading = false;
        if !std::mem::replace(&mut up.told_dead, true) {
            self.pages.clear();
            let effects = self.relay.server_died(&self.ctx.now());
            self.perform(effects).await;
        }
    }

    fn stop(&mut self, proof: oneshot::Sender<Proof>) {
        let grace = self.config.stop_grace;
        match &mut self.up {
            Some(up) => {
                up.proofs.push(proof);
                let handle = up.handle.clone();
                up.ending.get_or_insert_with(|| tokio::spawn(async move { handle.stop(grace).await }));
            }
            None => drop(proof.send(Ok(()))), // who asked has given up
        }
    }

    /// The proof of the server's death, or that there is none.
    async fn ended(&mut self, proof: Result<StopReport, StopError>) {
        self.settle_dead().await;
        let Some(up) = self.up.take() else { return };
        self.last_stderr = up.handle.final_stderr(STDERR_LINES).await;
        let name = self.config.name.clone();
        match &proof {
            Ok(report) => {
                self.relay.server_proved_dead();
                if report.unclean {
                    let title = format!("{name} did not end by itself and had to be signalled");
                    let steps = report.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                    let mut unclean =
                        Report::new(IncidentKind::UncleanStop, of_component(&name), Severity::Info, title);
                    unclean.scope = Some(name.clone());
                    self.ctx
                        .report(&unclean.evidence("steps", steps).evidence("stderr", &self.last_stderr))
                        .await;
                }
                // An operation records the death itself; outside of one it is recorded here.
                if up.proofs.is_empty() && !self.hands_off {
                    let stopped =
                        self.ctx.components.stopped(&name, up.generation, ComponentState::Starting).await;
                    grumble("a server's death could not be recorded", stopped);
                }
            }
            Err(error) => {
                let incident = self.survived(error).await;
                if up.proofs.is_empty() {
                    self.unavailable = Some(incident.clone());
                    let why = Unavailable { incident, message: error.to_string() };
                    let effects = self.relay.server_unavailable(why, &self.ctx.now());
                    self.perform(effects).await;
                }
            }
        }
        let proved = proof.is_ok();
        let crashed = up.crashed && up.proofs.is_empty();
        let exit = up.handle.exited();
        for waiting in up.proofs {
            let answer = proof.as_ref().map(drop).map_err(ToString::to_string);
            let _ = waiting.send(answer); // who asked has given up
        }
        if crashed && proved {
            let how = exit.map_or_else(|| "closed its output".to_owned(), |exit| exit.to_string());
            self.try_again(format!("{name} {how}")).await;
        }
    }

    async fn survived(&self, error: &StopError) -> Option<IncidentId> {
        let name = &self.config.name;
        let title = format!("processes of {name} are still there after it was stopped: {error}");
        let mut report =
            Report::new(IncidentKind::TreeSurvived, of_component(name), Severity::Critical, title);
        report.scope = Some(name.clone());
        self.ctx.report(&report.evidence("stderr", &self.last_stderr)).await
    }

    /// Takes restarts of its own back, or allows them again.
    async fn hands(&mut self, off: bool) {
        self.hands_off = off;
        if off {
            if let Some(reviving) = self.reviving.take() {
                reviving.abort();
                let _ = reviving.await; // whatever it had started is on record, and stopped by whoever has the component now
            }
        } else if self.up.is_none() && self.reviving.is_none() && self.unavailable.is_none() {
            self.revive_after(Duration::ZERO);
        }
    }

    fn revive_after(&mut self, delay: Duration) {
        self.reviving = Some(tokio::spawn(revive(self.ctx.clone(), self.config.clone(), delay)));
    }

    async fn revived(&mut self, revived: Result<Revived, NotRevived>) {
        match revived {
            Ok(Revived { server, facts }) => {
                let (verified, _) = oneshot::channel();
                self.told(Msg::Ready { server, facts, verified }).await;
            }
            Err(NotRevived::Owned) => {}
            Err(NotRevived::Survived { incident, message }) => {
                self.unavailable = Some(incident.clone());
                let effects =
                    self.relay.server_unavailable(Unavailable { incident, message }, &self.ctx.now());
                self.perform(effects).await;
            }
            Err(NotRevived::Failed { message, stderr }) => {
                self.last_stderr.clone_from(&stderr);
                self.try_again(message).await;
            }
        }
    }

    /// It ended by itself, or did not start: an incident, and another try when it is time.
    async fn try_again(&mut self, message: String) {
        let name = self.config.name.clone();
        let (supervision, next) = self.supervision.failed(&self.ctx.now(), &OsEntropy);
        self.supervision = supervision;
        let (severity, after_ms) = match next {
            Next::Probe { after_ms } => (Severity::Critical, after_ms),
            Next::Restart { after_ms } => (Severity::Warning, after_ms),
            _ => (Severity::Critical, IDLE.as_secs() * 1_000),
        };
        let mut report =
            Report::new(IncidentKind::ComponentCrashed, of_component(&name), severity, message.as_str());
        report.scope = Some(name.clone());
        report.next_prompt = Some(format!(
            "{message}. It is started again by itself, in {} ms this time. If this goes on, read what it said (the evidence), \
             repair it, and look with `tidegate status`.",
            after_ms
        ));
        let incident = self.ctx.report(&report.evidence("stderr", &self.last_stderr)).await;
        if matches!(next, Next::Probe { .. }) || self.supervision.failures() >= FAILURES_UNTIL_TOLD {
            let why = Unavailable { incident, message };
            let effects = self.relay.server_unavailable(why, &self.ctx.now());
            self.perform(effects).await;
        }
        if !self.hands_off {
            self.revive_after(Duration::from_millis(after_ms));
        }
    }

    async fn perform(&mut self, effects: Vec<Effect>) {
        // What came of an effect is performed after it, before the effects that were already decided.
        let mut todo: std::collections::VecDeque<Effect> = effects.into();
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::MarkForwarding { stream, id, class, tool } => {
                    let Ok(id) = RawValue::from_string(id.as_json().to_owned()) else { continue };
                    let mark = Mark { tool: tool.to_string(), class };
                    self.send(stream, note_frame(&Note::Forwarding { id, mark }));
                    // The mark must be in the kernel's hands before the request is in the server's.
                    let waiting = self.streams.get(&stream).filter(|outbox| !outbox.is_drained()).cloned();
                    if let Some(outbox) = waiting
                        && tokio::time::timeout(MARK_PATIENCE, outbox.drained()).await.is_err()
                    {
                        self.streams.remove(&stream);
                    }
                }
                Effect::UnsafePossible { generation } => {
                    let marked = self.ctx.components.mark_unsafe(&self.config.name, generation).await;
                    grumble("the unsafe mark could not be recorded", marked);
                }
                Effect::WriteServer { line } => {
                    if let Some(up) = &self.up
                        && up.to_server.try_send(line).is_err()
                        && up.ending.is_none()
                    {
                        say(&format!(
                            "{} does not read its input; what it was sent may be lost",
                            self.config.name
                        ));
                    }
                }
                Effect::ToClient { stream, line } => self.send(stream, frame(MESSAGE, &line)),
                Effect::Unknown(call) => self.ctx.lost(&call).await,
                Effect::Replayed(call) => {
                    say(&format!(
                        "{} of {} was written again to {}",
                        call.tool, call.session, call.component
                    ));
                }
                Effect::ListChanged { list } => self.read_again(list, &mut todo),
                Effect::ToolsChanged { added, removed } => {
                    let component = self.config.name.clone();
                    let sessions: Vec<SessionId> =
                        self.relay.streams().map(|(_, session)| session.clone()).collect();
                    self.ctx
                        .act(
                            sessions,
                            &Actions::add([NextAction::RefreshTools { component, added, removed }]),
                        )
                        .await;
                }
                Effect::OwnAnswer { tag, line } => self.list_page(&tag, &line, &mut todo),
                Effect::FactsChanged { stream } => self.record_facts(stream).await,
                _ => {}
            }
        }
    }

    /// Sends a frame to a connection; one that doesn't take it is cut, and its end is told by its reader.
    fn send(&mut self, stream: StreamId, frame: Vec<u8>) {
        if let Some(outbox) = self.streams.get(&stream)
            && outbox.send(frame).is_err()
        {
            self.streams.remove(&stream);
        }
    }

    fn read_again(&mut self, list: List, todo: &mut std::collections::VecDeque<Effect>) {
        self.pages.insert(list.method().to_owned(), Pages::new(list));
        todo.extend(self.relay.own_request(list.method(), list.method(), "{}"));
    }

    fn list_page(&mut self, tag: &str, line: &[u8], todo: &mut std::collections::VecDeque<Effect>) {
        let Some(list) = List::ALL.into_iter().find(|list| list.method() == tag) else { return };
        let Some(mut pages) = self.pages.remove(tag) else { return };
        let Ok(message) = tidegate_relay::Message::parse(line.to_vec()) else { return };
        match message.result().map(|result| pages.add(result)) {
            Some(Ok(None)) => todo.extend(self.relay.set_list(list, pages.finish())),
            Some(Ok(Some(cursor))) => {
                self.pages.insert(tag.to_owned(), pages);
                todo.extend(self.relay.own_request(tag, tag, &format!(r#"{{"cursor":{cursor}}}"#)));
            }
            Some(Err(_)) | None => {}
        }
    }

    /// What a connection asked the server to remember becomes durable.
    async fn record_facts(&self, stream: StreamId) {
        let Some(session) =
            self.relay.streams().find(|(it, _)| *it == stream).map(|(_, session)| session.clone())
        else {
            return;
        };
        let component = self.config.name.clone();
        let before =
            grumble("a session could not be read", self.ctx.checkpoints.get(&session).await).flatten();
        let now = self.relay.facts(stream);
        let mut facts: Vec<Fact> = Vec::new();
        for old in before.iter().flat_map(|c| &c.subscriptions).filter(|s| s.component == component) {
            if !now.subscriptions.contains(&old.uri) {
                facts.push(Fact::Unsubscribed(old.clone()));
            }
        }
        facts.extend(
            now.subscriptions
                .into_iter()
                .map(|uri| Fact::Subscribed(Subscription { component: component.clone(), uri })),
        );
        facts.extend(now.log_level.map(|level| Fact::LogLevel { component, level }));
        grumble(
            "a session's subscriptions could not be recorded",
            self.ctx.checkpoints.record(&session, &facts).await,
        );
    }
}

/// After so many failures in a row sessions are told, instead of waiting for the next try.
const FAILURES_UNTIL_TOLD: u32 = 3;

/// The future, where there is one.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Starts the actor of a component.
pub(super) fn start(ctx: Arc<Context>, config: ComponentConfig, relay: Relay) -> Handle {
    let (handle, inbox) = Handle::new(relay.gate().clone());
    tokio::spawn(Actor::new(ctx, config, relay, inbox).run());
    handle
}
