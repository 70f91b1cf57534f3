//! What the server says: answers, questions, notifications, and lines that are nothing.

use crate::asks::Ask;
use crate::flow::to_client;
use crate::message::{Kind, Message, broken_answer_to};
use crate::pending::{Entry, State};
use crate::refusal::{error_line, result_line};
use crate::{Effect, List, MAX_ASKS, MessageError, RawId, Relay, Sharing, StreamId, salvage_id};
use std::collections::BTreeSet;
use tidegate_core::planted::is_planted;
use tidegate_core::{LateAnswer, Now, SessionId};

/// JSON-RPC's "internal error": what was asked can't be answered.
const INTERNAL_ERROR: i64 = -32_603;

impl Relay {
    /// A line of the current generation, without its newline. What is no message is skipped and counted; an answer that
    /// can't be read is an error for the call it answers.
    pub fn server_line(&mut self, line: Vec<u8>, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        match Message::parse_or_keep(line) {
            Err((rejected, line)) => self.server_garbled(broken_answer_to(&line), &rejected.error, &mut out),
            Ok(message) => match message.kind().clone() {
                Kind::Response { id, is_error } => self.server_answered(&id, is_error, &message, &mut out),
                Kind::Request { id, method } => self.server_asked(id, &method, &message, &mut out),
                Kind::Notification { method } => self.server_told(&method, &message, &mut out),
            },
        }
        self.release(now, &mut out);
        out
    }

    /// A line of the server that was longer than [`MAX_LINE_BYTES`](crate::MAX_LINE_BYTES): its beginning, its end and
    /// its length. The call it answered gets an error that says so, others live.
    pub fn server_line_too_long(&mut self, head: &[u8], tail: &[u8], bytes: usize, now: &Now) -> Vec<Effect> {
        let mut out = Vec::new();
        self.server_garbled(salvage_id(head, tail), &MessageError::TooLong { bytes }, &mut out);
        self.release(now, &mut out);
        out
    }

    /// The server has said something that can't be passed on. Where it was an answer, that work is over and its caller
    /// waits no longer.
    fn server_garbled(&mut self, answers: Option<RawId>, why: &MessageError, out: &mut Vec<Effect>) {
        let number = answers.and_then(|id| self.pending.of_upstream(id.as_number()?));
        match number.and_then(|number| Some((number, self.pending.remove(number)?))) {
            Some((number, entry)) => {
                let text = format!("the server's answer is not passed on: {why}");
                let line = |id: &RawId| error_line(Some(id), INTERNAL_ERROR, &text, None);
                self.ended(number, entry, || LateAnswer::Error, line, out);
            }
            None => self.counters.junk_lines += 1,
        }
    }

    fn server_answered(&mut self, id: &RawId, is_error: bool, message: &Message, out: &mut Vec<Effect>) {
        let Some(upstream) = id.as_number() else {
            self.counters.late_answers += 1;
            return;
        };
        if let Some(tag) = self.own.remove(&upstream) {
            if !tag.is_empty() {
                out.push(Effect::OwnAnswer { tag, line: message.line().into() });
            }
            return;
        }
        let number = self.pending.of_upstream(upstream);
        let Some((number, mut entry)) =
            number.and_then(|number| Some((number, self.pending.remove(number)?)))
        else {
            self.counters.late_answers += 1;
            return;
        };
        if let Some(wish) = entry.wish.take().filter(|_| !is_error)
            && self.streams.contains_key(&entry.stream)
        {
            self.grant(entry.stream, wish, out);
        }
        let how = || match is_error || message.is_tool_error() {
            true => LateAnswer::Error,
            false => LateAnswer::Result,
        };
        self.ended(number, entry, how, |id| message.with_id(id.as_json()), out);
    }

    /// The server has answered: whoever waits is told, and the work is over.
    fn ended(
        &mut self,
        number: u64,
        entry: Entry,
        how: impl FnOnce() -> LateAnswer,
        line: impl FnOnce(&RawId) -> Vec<u8>,
        out: &mut Vec<Effect>,
    ) {
        if entry.flight().is_some_and(|flight| flight.told_detached) {
            out.push(Effect::AnsweredLate { call: self.open_call(number, &entry), answer: how() });
        }
        let State::Flying(flight) = entry.state else { return };
        if flight.detached || (is_planted("answers-are-dropped-during-a-drain") && !self.gate.is_open()) {
            self.counters.late_answers += 1;
        } else {
            out.push(to_client(entry.stream, line(&entry.client_id)));
        }
        flight.permit.finish();
    }

    fn server_asked(&mut self, id: RawId, method: &str, message: &Message, out: &mut Vec<Effect>) {
        if method == "ping" {
            out.push(Effect::WriteServer { line: result_line(&id, "{}") });
            return;
        }
        if self.is_early() && self.early.len() < MAX_ASKS {
            return self.early.push(message.line().into());
        }
        let asked = self.owner().and_then(|(stream, session)| {
            let ask =
                Ask { server_id: id.clone(), stream, session: session.clone(), token: message.meta_token() };
            Some((stream, session, self.asks.add(ask)?))
        });
        let Some((stream, session, number)) = asked else {
            let text = format!("there is no one session to put {method} to{}", self.why_nobody());
            out.push(Effect::WriteServer { line: error_line(Some(&id), INTERNAL_ERROR, &text, None) });
            return;
        };
        out.push(to_client(stream, message.with_id(&number.to_string())));
        if !self.gate.is_open() {
            self.refuse_held_of(&session, out);
        }
    }

    /// Whether the session whose own server this is has not come to its questions yet.
    fn is_early(&self) -> bool {
        let mut streams = self.streams.values().peekable();
        self.config.sharing == Sharing::PerSession
            && streams.peek().is_some()
            && !streams.any(|stream| stream.may_be_asked)
    }

    /// For whoever reads the error in the log of a server that asks.
    fn why_nobody(&self) -> &'static str {
        match (self.config.sharing, self.streams.is_empty()) {
            (Sharing::Shared, false) => {
                "; a component with sharing = \"per-session\" asks the session it belongs to"
            }
            _ => ": nobody is connected",
        }
    }

    /// A session that owes the server an answer can't wait for the server.
    pub(crate) fn refuse_held_of(&mut self, session: &SessionId, out: &mut Vec<Effect>) {
        let refusal = self.draining();
        for number in self.pending.numbers(|e| e.flight().is_none() && e.work.session == *session) {
            self.refuse_waiting(number, &refusal, out);
        }
    }

    /// Whose request the server is working on: the one session with calls in flight, or, when nothing is, the one
    /// session there is. `None` when it can't be told, or is gone.
    fn owner(&self) -> Option<(StreamId, SessionId)> {
        let flying: Vec<(StreamId, &SessionId)> = self
            .pending
            .iter()
            .filter(|(_, entry)| entry.flight().is_some())
            .map(|(_, entry)| (entry.stream, &entry.work.session))
            .collect();
        let candidates = if flying.is_empty() { self.streams().collect() } else { flying };
        let sessions: BTreeSet<&SessionId> = candidates.iter().map(|(_, session)| *session).collect();
        if sessions.len() != 1 {
            return None;
        }
        let open = candidates.into_iter().find(|(stream, _)| self.streams.contains_key(stream));
        open.map(|(stream, session)| (stream, session.clone()))
    }

    fn server_told(&mut self, method: &str, message: &Message, out: &mut Vec<Effect>) {
        let changed = List::changed_by(method);
        if !changed.is_empty() {
            out.extend(changed.iter().map(|list| Effect::ListChanged { list: *list }));
            self.tell_all(message.line().as_bytes(), out);
            return;
        }
        match method {
            "notifications/progress" => self.server_progressed(message, out),
            "notifications/cancelled" => match message.request_id().and_then(|id| self.asks.withdrawn(&id)) {
                Some((number, ask)) => {
                    out.push(to_client(ask.stream, message.with_request_id(&number.to_string())));
                }
                None => self.counters.dropped_cancellations += 1,
            },
            "notifications/resources/updated" => {
                let uri = message.uri().unwrap_or_default();
                let line = message.line().as_bytes();
                out.extend(self.subscriptions.subscribers(&uri).map(|s| to_client(s, line.to_vec())));
            }
            _ => match self.owner() {
                Some((stream, _)) => out.push(to_client(stream, message.line().into())),
                None => self.counters.dropped_notifications += 1,
            },
        }
    }

    fn server_progressed(&mut self, message: &Message, out: &mut Vec<Effect>) {
        let upstream = message.token().and_then(|token| token.as_number());
        let number = upstream.and_then(|upstream| self.pending.of_upstream(upstream));
        let entry = number.and_then(|number| self.pending.get(number));
        let waits = |entry: &&Entry| entry.flight().is_some_and(|flight| !flight.detached);
        match entry.filter(waits).and_then(|entry| Some((entry.stream, entry.token.as_ref()?))) {
            Some((stream, token)) => out.push(to_client(stream, message.with_token(token.as_json()))),
            None => self.counters.dropped_progress += 1,
        }
    }

    /// Tells every stream that is past its handshake.
    pub(crate) fn tell_all(&self, line: &[u8], out: &mut Vec<Effect>) {
        let streams = self.streams.iter().filter(|(_, it)| it.initialized);
        out.extend(streams.map(|(stream, _)| to_client(*stream, line.to_vec())));
    }
}
