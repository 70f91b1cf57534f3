//! How a request moves: submitted, held, written, refused. The only place that writes a client's request to a server.

use crate::leases;
use crate::message::Message;
use crate::pending::{Entry, Flight, State};
use crate::refusal::RefusalKind;
use crate::relay::Phase;
use crate::settle::{LostFacts, Settled, settle};
use crate::{Effect, RawId, Refusal, Relay, StreamId};
use tidegate_core::planted::is_planted;
use tidegate_core::{NextAction, Now, OpenCall, WorkClass};
use tidegate_drain::Permit;

impl Relay {
    /// Takes a new request: written at once where nothing is in its way, else held or refused.
    pub(crate) fn submit(&mut self, entry: Entry, now: &Now, out: &mut Vec<Effect>) {
        let number = self.number();
        let session = entry.work.session.clone();
        let bytes = entry.bytes();
        self.pending.insert(number, entry);
        if is_planted("refused-at-an-open-gate") && self.asks.owed_by(&session) {
            let refusal = self.draining();
            return self.refuse(number, &refusal, out);
        }
        if let Some(refusal) = self.without_lease(number, now) {
            return self.refuse_waiting(number, &refusal, out);
        }
        if self.held.is_empty() && self.try_write(number, now, out) {
            return;
        }
        if let Phase::Unavailable(why) = &self.server.phase {
            let refusal = self.unavailable(why);
            self.refuse(number, &refusal, out);
        } else if self.config.hold.is_zero()
            || (!self.gate.is_open() && self.asks.owed_by(&session))
            || !self.held.push(number, bytes)
        {
            let refusal = self.draining();
            self.refuse(number, &refusal, out);
        }
    }

    /// Writes what is held, in order, as far as gate and server allow. Every input ends with it.
    pub(crate) fn release(&mut self, now: &Now, out: &mut Vec<Effect>) {
        self.reassert(out);
        while let Some(number) = self.held.first() {
            if !self.try_write(number, now, out) {
                break;
            }
            self.held.remove(number);
        }
    }

    /// Writes a queued request, or refuses it for good; `false` when it has to wait.
    fn try_write(&mut self, number: u64, now: &Now, out: &mut Vec<Effect>) -> bool {
        if !self.is_ready() {
            return false;
        }
        if !self.is_what_it_was(number) {
            let refusal = self.draining();
            self.refuse_waiting(number, &refusal, out);
            return true;
        }
        let Some(entry) = self.pending.get(number) else { return true };
        let Ok(permit) = self.gate.admit(&entry.work, now) else { return false };
        if entry.method == "tools/call" && self.server.gone.contains(&*entry.work.tool) {
            permit.finish();
            let refusal = self.tool_changed(&entry.work.tool);
            self.refuse_waiting(number, &refusal, out);
        } else if let Some(refusal) = self.without_lease(number, now) {
            permit.finish();
            self.refuse_waiting(number, &refusal, out);
        } else {
            self.write(number, permit, now, out);
        }
        true
    }

    /// Gives a request the class that it has now: while it waited, a tool may have become another, and what a shim reports
    /// after a crash is a claim. No for one that was written before and is by now what must not be written again.
    fn is_what_it_was(&mut self, number: u64) -> bool {
        let Some(entry) = self.pending.get(number) else { return true };
        let tool = entry.message.as_ref().and_then(Message::tool).filter(|_| entry.method == "tools/call");
        let now = self.config.classifier.classify(&entry.method, tool.as_deref());
        let (was, replayed) = (entry.work.class, entry.replayed);
        if now.class != was && (now.class.is_unsafe() || !replayed) {
            self.pending.reclassify(number, now);
        }
        let again = match now.class {
            WorkClass::ReadOnly => true,
            WorkClass::Idempotent => was.is_unsafe() && now.replay,
            WorkClass::Mutating => is_planted("written-again-after-a-death"),
        };
        again || !replayed
    }

    /// The refusal of a call whose session doesn't hold the lease that it needs: when it comes, and when it has waited.
    fn without_lease(&self, number: u64, now: &Now) -> Option<Refusal> {
        let entry = self.pending.get(number).filter(|entry| entry.method == "tools/call")?;
        let (rules, work) = (&self.config.leases, &entry.work);
        let call = entry.message.as_ref()?;
        let lease = leases::missing(rules, &self.leases, &work.session, &work.tool, call, now)?;
        Some(self.lease_required(lease))
    }

    fn write(&mut self, number: u64, permit: Permit, now: &Now, out: &mut Vec<Effect>) {
        let upstream = self.number();
        let generation = self.server.generation;
        let Some(entry) = self.pending.get(number) else { return permit.finish() };
        let Some(message) = &entry.message else { return permit.finish() };
        let class = entry.work.class;
        out.push(Effect::MarkForwarding {
            stream: entry.stream,
            id: entry.client_id.clone(),
            line: entry.line,
            class,
            tool: entry.work.tool.clone(),
        });
        if class.is_unsafe() {
            self.unsafe_admissions += 1;
            if !std::mem::replace(&mut self.server.unsafe_possible, true) {
                out.push(Effect::UnsafePossible { generation });
            }
        }
        let id = upstream.to_string();
        out.push(Effect::WriteServer { line: message.with_id_and_token(&id, &id) });
        if entry.replayed {
            out.push(Effect::Replayed(self.open_call(number, entry)));
        }
        let keep_message = class == WorkClass::ReadOnly || entry.replay_allowed;
        let times_out_ms = self.config.call_timeout.map(|timeout| now.deadline(timeout).at_ms);
        let unsafe_admissions = self.unsafe_admissions;
        let flight = Flight {
            upstream,
            permit,
            detached: false,
            unsafe_admissions,
            times_out_ms,
            told_unknown: false,
            told_detached: false,
        };
        self.pending.fly(number, flight, keep_message);
    }

    /// Ends a request with a refusal.
    pub(crate) fn refuse(&mut self, number: u64, refusal: &Refusal, out: &mut Vec<Effect>) {
        self.held.remove(number);
        if let Some(entry) = self.pending.remove(number) {
            out.push(to_client(entry.stream, refusal.render_for(&entry.client_id, &entry.method)));
            if let State::Flying(flight) = entry.state {
                flight.permit.finish();
            }
        }
    }

    /// Ends a request that waits with a refusal. One that had been written, was to be written again and may have changed
    /// something ends with an outcome that is unknown, whatever it waited for.
    pub(crate) fn refuse_waiting(&mut self, number: u64, refusal: &Refusal, out: &mut Vec<Effect>) {
        let written = self.pending.get(number).filter(|it| it.may_have_happened());
        match written.map(|entry| self.outcome_unknown(&entry.work.tool)) {
            Some(unknown) => {
                self.say_unknown(number, out);
                self.refuse(number, &unknown, out);
            }
            None => self.refuse(number, refusal, out),
        }
    }

    /// Ends a request that waits, and that nobody waits for any more.
    pub(crate) fn forget(&mut self, number: u64, out: &mut Vec<Effect>) {
        if self.pending.get(number).is_some_and(Entry::may_have_happened) {
            self.say_unknown(number, out);
        }
        self.held.remove(number);
        self.pending.remove(number);
    }

    /// Settles a call of the current generation, which is dead.
    pub(crate) fn settle_lost(&mut self, number: u64, now: &Now, out: &mut Vec<Effect>) -> Option<Settled> {
        let entry = self.pending.get(number)?;
        let flight = entry.flight()?;
        let settled = settle(&LostFacts {
            class: entry.work.class,
            replay_allowed: entry.replay_allowed,
            replayed: entry.replayed,
            deadline_passed: now.boot_ms >= entry.deadline_ms,
            undisturbed: flight.unsafe_admissions == self.unsafe_admissions,
            wanted: !flight.detached,
        });
        match settled {
            Settled::Replay => {
                if let Some(flight) = self.pending.ground(number) {
                    self.hold_until_proof(flight.permit);
                }
            }
            Settled::Retry => {
                let refusal = self.retry(&entry.work.tool);
                self.refuse(number, &refusal, out);
            }
            Settled::Unknown => {
                let refusal = (!flight.detached).then(|| self.outcome_unknown(&entry.work.tool));
                self.say_unknown(number, out);
                self.linger(number, refusal.as_ref(), out);
            }
        }
        Some(settled)
    }

    /// Reports that a call's outcome is unknown, once.
    pub(crate) fn say_unknown(&mut self, number: u64, out: &mut Vec<Effect>) {
        if self.pending.tell_unknown(number)
            && let Some(entry) = self.pending.get(number)
        {
            out.push(Effect::Unknown(self.open_call(number, entry)));
        }
    }

    /// Reports that the client of a written call is gone, unless it is read-only or known to be lost already.
    pub(crate) fn say_detached(&mut self, number: u64, out: &mut Vec<Effect>) {
        let Some(entry) = self.pending.get(number) else { return };
        let is_unsafe = entry.work.class.is_unsafe() && !is_planted("what-a-dead-client-left-is-not-said");
        if is_unsafe && entry.flight().is_some_and(|flight| !flight.told_unknown) {
            out.push(Effect::Detached(self.open_call(number, entry)));
            self.pending.tell_detached(number);
        }
    }

    /// Ends a call, and lets it hold until its server is proved dead.
    fn linger(&mut self, number: u64, refusal: Option<&Refusal>, out: &mut Vec<Effect>) {
        let Some(entry) = self.pending.remove(number) else { return };
        if let Some(refusal) = refusal {
            out.push(to_client(entry.stream, refusal.render_for(&entry.client_id, &entry.method)));
        }
        if let State::Flying(flight) = entry.state {
            self.hold_until_proof(flight.permit);
        }
    }

    /// The end of a server was seen, but not proved: what isn't read-only may still be executing there.
    fn hold_until_proof(&mut self, mut permit: Permit) {
        permit.detach();
        self.lingering.push(permit);
    }

    /// A read-only call that was written and can't be written again by the relay.
    pub(crate) fn retry(&self, tool: &str) -> Refusal {
        let action = NextAction::RetryCall { component: self.component().clone(), tool: tool.to_owned() };
        self.refusal(RefusalKind::OutcomeUnknown, true, action)
    }

    pub(crate) fn outcome_unknown(&self, tool: &str) -> Refusal {
        let (component, tool) = (self.component().clone(), tool.to_owned());
        let action = NextAction::VerifyThenRetry { component, tool, answer: None };
        self.refusal(RefusalKind::OutcomeUnknown, false, action)
    }

    fn tool_changed(&self, tool: &str) -> Refusal {
        let component = self.component().clone();
        let action =
            NextAction::RefreshTools { component, added: Vec::new(), removed: vec![tool.to_owned()] };
        self.refusal(RefusalKind::ToolChanged, false, action)
    }

    pub(crate) fn open_call(&self, number: u64, entry: &Entry) -> OpenCall {
        OpenCall {
            session: entry.work.session.clone(),
            component: self.component().clone(),
            tool: entry.work.tool.to_string(),
            class: entry.work.class,
            id: OpenCall::id(self.server.generation, number),
        }
    }

    /// Puts subscriptions and log level in force at a generation that doesn't know them, once the gate is open.
    fn reassert(&mut self, out: &mut Vec<Effect>) {
        let open = self.gate.is_open() || is_planted("reasserted-behind-a-closed-gate");
        if !(self.server.to_reassert && self.is_ready() && open) {
            return;
        }
        self.server.to_reassert = false;
        let wanted = self.subscriptions.of_all();
        let subscribe = wanted.subscriptions.iter().map(|uri| ("resources/subscribe", "uri", uri));
        let level = wanted.log_level.iter().map(|level| ("logging/setLevel", "level", level));
        for (method, key, value) in subscribe.chain(level) {
            let params = serde_json::json!({ key: value }).to_string();
            self.write_own(String::new(), method, &params, out);
        }
    }

    pub(crate) fn write_own(&mut self, tag: String, method: &str, params: &str, out: &mut Vec<Effect>) {
        let upstream = self.number();
        self.own.insert(upstream, tag);
        let line = crate::handshake::request_line(&RawId::number(upstream), method, params);
        out.push(Effect::WriteServer { line });
    }
}

pub(crate) fn to_client(stream: StreamId, line: Vec<u8>) -> Effect {
    Effect::ToClient { stream, line }
}
