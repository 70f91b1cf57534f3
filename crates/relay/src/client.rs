//! What clients say: requests, cancellations, answers to the server's questions, progress.

use crate::flow::to_client;
use crate::message::{Kind, Message};
use crate::pending::{Entry, State};
use crate::refusal::{error_line, result_line};
use crate::relay::{Initializing, Phase, REPLAY_DEADLINE};
use crate::subscriptions::Wish;
use crate::{Effect, List, MessageError, RawId, Rejected, Relay, Sharing, StreamId, salvage_id};
use std::num::NonZero;
use std::sync::Arc;
use tidegate_core::planted::is_planted;
use tidegate_core::{Now, SessionId, WorkClass};
use tidegate_drain::WorkInfo;

/// The longest name of a tool or a method, in bytes. Names end up in records and incidents.
pub const MAX_TOOL_BYTES: usize = 256;

/// A request, and who makes it.
struct Request {
    stream: StreamId,
    session: SessionId,
    id: RawId,
    method: String,
    message: Message,
}

impl Relay {
    /// A line of a client, without its newline. A stream that isn't open says nothing.
    pub fn client_message(&mut self, stream: StreamId, line: Vec<u8>, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        let Some(it) = self.streams.get_mut(&stream) else { return out };
        it.lines += 1;
        let session = it.session.clone();
        if line.iter().all(u8::is_ascii_whitespace) {
            return out;
        }
        match Message::parse(line) {
            Ok(message) => self.client_said(stream, session, message, now, &mut out),
            Err(rejected) => out.push(to_client(stream, rejected.answer())),
        }
        self.release(now, &mut out);
        out
    }

    /// A line of a client that was longer than [`MAX_LINE_BYTES`](crate::MAX_LINE_BYTES): its beginning, its end and
    /// its length. The request it was is refused, others live.
    pub fn client_line_too_long(
        &mut self,
        stream: StreamId,
        head: &[u8],
        tail: &[u8],
        bytes: usize,
    ) -> Vec<Effect> {
        let Some(it) = self.streams.get_mut(&stream) else { return Vec::new() };
        it.lines += 1;
        let id = salvage_id(head, tail);
        let rejected = Rejected { error: MessageError::TooLong { bytes }, id };
        vec![to_client(stream, rejected.answer())]
    }

    fn client_said(
        &mut self,
        stream: StreamId,
        session: SessionId,
        message: Message,
        now: &Now,
        out: &mut Vec<Effect>,
    ) {
        match message.kind().clone() {
            Kind::Request { id, method } => {
                self.client_asked(Request { stream, session, id, method, message }, now, out);
            }
            Kind::Notification { method } => match method.as_str() {
                "notifications/cancelled" => self.client_cancelled(stream, &message, out),
                "notifications/progress" => self.client_progressed(stream, &message, out),
                // The gateway has made the handshake itself.
                "notifications/initialized" => self.may_be_asked(stream, now, out),
                // A shared server knows of no client's roots.
                "notifications/roots/list_changed" if self.config.sharing == Sharing::Shared => {}
                _ if self.is_ready() && self.gate.is_open() => {
                    out.push(Effect::WriteServer { line: message.line().into() });
                }
                _ => self.counters.dropped_notifications += 1,
            },
            Kind::Response { id, .. } => match self.asks.answered(stream, &id) {
                Some(ask) => {
                    out.push(Effect::WriteServer { line: message.with_id(ask.server_id.as_json()) });
                }
                None => self.counters.late_client_answers += 1,
            },
        }
    }

    fn client_asked(&mut self, request: Request, now: &Now, out: &mut Vec<Effect>) {
        let Request { stream, session, id, method, message } = request;
        if self.pending.of_client(stream, &id).is_some() {
            let text = format!("the id {id} belongs to a request that is in flight; use another one");
            out.push(to_client(stream, error_line(Some(&id), -32_600, &text, None)));
            return;
        }
        if let Some(answer) = not_spoken_here(&id, &method, &message) {
            out.push(to_client(stream, answer));
            return;
        }
        match method.as_str() {
            "ping" => return out.push(to_client(stream, result_line(&id, "{}"))),
            "initialize" => return self.initialize(stream, id, &message, now, out),
            _ => {}
        }
        if let Some(answer) = self.cached_answer(&id, &method, &message) {
            out.push(to_client(stream, answer));
            return;
        }
        let wish = wish(&method, &message);
        if let Some(wish) = &wish
            && self.subscriptions.is_local(stream, wish)
        {
            self.grant(stream, wish.clone(), out);
            out.push(to_client(stream, result_line(&id, "{}")));
            return;
        }
        let tool = if method == "tools/call" { message.tool() } else { None };
        let classified = self.config.classifier.classify(&method, tool.as_deref());
        let work = WorkInfo {
            session,
            component: self.component().clone(),
            tool: Arc::from(tool.as_deref().unwrap_or(&method)),
            class: classified.class,
        };
        let line = self.streams.get(&stream).and_then(|it| NonZero::new(it.lines));
        let entry = Entry {
            stream,
            line,
            client_id: id,
            work: Arc::new(work),
            replay_allowed: classified.replay,
            token: message.meta_token(),
            message: Some(message),
            wish,
            method,
            arrived_ms: now.boot_ms,
            deadline_ms: now.deadline(REPLAY_DEADLINE).at_ms,
            replayed: false,
            state: State::Queued { until_ms: now.deadline(self.config.hold.min(REPLAY_DEADLINE)).at_ms },
        };
        self.submit(entry, now, out);
    }

    /// Answers from the server's own handshake, or waits for one.
    fn initialize(
        &mut self,
        stream: StreamId,
        id: RawId,
        message: &Message,
        now: &Now,
        out: &mut Vec<Effect>,
    ) {
        self.introduced(message);
        let Some(it) = self.streams.get_mut(&stream) else { return };
        let until_ms = now.deadline(REPLAY_DEADLINE).at_ms;
        if let Some(earlier) =
            it.initializing.replace(Initializing { id, version: message.protocol_version(), until_ms })
        {
            let text = "another initialize followed before this one was answered";
            out.push(to_client(stream, error_line(Some(&earlier.id), -32_600, text, None)));
        }
        self.answer_handshakes(out);
    }

    /// The client is past its handshake: what its own server has asked meanwhile is put to it.
    fn may_be_asked(&mut self, stream: StreamId, now: &Now, out: &mut Vec<Effect>) {
        if let Some(it) = self.streams.get_mut(&stream) {
            it.may_be_asked = true;
        }
        for line in std::mem::take(&mut self.early) {
            out.extend(self.server_line(line, now));
        }
    }

    /// Answers every `initialize` that waits, as far as that can be decided.
    pub(crate) fn answer_handshakes(&mut self, out: &mut Vec<Effect>) {
        let unavailable = match &self.server.phase {
            Phase::Unavailable(why) => Some((why.message.clone(), self.unavailable(why))),
            _ => None,
        };
        for (stream, it) in &mut self.streams {
            let line = |waiting: &Initializing| match (&unavailable, &self.server.initialize) {
                (Some((message, refusal)), _) => {
                    let text = format!("{} can't be started: {message}", refusal.component);
                    let data = refusal.to_json();
                    Some((error_line(Some(&waiting.id), refusal.kind.code(), &text, Some(&data)), false))
                }
                (None, Some(known)) => Some((known.answer(&waiting.id, waiting.version.as_deref()), true)),
                (None, None) => None,
            };
            if let Some((line, initialized)) = it.initializing.as_ref().and_then(line) {
                it.initializing = None;
                it.initialized |= initialized;
                out.push(to_client(*stream, line));
            }
        }
    }

    /// Lists, while nothing may reach the server. One that its handshake doesn't offer isn't worth waiting for.
    fn cached_answer(&self, id: &RawId, method: &str, message: &Message) -> Option<Vec<u8>> {
        let list = List::asked_by(method)?;
        let reachable = self.is_ready() && self.gate.is_open();
        if reachable || matches!(self.server.phase, Phase::Unavailable(_)) {
            return None;
        }
        let cached = self.server.lists.get(list).filter(|_| !message.has_cursor());
        let not_offered = || {
            let known = self.server.initialize.as_ref()?;
            let text = format!("the server does not offer {method}");
            (!known.offers(list)).then(|| error_line(Some(id), -32_601, &text, None))
        };
        cached.map(|result| result_line(id, result)).or_else(not_offered)
    }

    /// Cancelling a held request and releasing it are one decision: here it is still held, or it is written.
    fn client_cancelled(&mut self, stream: StreamId, message: &Message, out: &mut Vec<Effect>) {
        let number = message.request_id().and_then(|id| self.pending.of_client(stream, &id));
        let Some((number, entry)) = number.and_then(|n| Some((n, self.pending.get(n)?))) else {
            self.counters.dropped_cancellations += 1;
            return;
        };
        let Some(flight) = entry.flight() else { return self.forget(number, out) };
        out.push(Effect::WriteServer { line: message.with_request_id(&flight.upstream.to_string()) });
        self.unwanted(number);
    }

    /// Nobody waits for a written call any more: read-only ones end, the others stay holders.
    pub(crate) fn unwanted(&mut self, number: u64) {
        let Some(entry) = self.pending.get(number) else { return };
        if entry.work.class == WorkClass::ReadOnly || is_planted("cancelled-is-finished") {
            if let Some(Entry { state: State::Flying(flight), .. }) = self.pending.remove(number) {
                flight.permit.finish();
            }
        } else {
            self.pending.detach(number);
        }
    }

    fn client_progressed(&mut self, stream: StreamId, message: &Message, out: &mut Vec<Effect>) {
        if message.token().is_some_and(|token| self.asks.has_token(stream, &token)) {
            out.push(Effect::WriteServer { line: message.line().into() });
        } else {
            self.counters.dropped_progress += 1;
        }
    }

    /// Remembers what the server has agreed to.
    pub(crate) fn grant(&mut self, stream: StreamId, wish: Wish, out: &mut Vec<Effect>) {
        if self.subscriptions.grant(stream, wish) {
            out.push(Effect::FactsChanged { stream });
        }
    }
}

/// The answer to a request that is refused by name, whatever the server says.
#[must_use]
pub fn not_spoken_here(id: &RawId, method: &str, message: &Message) -> Option<Vec<u8>> {
    let (code, text) = if method.len() > MAX_TOOL_BYTES {
        (-32_601, format!("the name of a method has at most {MAX_TOOL_BYTES} bytes"))
    } else if method.contains(char::is_control) {
        (-32_601, "the name of a method has no control characters".to_owned())
    } else if method == "tools/call" && message.tool().is_some_and(|tool| tool.len() > MAX_TOOL_BYTES) {
        (-32_602, format!("the name of a tool has at most {MAX_TOOL_BYTES} bytes"))
    } else if method == "tools/call" && message.tool().is_some_and(|tool| tool.contains(char::is_control)) {
        (-32_602, "the name of a tool has no control characters".to_owned())
    } else if method == "tools/call" && message.asks_for_a_task() {
        let text = "params.task is not available: a task outlives its request, and a restart can't wait for it. Call without it";
        (-32_602, text.to_owned())
    } else if method.starts_with("tasks/") {
        (-32_601, format!("{method} is not available: the tasks capability is not offered"))
    } else if method == "server/discover" {
        let text = "server/discover is of protocol 2026-07-28, which is not available yet; this server speaks 2025-11-25: send initialize";
        (-32_601, text.to_owned())
    } else {
        return None;
    };
    Some(error_line(Some(id), code, &text, None))
}

/// What a request asks the server to remember.
pub(crate) fn wish(method: &str, message: &Message) -> Option<Wish> {
    match method {
        "resources/subscribe" => message.uri().map(Wish::Subscribe),
        "resources/unsubscribe" => message.uri().map(Wish::Unsubscribe),
        "logging/setLevel" => message.level().map(Wish::Level),
        _ => None,
    }
}
