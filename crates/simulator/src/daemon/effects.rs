//! Doing what the relay decides, in its order. Decides nothing itself.

use super::actor::Actor;
use super::component::ToShim;
use crate::observe::Seen;
use std::collections::VecDeque;
use tidegate_checkpoints::{Actions, Fact, Subscription};
use tidegate_core::{Generation, NextAction, SessionId};
use tidegate_governor::ComponentError;
use tidegate_relay::{Effect, List, Message, Pages, StreamId};

/// The pause before a mark that could not be recorded is tried again.
const MARK_AGAIN_MS: u64 = 200;

impl Actor {
    pub(super) async fn perform(&mut self, effects: Vec<Effect>) {
        let decided = self.ctx.world.step();
        // What came of an effect is performed after it, before the effects that were already decided.
        let mut todo: VecDeque<Effect> = effects.into();
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::MarkForwarding { stream, id, class, tool, .. } => {
                    self.send(stream, ToShim::Forwarding { id, class, tool: tool.to_string() });
                }
                Effect::UnsafePossible { generation } => self.mark_unsafe(generation).await,
                Effect::WriteServer { line } => {
                    if let Some(up) = &mut self.up
                        && !self.ctx.world.write_server(up.server.pid, &line, decided)
                    {
                        up.unwritten.push(line);
                    }
                }
                Effect::ToClient { stream, line } => self.send(stream, ToShim::Line(line)),
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
    }

    /// Nothing unsafe is written before this is durable. A store that fails is waited for.
    async fn mark_unsafe(&self, generation: Generation) {
        loop {
            let marked = self.ctx.components.mark_unsafe(&self.plan.name, generation).await;
            let failed = matches!(marked, Err(ComponentError::Store(_)));
            self.ctx.grumble("the unsafe mark could not be recorded", marked);
            if !failed {
                return;
            }
            self.ctx.world.executor.sleep(MARK_AGAIN_MS).await;
        }
    }

    fn send(&self, stream: StreamId, what: ToShim) {
        if let Some(outbox) = self.streams.get(&stream) {
            outbox.send(what);
        }
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
