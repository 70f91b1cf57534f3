//! A client's shim: one stream across any number of daemons, and its book of what is unanswered and what was forwarded.

use crate::channel::{Receiver, Sender, channel};
use crate::daemon::{Hello, Mark, Outbox, Reported, ToShim};
use crate::executor::Sleep;
use crate::observe::{CallId, Fact, Outcome, Seen};
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tidegate_core::{ComponentName, NextAction, ProcessIdentity, SessionId, SessionName};
use tidegate_relay::{Marked, RawId, Refusal, RefusalKind, Settled, settle_marked};

/// How often overdue requests are looked for, and a daemon while there is none.
const LOOK_EVERY_MS: u64 = 200;
/// When a client is told to come back after its call found no daemon.
const RETRY_AFTER_MS: u64 = 5_000;

/// A request of the client's.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) answer: Sender<Outcome>,
}

/// What the client says.
pub(crate) enum Says {
    Call(Call),
    Cancel(CallId),
}

struct Entry {
    call: CallId,
    method: String,
    line: Vec<u8>,
    arrived_ms: u64,
    mark: Option<Mark>,
    answer: Sender<Outcome>,
}

enum State {
    /// There is no connection; the next attempt comes with the next look.
    Down,
    /// It is not welcomed yet.
    Dialing(Sender<Vec<u8>>),
    Up(Sender<Vec<u8>>),
    /// The daemon has said no.
    Refused,
}

/// One stream.
pub(crate) struct Shim {
    pub(crate) world: Arc<World>,
    pub(crate) component: ComponentName,
    pub(crate) name: SessionName,
    pub(crate) client: ProcessIdentity,
    /// Whether its client answers what servers ask.
    pub(crate) answers: bool,
    /// Told the session it belongs to.
    pub(crate) attached: Sender<SessionId>,
    book: BTreeMap<u64, Entry>,
    last_id: u64,
    state: State,
    connection: u64,
    session: Option<SessionId>,
    served: bool,
}

enum Wake {
    Client(Option<Says>),
    Daemon(u64, ToShim),
    Look,
}

impl Shim {
    pub(crate) fn new(
        world: &Arc<World>,
        component: ComponentName,
        name: SessionName,
        client: ProcessIdentity,
        answers: bool,
        attached: Sender<SessionId>,
    ) -> Self {
        Self {
            world: world.clone(),
            component,
            name,
            client,
            answers,
            attached,
            book: BTreeMap::new(),
            last_id: 0,
            state: State::Down,
            connection: 0,
            session: None,
            served: false,
        }
    }

    /// Runs until its client closes its input.
    pub(crate) async fn run(mut self, mut client: Receiver<Says>) {
        let (own, mut daemon) = channel();
        let mut look = self.world.executor.sleep(0);
        loop {
            match next(&mut client, &mut daemon, &mut look).await {
                Wake::Client(None) => return,
                Wake::Client(Some(Says::Call(call))) => self.call(call),
                Wake::Client(Some(Says::Cancel(call))) => self.cancel(&call),
                Wake::Daemon(connection, said) if connection == self.connection => self.hears(said),
                Wake::Daemon(..) => {}
                Wake::Look => {
                    look = self.world.executor.sleep(LOOK_EVERY_MS);
                    if matches!(self.state, State::Down) {
                        self.dial(&own);
                    }
                    self.answer_overdue();
                }
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.world.executor.now_ms()
    }

    fn dial(&mut self, own: &Sender<(u64, ToShim)>) {
        let Some(daemon) = self.world.daemon() else { return };
        self.connection += 1;
        let now_ms = self.now_ms();
        let resume = self.served.then(|| {
            let marked = |entry: &Entry| -> Option<Reported> {
                let Mark { class, tool, call } = entry.mark.clone()?;
                let age = Duration::from_millis(now_ms - entry.arrived_ms);
                Some((Marked { line: entry.line.clone(), class, tool, age }, call))
            };
            self.book.values().filter_map(marked).collect()
        });
        let hello = Hello {
            component: self.component.clone(),
            session: self.name.clone(),
            client: self.client.clone(),
            resume,
        };
        self.state = State::Dialing(daemon.connect(hello, Outbox::new(self.connection, own.clone())));
    }

    fn hears(&mut self, said: ToShim) {
        match said {
            ToShim::Welcome(session) => self.welcomed(session),
            ToShim::Refused { retry: true } => self.state = State::Down,
            ToShim::Refused { retry: false } | ToShim::End => {
                self.lost();
                self.state = State::Refused;
                let calls: Vec<u64> = self.book.keys().copied().collect();
                calls.into_iter().for_each(|id| self.settle(id));
            }
            ToShim::Lost => self.lost(),
            ToShim::Forwarding { id, mark } => {
                if let Some(entry) = id.as_number().and_then(|id| self.book.get_mut(&id)) {
                    entry.mark = Some(mark);
                }
            }
            ToShim::Line(line) => self.line(&line),
        }
    }

    fn welcomed(&mut self, session: SessionId) {
        let State::Dialing(to_daemon) = std::mem::replace(&mut self.state, State::Down) else { return };
        for entry in self.book.values().filter(|entry| entry.mark.is_none()) {
            to_daemon.send(entry.line.clone());
        }
        self.state = State::Up(to_daemon);
        self.served = true;
        // From now on it is this session, whatever it was called before.
        self.name = session.name.clone();
        self.world.see(Seen::Connected {
            session: session.clone(),
            component: self.component.clone(),
            up: true,
        });
        self.world.see(Seen::Kept { session: session.clone(), fact: Fact::Attached });
        self.session = Some(session.clone());
        self.attached.send(session);
    }

    fn lost(&mut self) {
        self.state = State::Down;
        if let Some(session) = self.session.clone() {
            self.world.see(Seen::Connected { session, component: self.component.clone(), up: false });
        }
    }

    fn call(&mut self, call: Call) {
        self.last_id += 1;
        let id = self.last_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": call.method, "params": call.params });
        let line = line.to_string().into_bytes();
        if let State::Up(to_daemon) = &self.state {
            to_daemon.send(line.clone());
        }
        if matches!(self.state, State::Refused) {
            self.state = State::Down;
        }
        let arrived_ms = self.now_ms();
        let entry =
            Entry { call: call.id, method: call.method, line, arrived_ms, mark: None, answer: call.answer };
        self.book.insert(id, entry);
    }

    fn cancel(&mut self, call: &CallId) {
        let Some(id) = self.book.iter().find(|(_, entry)| entry.call == *call).map(|(id, _)| *id) else {
            return;
        };
        // Without a connection there is nobody to cancel it; its answer will find nobody either.
        if let State::Up(to_daemon) = &self.state {
            let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
            to_daemon.send(note.to_string().into_bytes());
        }
        self.book.remove(&id);
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        if message["method"].is_string() {
            if let (true, Some(id), State::Up(to_daemon)) =
                (self.answers, message["id"].as_u64(), &self.state)
            {
                to_daemon.send(json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string().into_bytes());
            }
            return;
        }
        let Some(id) = message["id"].as_u64() else { return };
        self.deliver(id, Outcome::of(&message), false);
    }

    fn deliver(&mut self, id: u64, outcome: Outcome, local: bool) {
        let Some(entry) = self.book.remove(&id) else { return };
        self.world.say(&self.name, format!("{} → {outcome}", entry.call));
        self.world.see(Seen::Delivered { call: entry.call, outcome: outcome.clone(), local });
        entry.answer.send(outcome);
    }

    /// Answers what has waited for a daemon for as long as a hold lasts.
    fn answer_overdue(&mut self) {
        if matches!(self.state, State::Up(_)) {
            return;
        }
        let Some(limit_ms) = self.now_ms().checked_sub(self.world.story.rules.hold_ms) else { return };
        let late = self.book.iter().filter(|(_, entry)| entry.arrived_ms <= limit_ms);
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.settle(id));
    }

    /// Answers a request that no daemon will: as lost where one had begun to forward it.
    fn settle(&mut self, id: u64) {
        let Some(entry) = self.book.get(&id) else { return };
        let component = self.component.clone();
        let (kind, next_action) = match &entry.mark {
            None => {
                let retry_after_ms = RETRY_AFTER_MS;
                (
                    RefusalKind::Unavailable,
                    NextAction::WaitForRestart { component, operation: None, retry_after_ms },
                )
            }
            Some(Mark { class, tool, .. }) => match settle_marked(*class, true) {
                Settled::Unknown => (
                    RefusalKind::OutcomeUnknown,
                    NextAction::VerifyThenRetry { component, tool: tool.clone(), answer: None },
                ),
                Settled::Retry | Settled::Replay => {
                    (RefusalKind::OutcomeUnknown, NextAction::RetryCall { component, tool: tool.clone() })
                }
            },
        };
        let refusal = Refusal {
            kind,
            retryable: entry.mark.is_none(),
            retry_after_ms: None,
            component: self.component.clone(),
            generation: Default::default(),
            operation: None,
            next_action,
        };
        let line = refusal.render_for(&RawId::number(id), &entry.method);
        if let Ok(message) = serde_json::from_slice::<Value>(&line) {
            self.deliver(id, Outcome::of(&message), true);
        }
    }
}

async fn next(client: &mut Receiver<Says>, daemon: &mut Receiver<(u64, ToShim)>, look: &mut Sleep) -> Wake {
    let (mut says, mut hears) = (Box::pin(client.recv()), Box::pin(daemon.recv()));
    poll_fn(|context| {
        if let Poll::Ready(Some((connection, said))) = hears.as_mut().poll(context) {
            return Poll::Ready(Wake::Daemon(connection, said));
        }
        if let Poll::Ready(says) = says.as_mut().poll(context) {
            return Poll::Ready(Wake::Client(says));
        }
        Pin::new(&mut *look).poll(context).map(|()| Wake::Look)
    })
    .await
}
