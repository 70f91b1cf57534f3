//! Doing what the relay decides, in its order. Decides nothing itself.

use super::actor::Actor;
use super::component::{Mark, ToShim};
use crate::observe::Seen;
use crate::world::KeptCall;
use std::collections::VecDeque;
use tidegate_checkpoints::{Actions, Fact, Subscription};
use tidegate_core::{Generation, NextAction, SessionId};
use tidegate_governor::ComponentError;
use tidegate_relay::{Effect, List, Message, Pages, StreamId, Writing};

impl Actor {
    pub(super) async fn perform(&mut self, effects: Vec<Effect>) {
        let decided = self.ctx.world.step();
        let mut writing = Writing::default();
        // What came of an effect is performed after it, before the effects that were already decided.
        let mut todo: VecDeque<Effect> = effects.into();
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::MarkForwarding { stream, id, class, tool, .. } => {
                    let upstream = self.relay.upstream_id(stream, &id);
                    let call = self.kept_call(upstream);
                    let mark = Mark { class, tool: tool.to_string(), call };
                    writing.forwarding(class, upstream, self.send(stream, ToShim::Forwarding { id, mark }));
                }
                Effect::UnsafePossible { generation } => {
                    writing.unsafe_possible(self.mark_unsafe(generation).await);
                }
                Effect::WriteServer { line } => {
                    if let Some((line, call)) = writing.line(line) {
                        self.write(line, call, decided);
                    }
                }
                Effect::ToClient { stream, line } => drop(self.send(stream, ToShim::Line(line))),
                Effect::Unknown(call) => self.ctx.lost(&call).await,
                Effect::Detached(call) => self.ctx.detached(&call).await,
                Effect::AnsweredLate { call, answer } => self.ctx.answered_late(&call, answer).await,
                Effect::Replayed(call) => {
                    self.ctx.say(format!("{} of {} was written again", call.tool, call.session));
                }
                Effect::ListChanged { list } => {
                    self.pages.insert(list.method().to_owned(), Pages::new(list));
                    todo.extend(self.relay.own_request(list.method(), list.method(), "{}"));
                }
                Effect::ToolsChanged { added, removed } => {
                    let component = self.plan.name.clone();
                    let sessions: Vec<SessionId> =
                        self.relay.streams().map(|(_, session)| session.clone()).collect();
                    let news = Actions::add([NextAction::RefreshTools { component, added, removed }]);
                    self.ctx.act(sessions, &news).await;
                }
                Effect::OwnAnswer { tag, line } => self.list_page(&tag, &line, &mut todo),
                Effect::FactsChanged { stream } => self.record_facts(stream).await,
                _ => {}
            }
        }
        for line in writing.unwritten() {
            self.relay.never_written(&line);
        }
    }

    /// Nothing unsafe is written before this is durable: a successor would kill the server in the middle of it. `false`
    /// when the store has failed; a generation that is over is written nothing that counts.
    async fn mark_unsafe(&mut self, generation: Generation) -> bool {
        let marked = self.ctx.components.mark_unsafe(&self.plan.name, generation).await;
        let failed = matches!(marked, Err(ComponentError::Store(_)));
        self.ctx.grumble("the unsafe mark could not be recorded", marked);
        if failed {
            self.ctx.world.see(Seen::NotMarked { component: self.plan.name.clone() });
            self.relay.unsafe_not_marked(&self.ctx.now());
        }
        !failed
    }

    /// How the server knows a call.
    fn kept_call(&self, upstream: Option<u64>) -> Option<KeptCall> {
        let up = self.up.as_ref()?;
        Some(KeptCall { server: up.server.nonce.clone(), id: upstream? })
    }

    /// Hands a line to the server's pipe, which takes nothing of it when the server has ended.
    fn write(&mut self, line: Vec<u8>, call: Option<u64>, decided: u64) {
        let Some(up) = &mut self.up else { return };
        call.into_iter().for_each(|id| self.ctx.world.begins(up.server.pid, id));
        if !self.ctx.world.write_server(up.server.pid, &line, decided) {
            up.unwritten.push(line);
        }
    }

    /// Sends to a connection; `false` when there is none.
    fn send(&self, stream: StreamId, what: ToShim) -> bool {
        self.streams.get(&stream).map(|outbox| outbox.send(what)).is_some()
    }

    fn list_page(&mut self, tag: &str, line: &[u8], todo: &mut VecDeque<Effect>) {
        let Some(list) = List::ALL.into_iter().find(|list| list.method() == tag) else { return };
        let Some(mut pages) = self.pages.remove(tag) else { return };
        let Ok(message) = Message::parse(line.to_vec()) else { return };
        if let Some(Ok(None)) = message.result().map(|result| pages.add(result)) {
            todo.extend(self.relay.set_list(list, pages.finish()));
        }
    }

    /// What a connection asked the server to remember becomes durable.
    async fn record_facts(&self, stream: StreamId) {
        let session = self.relay.streams().find(|(it, _)| *it == stream).map(|(_, session)| session.clone());
        let Some(session) = session else { return };
        let component = self.plan.name.clone();
        let now = self.relay.facts(stream);
        let mut facts: Vec<Fact> = now
            .subscriptions
            .into_iter()
            .map(|uri| Fact::Subscribed(Subscription { component: component.clone(), uri }))
            .collect();
        facts.extend(now.log_level.map(|level| Fact::LogLevel { component, level }));
        let recorded = self.ctx.checkpoints.record(&session, &facts).await;
        if self.ctx.grumble("a session's subscriptions could not be recorded", recorded).is_none() {
            self.ctx.world.see(Seen::NotRecorded { sessions: vec![session] });
        }
    }
}
