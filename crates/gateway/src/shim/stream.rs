//! One stream between a client on stdio and a component behind the daemon, across any number of daemons.

use super::book::{Book, NotTaken, Overdue};
use super::connection::Connection;
use super::dial::{Dialer, hopeless};
use super::outgoing::Outgoing;
use super::stdio::{Input, Output};
use crate::lines::{Cutter, Line};
use crate::link::HELLO_TIMEOUT;
use crate::wire::{MESSAGE, Mark, NOTE, Note, Role, Welcome};
use rustix::event::{PollFlags, Timespec, poll};
use std::io;
use std::time::Duration;
use tidegate_core::{Clock as _, ComponentName, Generation, NextAction};
use tidegate_host::SystemClock;
use tidegate_relay::{MessageError, RawId, Refusal, RefusalKind, Settled, salvage_id, settle_marked};

/// How long the shim waits for outstanding answers once its client has closed its input: a client that is ending does not
/// read them, a script that pipes its requests in does.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Answers that wait for a client that doesn't read: two of the largest. Beyond it the daemon isn't read either.
const MAX_UNREAD_BYTES: usize = 2 * crate::lines::MAX_LINE_BYTES;
/// When a client is told to come back after its call found no daemon.
pub(super) const RETRY_AFTER_MS: u64 = 5_000;

/// The connection as it is now.
enum State {
    /// The next attempt is made at this time.
    Waiting { until_ms: u64 },
    /// The daemon has not answered the hello yet; until then it has time.
    Greeting { connection: Connection, until_ms: u64 },
    /// Messages flow.
    Up(Connection),
    /// The daemon has said no: every request is answered so, and the next one tries again.
    Refused,
}

impl State {
    fn connection(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Greeting { connection, .. } | Self::Up(connection) => Some(connection),
            Self::Waiting { .. } | Self::Refused => None,
        }
    }
}

/// Who is ready to be read or written.
#[derive(Default)]
struct Ready {
    client: bool,
    daemon: bool,
    output: bool,
}

/// One thread that waits for everything at once, in one place: nothing is handed from one to another on the way.
struct Stream {
    component: ComponentName,
    hold_ms: u64,
    clock: SystemClock,
    dialer: Dialer,
    book: Book,
    input: Input,
    client: Cutter,
    output: Output,
    to_client: Outgoing,
    state: State,
    /// The client has closed its input; what it still waits for may come until then.
    closing: Option<u64>,
}

/// Serves the client until it has closed its input, or its output is gone.
pub(super) fn run(dialer: Dialer, component: &ComponentName, hold: Duration) {
    let Ok(clock) = SystemClock::new() else { return };
    let mut stream = Stream {
        component: component.clone(),
        hold_ms: ms(hold),
        clock,
        dialer,
        book: Book::default(),
        input: Input::new(),
        client: Cutter::new(),
        output: Output::new(),
        to_client: Outgoing::default(),
        state: State::Waiting { until_ms: 0 },
        closing: None,
    };
    // A client that is gone can't be told anything: its closed output is the end, and no failure.
    let _ = stream.serve();
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Stream {
    fn serve(&mut self) -> io::Result<()> {
        self.time_passed();
        while !self.is_over() {
            let ready = self.wait()?;
            if ready.client {
                self.read_client()?;
            }
            if ready.daemon {
                self.read_daemon();
            }
            self.time_passed();
            self.tell_daemon();
            self.output.flush(&mut self.to_client, ready.output)?;
        }
        Ok(())
    }

    /// Whether nobody waits for anything any more.
    fn is_over(&self) -> bool {
        let Some(until_ms) = self.closing else { return false };
        let waits = !self.book.is_empty() && !matches!(self.state, State::Refused);
        self.now_ms() >= until_ms || !waits && self.to_client.is_empty()
    }

    /// Waits until there is something to do. The daemon is only read while its answers have room, and the client while the
    /// daemon has taken what it said before.
    fn wait(&self) -> io::Result<Ready> {
        let timeout = self.due_ms().map(|due_ms| due_ms.saturating_sub(self.now_ms()));
        let timeout = timeout.map(|ms| Timespec::try_from(Duration::from_millis(ms)));
        let timeout = timeout.transpose().map_err(io::Error::other)?;
        let (connection, behind) = match &self.state {
            State::Greeting { connection, .. } => (Some(connection), false),
            State::Up(connection) => (Some(connection), connection.is_behind()),
            State::Waiting { .. } | State::Refused => (None, false),
        };
        let client = (self.closing.is_none() && !behind).then(|| self.input.poll());
        let daemon = connection.and_then(|it| it.poll(self.to_client.len() < MAX_UNREAD_BYTES));
        let output = (!self.to_client.is_empty()).then(|| self.output.poll());
        let (has_client, has_daemon) = (client.is_some(), daemon.is_some());
        let mut fds: Vec<_> = [client, daemon, output].into_iter().flatten().collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let mut happened = fds.iter().map(|fd| fd.revents() != PollFlags::empty());
        let mut ready = |is_there: bool| is_there && happened.next().unwrap_or(false);
        Ok(Ready { client: ready(has_client), daemon: ready(has_daemon), output: ready(true) })
    }

    /// When something has to be done by itself.
    fn due_ms(&self) -> Option<u64> {
        let attempt = match self.state {
            State::Waiting { until_ms } | State::Greeting { until_ms, .. } => Some(until_ms),
            State::Up(_) | State::Refused => None,
        };
        let overdue = match self.state {
            State::Up(_) => None,
            _ => self.book.oldest_ms().map(|oldest_ms| oldest_ms.saturating_add(self.hold_ms)),
        };
        [attempt, overdue, self.closing].into_iter().flatten().min()
    }

    fn time_passed(&mut self) {
        let now_ms = self.now_ms();
        match self.state {
            State::Waiting { until_ms } if until_ms <= now_ms => self.attempt(),
            State::Greeting { until_ms, .. } if until_ms <= now_ms => {
                self.unreachable(&io::ErrorKind::TimedOut.into());
            }
            _ => {}
        }
        self.answer_overdue();
    }

    fn read_client(&mut self) -> io::Result<()> {
        match self.input.read(self.client.room())? {
            0 => self.closing = Some(self.now_ms() + ms(LAST_ANSWERS)),
            n => self.client.filled(n),
        }
        while let Some(line) = self.client.next() {
            match line {
                Line::Whole(line) => self.client_line(&line),
                Line::TooLong { bytes, head, tail } => self.too_long(bytes, &head, &tail),
                Line::Torn { .. } => {}
            }
        }
        Ok(())
    }

    fn read_daemon(&mut self) {
        let Some(connection) = self.state.connection() else { return };
        let mut open = connection.fill();
        while let Some(line) = self.state.connection().and_then(Connection::next) {
            match line {
                Line::Whole(line) if matches!(self.state, State::Up(_)) => self.daemon_line(&line),
                Line::Whole(line) => self.greeted(&line),
                Line::TooLong { .. } | Line::Torn { .. } => open = false,
            }
        }
        if !open {
            self.lost();
        }
    }

    fn lost(&mut self) {
        match self.hang_up() {
            State::Up(_) => self.dial_later(),
            State::Greeting { .. } => self.unreachable(&io::ErrorKind::UnexpectedEof.into()),
            // It was refused with its last line.
            other => self.state = other,
        }
    }

    /// Ends the connection. What the daemon had begun to forward on it is in the marks.
    fn hang_up(&mut self) -> State {
        let state = std::mem::replace(&mut self.state, State::Refused);
        if let State::Up(connection) = &state {
            match connection.marks() {
                Ok(marks) => self.book.connection_lost(&marks),
                Err(_) => self.book.marks_lost(),
            }
        }
        state
    }

    /// Plans an attempt to reach the daemon.
    fn dial(&mut self) {
        self.state = State::Waiting { until_ms: self.now_ms() + ms(self.dialer.pause()) };
    }

    fn dial_later(&mut self) {
        self.dialer.failed();
        self.dial();
    }

    fn attempt(&mut self) {
        let now_ms = self.now_ms();
        let resume = self.dialer.served_before().then(|| self.book.resume(now_ms));
        let component = self.component.clone();
        let hello = self.dialer.hello(|attach| Role::Stream { component, attach, resume });
        match Connection::open(&self.dialer.socket, &hello) {
            Ok(connection) => {
                self.state = State::Greeting { connection, until_ms: now_ms + ms(HELLO_TIMEOUT) };
            }
            Err(error) => self.unreachable(&error),
        }
    }

    /// The daemon is given what it takes.
    fn tell_daemon(&mut self) {
        let Some(connection) = self.state.connection() else { return };
        if connection.flush().is_err() {
            // What it said before that is still to be read; its end is what ends the connection.
            connection.forget_unwritten();
        }
        if matches!(&self.state, State::Up(connection) if !connection.is_behind()) {
            self.book.all_taken();
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().boot_ms
    }

    fn greeted(&mut self, line: &[u8]) {
        let Ok(welcome) = serde_json::from_slice(line) else {
            return self.refused("the daemon speaks another version");
        };
        self.dialer.welcomed(&welcome);
        match welcome {
            Welcome::Open { notice, .. } => {
                if let Some(notice) = notice {
                    say(&notice);
                }
                match std::mem::replace(&mut self.state, State::Refused) {
                    State::Greeting { mut connection, .. } if connection.has_marks() => {
                        self.book.send_again(|line| connection.send(line));
                        self.state = State::Up(connection);
                    }
                    _ => self.refused("the daemon gave no file for its marks"),
                }
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
            State::Up(connection) => self.book.newest_sent(connection.send(line)),
            State::Refused => self.dial(),
            State::Waiting { .. } | State::Greeting { .. } => {}
        }
    }

    fn daemon_line(&mut self, line: &[u8]) {
        match line.split_first() {
            Some((&MESSAGE, message)) => {
                self.book.daemon_line(message);
                self.answer(message);
            }
            Some((&NOTE, note)) => match serde_json::from_slice(note) {
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
        self.hang_up();
        for Overdue { id, method, mark } in self.book.overdue(u64::MAX) {
            match mark {
                Some(mark) => self.settle_lost(&id, &method, mark),
                None => {
                    let Some(id) = RawId::new(&id) else { continue };
                    self.answer(&self.contact().render_saying(&id, &method, message));
                }
            }
        }
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
        if matches!(self.state, State::Up(_)) {
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
                next_action: NextAction::VerifyThenRetry { component, tool, answer: None },
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
