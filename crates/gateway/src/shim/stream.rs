//! One stream between a client on stdio and a component behind the daemon, across any number of daemons.

use super::book::{Book, Full, Overdue};
use super::dial::{Dialer, hopeless};
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
/// When a client is told to come back after its call found no daemon.
const RETRY_AFTER_MS: u64 = 5_000;

/// The connection as it is now.
enum State {
    /// An attempt is under way.
    Dialing(Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>),
    /// Messages flow.
    Up { writer: OwnedWriteHalf, lines: Lines<OwnedReadHalf> },
    /// The daemon has said no: every request is answered so, and the next one tries again.
    Refused,
}

/// What happened at the daemon's side.
enum Event {
    Linked(io::Result<Link>),
    Line(io::Result<Option<Line>>),
}

impl State {
    /// Waits for what happens next.
    ///
    /// # Cancel safety
    /// Safe: an attempt goes on when it is waited for again, and what was read of a line is kept.
    async fn next(&mut self) -> Event {
        match self {
            Self::Dialing(attempt) => Event::Linked(attempt.await),
            Self::Up { lines, .. } => Event::Line(lines.next().await),
            Self::Refused => std::future::pending().await,
        }
    }
}

struct Stream {
    component: ComponentName,
    hold_ms: u64,
    clock: SystemClock,
    dialer: Dialer,
    book: Book,
    stdout: Stdout,
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
            tokio::select! {
                line = client.next() => match line? {
                    Some(Line::Whole(line)) => self.client_line(&line).await?,
                    Some(Line::TooLong { bytes, head, tail }) => self.too_long(bytes, &head, &tail).await?,
                    Some(Line::Torn { .. }) | None => return self.last_answers().await,
                },
                event = self.state.next() => self.daemon(event).await?,
                _ = look.tick() => self.answer_overdue().await?,
            }
        }
    }

    /// The client has closed its input: what it still waits for may come, for a while.
    async fn last_answers(&mut self) -> io::Result<()> {
        let until = tokio::time::Instant::now() + LAST_ANSWERS;
        while !self.book.is_empty() && !matches!(self.state, State::Refused) {
            match tokio::time::timeout_at(until, self.state.next()).await {
                Ok(event) => self.daemon(event).await?,
                Err(_) => break,
            }
        }
        Ok(())
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

    async fn daemon(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Linked(Ok(link)) => self.linked(link).await,
            Event::Linked(Err(error)) => self.unreachable(&error).await,
            Event::Line(Ok(Some(Line::Whole(line)))) => self.daemon_line(&line).await,
            Event::Line(_) => {
                self.dial_later();
                Ok(())
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().boot_ms
    }

    async fn linked(&mut self, Link { lines, mut writer, welcome }: Link) -> io::Result<()> {
        self.dialer.welcomed(&welcome);
        match welcome {
            Welcome::Open { notice, .. } => {
                if let Some(notice) = notice {
                    say(&notice);
                }
                for line in self.book.unsent() {
                    if writer.write_all(&frame(MESSAGE, &line)).await.is_err() {
                        self.dial_later();
                        return Ok(());
                    }
                }
                self.state = State::Up { writer, lines };
                Ok(())
            }
            Welcome::Refused { retry: true, .. } => {
                self.dial_later();
                Ok(())
            }
            Welcome::Refused { message, .. } => self.refused(&message).await,
        }
    }

    async fn unreachable(&mut self, error: &io::Error) -> io::Result<()> {
        let socket = self.dialer.socket.display();
        if hopeless(error) {
            let message = format!(
                "no permission to use the daemon's socket {socket}: run as the user that runs `tidegate serve`"
            );
            return self.refused(&message).await;
        }
        if self.dialer.first_failure() {
            say(&format!("waiting for a daemon at {socket} ({error}); start one with `tidegate serve`"));
        }
        self.dial_later();
        Ok(())
    }

    async fn client_line(&mut self, line: &[u8]) -> io::Result<()> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let now_ms = self.now_ms();
        match self.book.client_line(line, now_ms) {
            Ok(()) => {}
            Err(Full { id: None, .. }) => return Ok(()),
            Err(Full { id: Some(id), method }) => {
                return self.refuse(&id, &method, self.come_back(RefusalKind::Unavailable)).await;
            }
        }
        if let State::Up { writer, .. } = &mut self.state
            && writer.write_all(&frame(MESSAGE, line)).await.is_ok()
        {
            self.book.newest_sent();
        }
        // A write that failed shows as the end of the daemon's lines, and everything is sent again then.
        if let State::Refused = self.state {
            self.dial();
        }
        Ok(())
    }

    async fn daemon_line(&mut self, line: &[u8]) -> io::Result<()> {
        match line.split_first() {
            Some((&MESSAGE, message)) => {
                self.book.daemon_line(message);
                self.answer(message).await
            }
            Some((&NOTE, note)) => match serde_json::from_slice(note) {
                Ok(Note::Forwarding { id, mark }) => {
                    self.book.forwarding(id.get(), mark);
                    Ok(())
                }
                Ok(Note::End { message }) => self.refused(&message).await,
                Err(error) => self.refused(&format!("the daemon speaks another version ({error})")).await,
            },
            _ => self.refused("the daemon speaks another version").await,
        }
    }

    async fn answer(&mut self, message: &[u8]) -> io::Result<()> {
        self.stdout.write_all(message).await?;
        self.stdout.write_all(b"\n").await?;
        self.stdout.flush().await
    }

    /// Answers every request with what the daemon said.
    async fn refused(&mut self, message: &str) -> io::Result<()> {
        say(message);
        for Overdue { id, method, mark } in self.book.overdue(u64::MAX) {
            match mark {
                Some(mark) => self.settle_lost(&id, &method, mark).await?,
                None => {
                    let error = serde_json::json!({ "code": RefusalKind::Unavailable.code(), "message": message,
                        "data": self.contact().to_json() });
                    self.answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).as_bytes())
                        .await?;
                }
            }
        }
        self.state = State::Refused;
        Ok(())
    }

    /// The request that was too long gets its answer; others live.
    async fn too_long(&mut self, bytes: u64, head: &[u8], tail: &[u8]) -> io::Result<()> {
        let id = salvage_id(head, tail).map_or_else(|| "null".to_owned(), |id| id.to_string());
        let why = MessageError::TooLong { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) };
        let error = serde_json::json!({ "code": why.code(), "message": why.to_string() });
        self.answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).as_bytes()).await
    }

    /// Answers what has waited for a daemon for as long as a hold lasts.
    async fn answer_overdue(&mut self) -> io::Result<()> {
        if matches!(self.state, State::Up { .. }) {
            return Ok(());
        }
        let Some(limit_ms) = self.now_ms().checked_sub(self.hold_ms) else { return Ok(()) };
        for Overdue { id, method, mark } in self.book.overdue(limit_ms) {
            match mark {
                Some(mark) => self.settle_lost(&id, &method, mark).await?,
                None => self.refuse(&id, &method, self.come_back(RefusalKind::Unavailable)).await?,
            }
        }
        Ok(())
    }

    /// A call that a daemon had begun to forward, and no daemon has come back to say what became of it.
    async fn settle_lost(&mut self, id: &str, method: &str, mark: Mark) -> io::Result<()> {
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
        self.refuse(id, method, refusal).await
    }

    async fn refuse(&mut self, id: &str, method: &str, refusal: Refusal) -> io::Result<()> {
        let Some(id) = RawId::new(id) else { return Ok(()) };
        self.answer(&refusal.render_for(&id, method)).await
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

#[allow(clippy::print_stderr)] // a shim's stdout belongs to the protocol; clients show its stderr
fn say(message: &str) {
    eprintln!("tidegate: {message}");
}
