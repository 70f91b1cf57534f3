//! One stream between a client on stdio and a component behind the daemon, across any number of daemons.

use super::book::{Book, NotTaken, Overdue};
use super::dial::{Dialer, hopeless};
use super::outgoing::Outgoing;
use crate::lines::{Line, Lines};
use crate::link::Link;
use crate::wire::{MESSAGE, Mark, NOTE, Note, Role, Welcome, frame};
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tidegate_core::{Clock as _, ComponentName, Generation, NextAction};
use tidegate_host::SystemClock;
use tidegate_relay::{MessageError, RawId, Refusal, RefusalKind, Settled, salvage_id, settle_marked};
use tokio::io::{AsyncWriteExt as _, Stdout};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::MissedTickBehavior;

/// How long the shim waits for outstanding answers once its client has closed its input: a client that is ending does not
/// read them, a script that pipes its requests in does.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// How often overdue requests are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Answers that wait for a client that doesn't read: two of the largest. Beyond it the daemon isn't read either.
const MAX_UNREAD_BYTES: usize = 2 * crate::lines::MAX_LINE_BYTES;
/// When a client is told to come back after its call found no daemon.
const RETRY_AFTER_MS: u64 = 5_000;

/// The connection as it is now.
enum State {
    /// An attempt is under way.
    Dialing(Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>),
    /// Messages flow.
    Up { writer: OwnedWriteHalf, to_daemon: Outgoing, lines: Lines<OwnedReadHalf> },
    /// The daemon has said no: every request is answered so, and the next one tries again.
    Refused,
}

/// What happened at the daemon's side.
enum Event {
    Linked(io::Result<Link>),
    Line(io::Result<Option<Line>>),
    /// It has taken a part of what waits for it, or all.
    Took(io::Result<bool>),
}

impl State {
    /// Waits for what happens next; the daemon is only read while its answers have room.
    ///
    /// # Cancel safety
    /// Safe: an attempt goes on when it is waited for again, and what was read of a line is kept.
    async fn next(&mut self, to_be_read: bool) -> Event {
        match self {
            Self::Dialing(attempt) => Event::Linked(attempt.await),
            Self::Up { writer, to_daemon, lines } => tokio::select! {
                line = lines.next(), if to_be_read => Event::Line(line),
                took = to_daemon.write_some(writer) => Event::Took(took),
            },
            Self::Refused => std::future::pending().await,
        }
    }

    /// Whether the daemon has yet to take what the client said before.
    fn is_behind(&self) -> bool {
        matches!(self, Self::Up { to_daemon, .. } if !to_daemon.is_empty())
    }
}

struct Stream {
    component: ComponentName,
    hold_ms: u64,
    clock: SystemClock,
    dialer: Dialer,
    book: Book,
    stdout: Stdout,
    to_client: Outgoing,
    state: State,
}

/// Serves the client until it has closed its input, or its output is gone.
pub(super) async fn run(dialer: Dialer, component: &ComponentName, hold: Duration) {
    let Ok(clock) = SystemClock::new() else { return };
    let hold_ms = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
    let mut stream = Stream {
        component: component.clone(),
        hold_ms,
        clock,
        dialer,
        book: Book::default(),
        stdout: tokio::io::stdout(),
        to_client: Outgoing::default(),
        state: State::Refused,
    };
    stream.dial();
    // A client that is gone can't be told anything: its closed output is the end, and no failure.
    let _ = stream.serve().await;
}

impl Stream {
    async fn serve(&mut self) -> io::Result<()> {
        let mut client = Lines::new(tokio::io::stdin());
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (behind, room) = (self.state.is_behind(), self.to_client.len() < MAX_UNREAD_BYTES);
            tokio::select! {
                line = client.next(), if !behind => match line? {
                    Some(Line::Whole(line)) => self.client_line(&line),
                    Some(Line::TooLong { bytes, head, tail }) => self.too_long(bytes, &head, &tail),
                    Some(Line::Torn { .. }) | None => return self.last_answers().await,
                },
                event = self.state.next(room) => self.daemon(event),
                took = self.to_client.write_some(&mut self.stdout) => drop(took?),
                _ = look.tick() => self.answer_overdue(),
            }
        }
    }

    /// The client has closed its input: what it still waits for may come, for a while.
    async fn last_answers(&mut self) -> io::Result<()> {
        let until = tokio::time::Instant::now() + LAST_ANSWERS;
        let waits = |it: &Self| !it.book.is_empty() && !matches!(it.state, State::Refused);
        while waits(self) || !self.to_client.is_empty() {
            let room = self.to_client.len() < MAX_UNREAD_BYTES;
            tokio::select! {
                event = self.state.next(room) => self.daemon(event),
                took = self.to_client.write_some(&mut self.stdout) => drop(took?),
                () = tokio::time::sleep_until(until) => return Ok(()),
            }
        }
        tokio::time::timeout_at(until, self.stdout.flush()).await.unwrap_or(Ok(()))
    }

    /// Begins an attempt to reach the daemon.
    fn dial(&mut self) {
        let resume = self.dialer.served_before().then(|| self.book.resume(self.now_ms()));
        let component = self.component.clone();
        let hello = self.dialer.hello(|attach| Role::Stream { component, attach, resume });
        self.state = State::Dialing(Box::pin(self.dialer.dial(hello)));
    }

    fn dial_later(&mut self) {
        self.dialer.failed();
        self.dial();
    }

    fn daemon(&mut self, event: Event) {
        match event {
            Event::Linked(Ok(link)) => self.linked(link),
            Event::Linked(Err(error)) => self.unreachable(&error),
            Event::Line(Ok(Some(Line::Whole(line)))) => self.daemon_line(&line),
            Event::Line(_) => self.dial_later(),
            Event::Took(Ok(true)) => self.book.newest_sent(),
            Event::Took(Ok(false)) => {}
            Event::Took(Err(_)) => self.forget_unwritten(),
        }
    }

    /// The daemon takes nothing more. What it said before that is still to be read; its end is what ends the connection.
    fn forget_unwritten(&mut self) {
        if let State::Up { to_daemon, .. } = &mut self.state {
            *to_daemon = Outgoing::default();
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().boot_ms
    }

    fn linked(&mut self, Link { lines, writer, welcome }: Link) {
        self.dialer.welcomed(&welcome);
        match welcome {
            Welcome::Open { notice, .. } => {
                if let Some(notice) = notice {
                    say(&notice);
                }
                let mut to_daemon = Outgoing::default();
                for line in self.book.unsent() {
                    to_daemon.push(&frame(MESSAGE, &line));
                }
                self.state = State::Up { writer, to_daemon, lines };
            }
            Welcome::Refused { retry: true, .. } => self.dial_later(),
            Welcome::Refused { message, .. } => self.refused(&message),
        }
    }

    fn unreachable(&mut self, error: &io::Error) {
        let socket = self.dialer.socket.display();
        if hopeless(error) {
            let message = format!(
                "no permission to use the daemon's socket {socket}: run as the user that runs `tidegate serve`"
            );
            return self.refused(&message);
        }
        if self.dialer.first_failure() {
            say(&format!("waiting for a daemon at {socket} ({error}); start one with `tidegate serve`"));
        }
        self.dial_later();
    }

    fn client_line(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let now_ms = self.now_ms();
        match self.book.client_line(line, now_ms) {
            Ok(()) => {}
            Err(NotTaken::Full { id: None, .. }) => return,
            Err(NotTaken::Full { id: Some(id), method }) => {
                return self.refuse(&id, &method, self.come_back(RefusalKind::Unavailable));
            }
            Err(NotTaken::InFlight { id }) => {
                let message = format!("the id {id} belongs to a request that is in flight; use another one");
                return self.error(&id, &serde_json::json!({ "code": -32_600, "message": message }));
            }
        }
        match &mut self.state {
            // A write that fails shows as the end of the daemon's lines, and everything is sent again then.
            State::Up { to_daemon, .. } => to_daemon.push(&frame(MESSAGE, line)),
            State::Refused => self.dial(),
            State::Dialing(_) => {}
        }
    }

    fn daemon_line(&mut self, line: &[u8]) {
        match line.split_first() {
            Some((&MESSAGE, message)) => {
                self.book.daemon_line(message);
                self.answer(message);
            }
            Some((&NOTE, note)) => match serde_json::from_slice(note) {
                Ok(Note::Forwarding { id, mark }) => self.book.forwarding(id.get(), mark),
                Ok(Note::End { message }) => self.refused(&message),
                Err(error) => self.refused(&format!("the daemon speaks another version ({error})")),
            },
            _ => self.refused("the daemon speaks another version"),
        }
    }

    fn answer(&mut self, message: &[u8]) {
        self.to_client.push(message);
        self.to_client.push(b"\n");
    }

    fn error(&mut self, id: &str, error: &serde_json::Value) {
        self.answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).as_bytes());
    }

    /// Answers every request with what the daemon said.
    fn refused(&mut self, message: &str) {
        say(message);
        for Overdue { id, method, mark } in self.book.overdue(u64::MAX) {
            match mark {
                Some(mark) => self.settle_lost(&id, &method, mark),
                None => {
                    let error = serde_json::json!({ "code": RefusalKind::Unavailable.code(), "message": message,
                        "data": self.contact().to_json() });
                    self.error(&id, &error);
                }
            }
        }
        self.state = State::Refused;
    }

    /// The request that was too long gets its answer; others live.
    fn too_long(&mut self, bytes: u64, head: &[u8], tail: &[u8]) {
        let id = salvage_id(head, tail).map_or_else(|| "null".to_owned(), |id| id.to_string());
        let why = MessageError::TooLong { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) };
        let error = serde_json::json!({ "code": why.code(), "message": why.to_string() });
        self.error(&id, &error);
    }

    /// Answers what has waited for a daemon for as long as a hold lasts.
    fn answer_overdue(&mut self) {
        if matches!(self.state, State::Up { .. }) {
            return;
        }
        let Some(limit_ms) = self.now_ms().checked_sub(self.hold_ms) else { return };
        for Overdue { id, method, mark } in self.book.overdue(limit_ms) {
            match mark {
                Some(mark) => self.settle_lost(&id, &method, mark),
                None => self.refuse(&id, &method, self.come_back(RefusalKind::Unavailable)),
            }
        }
    }

    /// A call that a daemon had begun to forward, and no daemon has come back to say what became of it.
    fn settle_lost(&mut self, id: &str, method: &str, mark: Mark) {
        let (component, tool) = (self.component.clone(), mark.tool);
        // Its deadline has passed, as far as this client is concerned: it waits no longer.
        let refusal = match settle_marked(mark.class, true) {
            Settled::Unknown => Refusal {
                kind: RefusalKind::OutcomeUnknown,
                next_action: NextAction::VerifyThenRetry { component, tool },
                ..self.contact()
            },
            Settled::Retry | Settled::Replay => Refusal {
                next_action: NextAction::RetryCall { component, tool },
                ..self.come_back(RefusalKind::OutcomeUnknown)
            },
        };
        self.refuse(id, method, refusal);
    }

    fn refuse(&mut self, id: &str, method: &str, refusal: Refusal) {
        let Some(id) = RawId::new(id) else { return };
        self.answer(&refusal.render_for(&id, method));
    }

    fn come_back(&self, kind: RefusalKind) -> Refusal {
        let component = self.component.clone();
        let action =
            NextAction::WaitForRestart { component, operation: None, retry_after_ms: RETRY_AFTER_MS };
        Refusal {
            kind,
            retryable: true,
            retry_after_ms: Some(RETRY_AFTER_MS),
            next_action: action,
            ..self.contact()
        }
    }

    fn contact(&self) -> Refusal {
        Refusal {
            kind: RefusalKind::Unavailable,
            retryable: false,
            retry_after_ms: None,
            component: self.component.clone(),
            generation: Generation(0),
            operation: None,
            next_action: NextAction::ContactOperator { incident: None },
        }
    }
}

/// A shim's stdout belongs to the protocol; clients show its stderr.
fn say(message: &str) {
    crate::stderr::say(format_args!("tidegate: {message}"));
}
