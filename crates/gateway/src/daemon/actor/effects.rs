//! Doing what the relay decides, in its order. Decides nothing itself.

use super::Actor;
use crate::daemon::component::Peer;
use crate::daemon::context::{grumble, say};
use crate::keeper::KeptCall;
use crate::marks::LineMark;
use crate::wire::{MESSAGE, frame};
use std::collections::VecDeque;
use std::num::NonZero;
use tidegate_checkpoints::{Actions, Fact, Subscription};
use tidegate_core::{Generation, NextAction, SessionId, WorkClass};
use tidegate_governor::ComponentError;
use tidegate_relay::{Effect, List, Message, Pages, StreamId, Writing};

impl Actor {
    pub(super) async fn perform(&mut self, effects: Vec<Effect>) {
        // What came of an effect is performed after it, before the effects that were already decided.
        let mut todo: VecDeque<Effect> = effects.into();
        let mut writing = Writing::default();
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::MarkForwarding { stream, id, line, class, .. } => {
                    let upstream = self.relay.upstream_id(stream, &id);
                    writing.forwarding(class, upstream, self.mark(stream, line, class, upstream));
                }
                Effect::UnsafePossible { generation } => {
                    writing.unsafe_possible(self.mark_unsafe(generation).await);
                }
                Effect::WriteServer { line } => {
                    let refused = writing.line(line).and_then(|(line, call)| self.write(line, call));
                    refused.into_iter().for_each(|line| writing.not_written(line));
                }
                Effect::ToClient { stream, line } => self.send(stream, frame(MESSAGE, &line)),
                Effect::Unknown(call) => self.ctx.lost(&call).await,
                Effect::Detached(call) => self.ctx.detached(&call).await,
                Effect::AnsweredLate { call, answer } => self.ctx.answered_late(&call, answer).await,
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
        for line in writing.unwritten() {
            self.relay.never_written(&line);
        }
    }

    /// Nothing unsafe is written before this is durable: a successor would kill the server in the middle of it. `false`
    /// when the store has failed; a generation that is over is written nothing that counts.
    async fn mark_unsafe(&mut self, generation: Generation) -> bool {
        let marked = self.ctx.components.mark_unsafe(&self.seat.record, generation).await;
        let failed = matches!(marked, Err(ComponentError::Store(_)));
        grumble("the unsafe mark could not be recorded", marked);
        if failed {
            self.relay.unsafe_not_marked(&self.ctx.now());
        }
        !failed
    }

    /// Marks a request that is about to be written, where its shim finds the mark if this daemon dies. `false` when that
    /// can't be done, and the connection is cut.
    fn mark(
        &mut self,
        stream: StreamId,
        line: Option<NonZero<u64>>,
        class: WorkClass,
        upstream: Option<u64>,
    ) -> bool {
        let call = self.kept_call(upstream);
        let Some(peer) = self.streams.get_mut(&stream) else { return false };
        let (Some(line), Some(upstream)) = (line, upstream) else { return true };
        let mark = LineMark { line: line.get(), class, call };
        // The mark of an answered request may go once the answer is in the kernel's hands.
        let all_sent = peer.outbox.is_drained();
        let is_wanted = |number| !all_sent || self.relay.is_flying(number);
        let marked = peer.marks.put(&mark, upstream, is_wanted);
        if grumble("a request could not be marked", marked).is_none() {
            self.cut(stream);
            return false;
        }
        true
    }

    /// How the server knows a call.
    fn kept_call(&self, upstream: Option<u64>) -> Option<KeptCall> {
        let up = self.up.as_ref()?;
        Some(KeptCall { server: up.handle.identity().nonce.clone(), id: upstream? })
    }

    /// Hands a line to the server's pipe; gives it back when there is no room.
    fn write(&mut self, mut line: Vec<u8>, call: Option<u64>) -> Option<Vec<u8>> {
        line.push(b'\n');
        let inlet = self.up.as_ref().and_then(|up| up.inlet.as_ref())?;
        let line = inlet.send(line, call).err()?;
        say(&format!("{} does not read its input; a line to it waits, or is dropped", self.seat));
        Some(line)
    }

    /// Sends a frame to a connection; one that doesn't take it is cut.
    fn send(&mut self, stream: StreamId, frame: Vec<u8>) {
        if let Some(Peer { outbox, .. }) = self.streams.get(&stream)
            && outbox.send(frame).is_err()
        {
            self.cut(stream);
        }
    }

    /// Ends a connection. That it is gone is told by whoever reads it; its shim comes back and says what it waits for.
    fn cut(&mut self, stream: StreamId) {
        if let Some(Peer { outbox, .. }) = self.streams.remove(&stream) {
            outbox.cut();
        }
    }

    /// Reads a list again, once at a time: what changes meanwhile, or while nothing may reach the server, is read later.
    fn read_again(&mut self, list: List, todo: &mut VecDeque<Effect>) {
        if self.pages.contains_key(list.method()) {
            self.stale.insert(list);
        } else {
            self.read_page(list, Pages::new(list), "{}", todo);
        }
    }

    /// Reads the page after `pages`. Where nothing may reach the server, the list is read later, from its beginning.
    fn read_page(&mut self, list: List, pages: Pages, params: &str, todo: &mut VecDeque<Effect>) {
        let request = self.relay.own_request(list.method(), list.method(), params);
        if request.is_empty() {
            self.stale.insert(list);
        } else {
            self.pages.insert(list.method().to_owned(), pages);
            todo.extend(request);
        }
    }

    /// Reads again what had changed when it couldn't be read.
    pub(super) fn read_stale(&mut self) -> VecDeque<Effect> {
        let mut todo = VecDeque::new();
        for list in std::mem::take(&mut self.stale) {
            self.read_again(list, &mut todo);
        }
        todo
    }

    fn list_page(&mut self, tag: &str, line: &[u8], todo: &mut VecDeque<Effect>) {
        let Some(list) = List::ALL.into_iter().find(|list| list.method() == tag) else { return };
        let Some(mut pages) = self.pages.remove(tag) else { return };
        let Ok(message) = Message::parse(line.to_vec()) else { return };
        match message.result().map(|result| pages.add(result)) {
            Some(Ok(None)) => {
                todo.extend(self.relay.set_list(list, pages.finish()));
                todo.extend(self.read_stale());
            }
            Some(Ok(Some(cursor))) => {
                self.read_page(list, pages, &format!(r#"{{"cursor":{cursor}}}"#), todo);
            }
            Some(Err(_)) | None => todo.extend(self.read_stale()),
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
