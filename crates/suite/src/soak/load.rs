//! The sessions at work: each has one call under way at most, and keeps what it was told.

use crate::harness::{Call, Client, GLANCE, Stopwatch, refusal};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A call without an answer for so long hangs: more than a hold and a drain together.
const HANGS_AFTER: Duration = Duration::from_secs(60);
/// One call in so many reads.
const READS: u32 = 4;

/// What a session was told of a call that may change something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) what: What,
}

/// An answer, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// It was executed.
    Done,
    /// Nobody knows.
    Unknown,
    /// It was not executed.
    NotDone(String),
}

struct Session {
    client: Client,
    /// The call under way, since when, and the text of one that isn't a read.
    open: Option<(Call, Duration, Option<String>)>,
    next_at: Duration,
    made: u64,
}

/// Some of the sessions, driven by one thread.
pub(super) struct Load {
    sessions: Vec<Session>,
    pace: Duration,
    random: fastrand::Rng,
    told: Vec<Told>,
}

impl Load {
    pub(super) fn new(clients: Vec<Client>, pace: Duration, seed: u64) -> Self {
        let session = |client| Session { client, open: None, next_at: Duration::ZERO, made: 0 };
        let sessions = clients.into_iter().map(session).collect();
        Self { sessions, pace, random: fastrand::Rng::with_seed(seed), told: Vec::new() }
    }

    /// Works until it is over and everything is answered; gives what was told, and how many calls hang.
    pub(super) fn drive(mut self, clock: &Stopwatch, over: &AtomicBool) -> (Vec<Told>, usize) {
        loop {
            let (now, is_over) = (clock.elapsed(), over.load(Ordering::Acquire));
            let (mut open, mut hung) = (0, 0);
            for at in 0..self.sessions.len() {
                self.look(at);
                let session = &mut self.sessions[at];
                match &session.open {
                    Some((_, since, _)) if now.saturating_sub(*since) > HANGS_AFTER => hung += 1,
                    Some(_) => open += 1,
                    None if !is_over && session.next_at <= now => self.begin(at, now),
                    None => {}
                }
            }
            if hung > 0 || (is_over && open == 0) {
                return (self.told, hung);
            }
            std::thread::park_timeout(GLANCE);
        }
    }

    fn begin(&mut self, at: usize, now: Duration) {
        let session = &mut self.sessions[at];
        session.made += 1;
        session.next_at = now + self.pace.mul_f64(0.5 + self.random.f64());
        let text = format!("{}-{}", session.client.pid(), session.made);
        let delay_ms = self.random.u64(0..20);
        let reads = self.random.u32(0..READS) == 0;
        let call = match reads {
            true => session.client.call("read", json!({ "key": "k" })),
            false => session.client.call("append", json!({ "text": text, "delay_ms": delay_ms })),
        };
        session.open = Some((call, now, (!reads).then_some(text)));
    }

    /// Takes the answer, if there is one.
    fn look(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        let Some((call, ..)) = &session.open else { return };
        if !session.client.has_answered(call) {
            return;
        }
        let answer = session.client.answer(call);
        if let Some((_, _, Some(text))) = session.open.take() {
            self.told.push(Told { text, what: sorted(&answer) });
        }
    }
}

fn sorted(answer: &Value) -> What {
    match refusal(answer).map(|refusal| refusal["kind"].as_str().unwrap_or_default().to_owned()) {
        None if answer["result"]["structuredContent"].is_object() => What::Done,
        None => What::NotDone(answer.to_string()),
        Some(kind) if kind == "outcome_unknown" => What::Unknown,
        Some(kind) => What::NotDone(kind),
    }
}
