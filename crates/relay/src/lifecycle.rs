//! What happens around the messages: streams come and go, the server gets ready and dies, the gate closes and opens,
//! time passes.

use crate::client::wish;
use crate::flow::to_client;
use crate::message::Message;
use crate::pending::{Entry, State};
use crate::refusal::error_line;
use crate::relay::{Phase, REPLAY_DEADLINE, Stream};
use crate::settle::{Settled, settle_marked};
use crate::{Effect, Introduction, RawId, Relay, ServerFacts, Sharing, StreamFacts, StreamId, Unavailable};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::planted::is_planted;
use tidegate_core::{Generation, Now, OpenCall, OperationId, SessionId, WorkClass};
use tidegate_drain::WorkInfo;

/// The pause before a mark that could not be made durable is tried again: a store that fails may be back.
const MARK_AGAIN: Duration = Duration::from_millis(500);

/// A request that a shim reports as marked `forwarding` before the daemon died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The client's line, kept by the shim.
    pub line: Vec<u8>,
    /// The class it was marked with.
    pub class: WorkClass,
    /// The tool it was marked with.
    pub tool: String,
    /// How long ago it was made.
    pub age: Duration,
}

impl Relay {
    /// A stream of `session` is open.
    pub fn stream_opened(&mut self, stream: StreamId, session: SessionId) {
        self.streams.insert(
            stream,
            Stream { session, lines: 0, initialized: false, may_be_asked: false, initializing: None },
        );
    }

    /// A stream is there again after the daemon has died: its handshake is done, `facts` are what its checkpoint says,
    /// and `marked` are the requests that may have been written. What was never marked the shim sends again itself.
    pub fn stream_resumed(
        &mut self,
        stream: StreamId,
        session: SessionId,
        facts: StreamFacts,
        marked: Vec<Marked>,
        now: &Now,
    ) -> Vec<Effect> {
        let mut out = Vec::new();
        self.streams.insert(
            stream,
            Stream {
                session: session.clone(),
                lines: 0,
                initialized: true,
                may_be_asked: true,
                initializing: None,
            },
        );
        self.subscriptions.restore(stream, facts);
        self.server.to_reassert = true;
        for call in marked {
            self.settle_reported(stream, &session, call, now, &mut out);
        }
        self.release(now, &mut out);
        out
    }

    /// A call that a shim has reported, and of which it is known only now what became of it: a late answer, kept for it,
    /// or none.
    pub fn reported(
        &mut self,
        stream: StreamId,
        session: &SessionId,
        call: Marked,
        answer: Option<Vec<u8>>,
        now: &Now,
    ) -> Vec<Effect> {
        let mut out = Vec::new();
        let request = Message::parse(call.line.clone()).ok();
        let answered = request.and_then(|request| {
            let crate::Kind::Request { id, method } = request.kind() else { return None };
            let answer = Message::parse(answer?).ok()?;
            let agreed = !matches!(answer.kind(), crate::Kind::Response { is_error: true, .. });
            Some((answer.with_id(id.as_json()), agreed.then(|| wish(method, &request)).flatten()))
        });
        match answered.filter(|_| !is_planted("a-late-answer-is-not-believed")) {
            Some((line, wish)) => {
                if let Some(wish) = wish.filter(|_| self.streams.contains_key(&stream)) {
                    self.grant(stream, wish, &mut out);
                    // Who has agreed is gone: whoever serves now has yet to be told.
                    self.server.to_reassert = true;
                }
                out.push(to_client(stream, line));
            }
            None => self.settle_reported(stream, session, call, now, &mut out),
        }
        self.release(now, &mut out);
        out
    }

    fn settle_reported(
        &mut self,
        stream: StreamId,
        session: &SessionId,
        call: Marked,
        now: &Now,
        out: &mut Vec<Effect>,
    ) {
        let left = REPLAY_DEADLINE.saturating_sub(call.age);
        let Ok(message) = Message::parse(call.line) else { return };
        let crate::Kind::Request { id, method } = message.kind().clone() else { return };
        let number = self.number();
        let work = WorkInfo {
            session: session.clone(),
            component: self.component().clone(),
            tool: Arc::from(call.tool.as_str()),
            class: call.class,
        };
        match settle_marked(call.class, left.is_zero()) {
            Settled::Replay => {
                let until_ms = now.deadline(left).at_ms;
                let entry = Entry {
                    stream,
                    line: None,
                    client_id: id,
                    work: Arc::new(work),
                    replay_allowed: false,
                    token: message.meta_token(),
                    message: Some(message),
                    wish: None,
                    method,
                    arrived_ms: now.boot_ms,
                    deadline_ms: until_ms,
                    replayed: true,
                    state: State::Queued { until_ms },
                };
                self.submit(entry, now, out);
            }
            Settled::Retry => out.push(to_client(stream, self.retry(&call.tool).render_for(&id, &method))),
            Settled::Unknown => {
                out.push(Effect::Unknown(OpenCall {
                    session: work.session,
                    component: work.component,
                    tool: work.tool.to_string(),
                    class: work.class,
                    id: OpenCall::id(Generation::default(), number),
                }));
                let refusal = self.outcome_unknown(&call.tool);
                out.push(to_client(stream, refusal.render_for(&id, &method)));
            }
        }
    }

    /// A stream is gone, and nobody behind it waits any more. What was written and isn't read-only goes on as detached
    /// work; the server's questions fail.
    pub fn stream_gone(&mut self, stream: StreamId, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        self.streams.remove(&stream);
        self.subscriptions.remove(stream);
        for number in self.pending.numbers(|entry| entry.stream == stream) {
            if self.pending.get(number).is_some_and(|entry| entry.flight().is_some()) {
                self.say_detached(number, &mut out);
                self.unwanted(number);
            } else {
                self.forget(number, &mut out);
            }
        }
        for ask in self.asks.take_of(stream) {
            let line = error_line(Some(&ask.server_id), -32_603, "the session that was asked is gone", None);
            out.push(Effect::WriteServer { line });
        }
        self.release(now, &mut out);
        out
    }

    /// A generation has been verified, and the one before it is proved dead: what waits is answered and written, as far
    /// as the gate allows.
    pub fn server_ready(&mut self, facts: ServerFacts, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        self.server_proved_dead();
        let before = self.server.lists.tools();
        for list in crate::List::ALL {
            if let Some(result) = facts.lists.get(list) {
                self.server.lists.set(list, result.to_owned());
            }
        }
        self.server.phase = Phase::Ready;
        self.server.unsafe_possible = false;
        self.server.to_reassert = true;
        self.server.initialize = Some(facts.initialize);
        let first = self.server.generation == Generation::default();
        self.server.generation = facts.generation;
        self.tools_are(before.into_keys().collect(), !first, &mut out);
        self.answer_handshakes(&mut out);
        self.release(now, &mut out);
        out
    }

    /// A list was asked for again: what clients get from the cache, and how calls are classified, follows it.
    pub fn set_list(&mut self, list: crate::List, result: String) -> Vec<Effect> {
        let mut out = Vec::new();
        let before = self.server.lists.tools();
        self.server.lists.set(list, result);
        self.tools_are(before.into_keys().collect(), false, &mut out);
        out
    }

    /// Compares the tools with those of before; `tell` where the server itself didn't.
    fn tools_are(&mut self, before: Vec<String>, tell: bool, out: &mut Vec<Effect>) {
        let tools = self.server.lists.tools();
        let added: Vec<String> = tools.keys().filter(|tool| !before.contains(tool)).cloned().collect();
        let all = is_planted("every-tool-is-gone");
        let removed: Vec<String> =
            before.into_iter().filter(|tool| all || !tools.contains_key(tool)).collect();
        self.server.gone.retain(|tool| !tools.contains_key(tool));
        self.server.gone.extend(removed.iter().cloned());
        self.config.classifier.set_annotations(tools);
        if tell && !(added.is_empty() && removed.is_empty()) {
            self.tell_all(br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, out);
            out.push(Effect::ToolsChanged { added, removed });
        }
    }

    /// The server's end has been seen, by end of file or by exit, whichever came first; the second changes nothing.
    /// Every call that was written is settled here, exactly once.
    pub fn server_died(&mut self, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        if !self.is_ready() {
            return out;
        }
        self.server.phase = Phase::Absent;
        self.own.clear();
        self.early.clear();
        let written = self.pending.numbers(|entry| entry.flight().is_some());
        let settled: Vec<(u64, Option<Settled>)> =
            written.into_iter().map(|number| (number, self.settle_lost(number, now, &mut out))).collect();
        for (number, _) in settled.iter().rev().filter(|(_, settled)| *settled == Some(Settled::Replay)) {
            let bytes = self.pending.get(*number).map_or(0, Entry::bytes);
            self.held.push_first(*number, bytes);
        }
        for (number, ask) in self.asks.take_all() {
            out.push(to_client(ask.stream, cancellation(number, "the server has ended")));
        }
        out
    }

    /// A line for the server that its pipe took nothing of, or was never given: the request in it waits again, in its old
    /// place and as long as if it had been held from the beginning. To be said of the last such line first, and before
    /// [`Relay::server_died`].
    pub fn never_written(&mut self, line: &[u8]) {
        let Ok(message) = Message::parse(line.trim_ascii_end().to_vec()) else { return };
        let crate::Kind::Request { id, .. } = message.kind() else { return };
        let number = id.as_number().and_then(|upstream| self.pending.of_upstream(upstream));
        let Some((number, entry)) = number.and_then(|n| Some((n, self.pending.get(n)?))) else { return };
        if entry.may_have_happened() && entry.flight().is_some_and(|flight| flight.detached) {
            // This line was never read, the one before it was: it is settled with all that were.
            return;
        }
        let hold_ms = u64::try_from(self.config.hold.as_millis()).unwrap_or(u64::MAX);
        let until_ms = entry.arrived_ms.saturating_add(hold_ms).min(entry.deadline_ms);
        match self.pending.unfly(number, message, until_ms) {
            Some(flight) if flight.detached => {
                // Nobody waits for it, and it was never executed.
                flight.permit.finish();
                self.pending.remove(number);
            }
            Some(flight) => {
                flight.permit.finish();
                let bytes = self.pending.get(number).map_or(0, Entry::bytes);
                self.held.push_first(number, bytes);
            }
            None => {}
        }
    }

    /// [`Effect::UnsafePossible`] could not be made durable. What was to be written after it has to be given to
    /// [`Relay::never_written`]; it is said again with the next such request, in a moment.
    pub fn unsafe_not_marked(&mut self, now: &Now) {
        self.server.unsafe_possible = false;
        self.server.mark_again_ms = Some(now.deadline(MARK_AGAIN).at_ms);
    }

    /// The dead server's whole tree is proved gone: nothing of it executes any more, so nothing of it holds any more.
    pub fn server_proved_dead(&mut self) {
        for permit in self.lingering.drain(..) {
            permit.finish();
        }
        self.gate.settle_all_dead();
    }

    /// There is no server and won't be one without somebody's doing: everything that waits is told.
    pub fn server_unavailable(&mut self, why: Unavailable, now: &Now) -> Vec<Effect> {
        let mut out = self.server_died(now);
        let refusal = self.unavailable(&why);
        self.server.phase = Phase::Unavailable(why);
        for number in self.pending.numbers(|entry| entry.flight().is_none()) {
            self.refuse_waiting(number, &refusal, &mut out);
        }
        self.answer_handshakes(&mut out);
        out
    }

    /// The gate has been closed, for this operation.
    pub fn gate_closed(&mut self, operation: Option<OperationId>) -> Vec<Effect> {
        let mut out = Vec::new();
        self.operation = operation;
        if is_planted("a-drain-cancels-work") {
            let flying = self.pending.iter().filter_map(|(_, entry)| entry.flight());
            let cancels = flying.map(|it| cancellation(it.upstream, "the server is restarted"));
            out.extend(cancels.map(|line| Effect::WriteServer { line }).collect::<Vec<_>>());
        }
        let sessions: Vec<SessionId> = self.streams.values().map(|it| it.session.clone()).collect();
        for session in sessions.into_iter().filter(|session| self.asks.owed_by(session)).collect::<Vec<_>>() {
            self.refuse_held_of(&session, &mut out);
        }
        out
    }

    /// The gate has been opened: what is held is written, in order.
    pub fn gate_reopened(&mut self, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        self.operation = None;
        self.release(now, &mut out);
        out
    }

    /// Time has passed: ends what has been held, or has taken, for too long.
    pub fn tick(&mut self, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        self.server.mark_again_ms.take_if(|at| *at <= now.boot_ms);
        for number in self.pending.numbers(|entry| entry.due_ms().is_some_and(|due| due <= now.boot_ms)) {
            self.overdue(number, &mut out);
        }
        for (stream, it) in &mut self.streams {
            if let Some(waiting) = it.initializing.take_if(|waiting| waiting.until_ms <= now.boot_ms) {
                let text = "the server is not ready yet; initialize again";
                out.push(to_client(*stream, error_line(Some(&waiting.id), 4503, text, None)));
            }
        }
        self.release(now, &mut out);
        out
    }

    fn overdue(&mut self, number: u64, out: &mut Vec<Effect>) {
        let Some(entry) = self.pending.get(number) else { return };
        let was_written = entry.replayed || entry.flight().is_some();
        let refusal = match entry.work.class {
            _ if !was_written => self.draining(),
            WorkClass::ReadOnly => self.retry(&entry.work.tool),
            WorkClass::Idempotent | WorkClass::Mutating => self.outcome_unknown(&entry.work.tool),
        };
        let (stream, class) = (entry.stream, entry.work.class);
        let answer = refusal.render_for(&entry.client_id, &entry.method);
        let upstream = entry.flight().map(|flight| flight.upstream);
        if was_written && class.is_unsafe() {
            self.say_unknown(number, out);
        }
        match upstream {
            None => self.refuse(number, &refusal, out),
            Some(upstream) => {
                out.push(Effect::WriteServer { line: cancellation(upstream, "the call timed out") });
                out.push(to_client(stream, answer));
                self.unwanted(number);
            }
        }
    }

    /// A request of the gateway's own (a list to refresh, a sign of life), answered by
    /// [`Effect::OwnAnswer`]. Empty while nothing may reach the server; forgotten when the server dies.
    pub fn own_request(&mut self, tag: &str, method: &str, params: &str) -> Vec<Effect> {
        let mut out = Vec::new();
        if self.is_ready() && self.gate.is_open() {
            self.write_own(tag.to_owned(), method, params, &mut out);
        }
        out
    }

    /// What the client of a session's own server says of itself in its `initialize`; the first word counts.
    pub fn introduced(&mut self, initialize: &Message) {
        if self.config.sharing == Sharing::PerSession && self.introduction.is_none() {
            self.introduction = Some(Introduction::of(initialize));
        }
    }

    /// What a server of the session's own is to be told of its client; `None` for a shared one, and before there is a
    /// client.
    #[must_use]
    pub fn introduction(&self) -> Option<&Introduction> {
        self.introduction.as_ref()
    }

    /// A session's own server has ended with its client: the next client introduces itself anew. Only without a stream
    /// and without a server.
    pub fn rests(&mut self) {
        self.introduction = None;
        self.server.initialize = None;
    }

    /// It works otherwise from the next generation on. Not to be called while a server is there.
    pub fn reconfigure(&mut self, config: crate::RelayConfig) {
        self.config = config;
    }

    /// Whether a request with this id is written and not answered.
    #[must_use]
    pub fn is_flying(&self, upstream: u64) -> bool {
        self.pending.of_upstream(upstream).is_some()
    }

    /// The id under which the request of a client is known to the server, while it is written and not answered.
    #[must_use]
    pub fn upstream_id(&self, stream: StreamId, id: &RawId) -> Option<u64> {
        let number = self.pending.of_client(stream, id)?;
        self.pending.get(number)?.flight().map(|flight| flight.upstream)
    }
}

fn cancellation(request: u64, reason: &str) -> Vec<u8> {
    let params = serde_json::json!({ "requestId": request, "reason": reason });
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#).into_bytes()
}
