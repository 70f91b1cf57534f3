//! The actor of one component: owns its relay, its server and its connections, and does what the relay decides. Composed as
//! the gateway's; what happens to the server is in `life`, what the relay wants done in `effects`.

use super::component::{Handle, Msg, Outbox, Proof, Resumed, Seen};
use super::context::{Context, of_component};
use crate::channel::{Receiver, Sender};
use crate::observe;
use crate::story::ComponentPlan;
use crate::world::Said;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tidegate_core::{Generation, IncidentId, ProcessIdentity, SessionId, Timer as _};
use tidegate_governor::Supervision;
use tidegate_incidents::IncidentKind;
use tidegate_relay::{Effect, Pages, Relay, StreamId, Unavailable};

/// A server that runs, or has just ended.
pub(super) struct Up {
    pub(super) server: ProcessIdentity,
    pub(super) generation: Generation,
    /// Lines that its pipe took nothing of, because it had ended.
    pub(super) unwritten: Vec<Vec<u8>>,
    /// The relay has been told that it is dead.
    pub(super) told_dead: bool,
    /// It is to end, or has begun to by itself.
    pub(super) ending: bool,
    /// Who waits for the proof.
    pub(super) proofs: Vec<Sender<Proof>>,
    /// It ended by itself.
    pub(super) crashed: bool,
}

pub(super) struct Actor {
    pub(super) ctx: Arc<Context>,
    pub(super) plan: ComponentPlan,
    pub(super) relay: Relay,
    pub(super) own: Handle,
    pub(super) streams: BTreeMap<StreamId, Outbox>,
    pub(super) up: Option<Up>,
    /// A start of its own that is under way: its number and its task.
    pub(super) reviving: Option<(u64, usize)>,
    pub(super) attempts: u64,
    pub(super) supervision: Supervision,
    /// An operation has the component.
    pub(super) hands_off: bool,
    /// It is unavailable until an operation, or a probe, brings it back.
    pub(super) unavailable: Option<Option<IncidentId>>,
    pub(super) pages: BTreeMap<String, Pages>,
}

/// Starts the actor of a component.
pub(super) fn start(ctx: &Arc<Context>, plan: ComponentPlan, relay: Relay) -> Handle {
    let (handle, inbox) = Handle::new(relay.gate().clone());
    let actor = Actor {
        ctx: ctx.clone(),
        plan,
        relay,
        own: handle.clone(),
        streams: BTreeMap::new(),
        up: None,
        reviving: None,
        attempts: 0,
        supervision: Supervision::new(),
        hands_off: true,
        unavailable: None,
        pages: BTreeMap::new(),
    };
    ctx.world.executor.spawn(ctx.group, actor.run(inbox));
    handle
}

impl Actor {
    /// Runs until the daemon dies.
    async fn run(mut self, mut inbox: Receiver<Msg>) {
        loop {
            let told = self.next(&mut inbox).await;
            self.look_at_leases().await;
            match told {
                Some(msg) => self.told(msg).await,
                None => {
                    let effects = self.relay.tick(&self.ctx.now());
                    self.perform(effects).await;
                }
            }
        }
    }

    /// The next message; `None` when the relay's time has come first.
    async fn next(&self, inbox: &mut Receiver<Msg>) -> Option<Msg> {
        let alarm = self.relay.next_deadline();
        let mut alarm = alarm.map(|at_ms| self.ctx.world.clock.sleep_until(at_ms));
        let mut msg = pin!(inbox.recv());
        poll_fn(|context| {
            if let Poll::Ready(msg) = msg.as_mut().poll(context) {
                return Poll::Ready(msg);
            }
            let rung = alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(context).is_ready());
            if rung { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Tells the relay who holds which lease, where that decides anything: whatever comes next may release what it holds.
    async fn look_at_leases(&mut self) {
        if !self.relay.asks_for_leases() {
            return;
        }
        let component = self.plan.name.clone();
        self.ctx.world.see(observe::Seen::LeasesLookedAt { component: component.clone() });
        // Unless it can be read, nobody holds any.
        let held = self.ctx.grumble("the leases can't be read", self.ctx.leases.held().await);
        if held.is_none() {
            self.ctx.world.see(observe::Seen::LeasesUnread { component });
        }
        self.relay.leases_are(held.unwrap_or_default());
    }

    /// Nobody is behind a stream any more: what it has left is on record before anybody else comes in that session.
    async fn left(&mut self, stream: StreamId) {
        let effects = self.relay.stream_gone(stream, &self.ctx.now());
        self.perform(effects).await;
    }

    pub(super) async fn told(&mut self, msg: Msg) {
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
            Msg::Reported { stream, session, call, answer } => {
                let answered = answer.as_deref().and_then(observe::answered_by);
                answered.into_iter().for_each(|call| self.ctx.world.see(observe::Seen::AnswerRead { call }));
                self.relay.reported(stream, &session, *call, answer, &now)
            }
            Msg::Line { stream, line } => self.relay.client_message(stream, line, &now),
            Msg::Gone { stream, done } => {
                self.streams.remove(&stream);
                self.left(stream).await;
                done.send(());
                Vec::new()
            }
            Msg::End { stream, id, session, done } => {
                let component = self.plan.name.clone();
                self.ctx.world.see(observe::Seen::Cut { id, session, component });
                let outbox = self.streams.remove(&stream);
                self.left(stream).await;
                outbox.into_iter().for_each(|outbox| outbox.send(super::ToShim::End));
                done.send(());
                Vec::new()
            }
            Msg::Server { pid, said } if self.is_up(pid) => match said {
                Said::Line(line) => {
                    if let Some(call) = observe::answered_by(&line) {
                        self.ctx.world.see(observe::Seen::AnswerRead { call });
                    }
                    let effects = self.relay.server_line(line, &now);
                    // What it has answered isn't running any more.
                    self.ctx.world.ended(pid, |id| self.relay.is_flying(id));
                    effects
                }
                Said::End => {
                    self.server_ended().await;
                    Vec::new()
                }
            },
            Msg::Server { .. } => Vec::new(),
            Msg::Proved { pid, proof } => {
                if self.is_up(pid) {
                    self.ended(proof).await;
                }
                Vec::new()
            }
            Msg::Revived { attempt, revived } => {
                if self.reviving.take_if(|(current, _)| *current == attempt).is_some() {
                    self.revived(revived).await;
                }
                Vec::new()
            }
            Msg::Ready { server, facts, verified } => {
                let shown = self.install(server, *facts).await;
                self.supervision = self.supervision.ready(&self.ctx.now());
                verified.send(shown);
                let about = of_component(&self.plan.name);
                let recovered =
                    self.ctx.incidents.recovered(IncidentKind::ComponentCrashed, &about, "it is ready").await;
                self.ctx.grumble("a recovery could not be recorded", recovered);
                Vec::new()
            }
            Msg::Stop { governed, proof } => {
                self.stop(governed, proof);
                Vec::new()
            }
            Msg::Hands { off, done } => {
                self.hands(off);
                done.send(());
                Vec::new()
            }
            Msg::Unavailable { incident, message } => {
                self.unavailable = Some(incident.clone());
                self.supervision = self.supervision.given_up();
                self.relay.server_unavailable(Unavailable { incident, message }, &now)
            }
            Msg::Closed { operation } => self.relay.gate_closed(operation),
            Msg::Reopened => self.relay.gate_reopened(&now),
            Msg::Tell { line } => {
                let streams: Vec<StreamId> = self.relay.streams().map(|(stream, _)| stream).collect();
                streams.into_iter().map(|stream| Effect::ToClient { stream, line: line.clone() }).collect()
            }
            Msg::Look { seen } => {
                seen.send(self.look());
                Vec::new()
            }
        };
        self.perform(effects).await;
    }

    fn is_up(&self, pid: u32) -> bool {
        self.up.as_ref().is_some_and(|up| up.server.pid == pid)
    }

    fn look(&self) -> Seen {
        let mut sessions: Vec<SessionId> = self.relay.streams().map(|(_, session)| session.clone()).collect();
        sessions.sort();
        sessions.dedup();
        Seen { generation: self.relay.generation(), calls: self.relay.calls(), sessions }
    }
}
