//! One connection from its hello to its end: who it is, which session it belongs to, and where its lines go.

use super::Daemon;
use super::component::{Handle, Msg, Peer, Resumed};
use super::context::{grumble, say};
use super::documents;
use super::outbox::Outbox;
use super::sessions::Connection;
use super::site::Site;
use crate::api::{Failure, Reply, Request};
use crate::config::nearest;
use crate::keeper::KeptCall;
use crate::lines::{Line, Lines};
use crate::marks::Marks;
use crate::wire::{Attach, Hello, MAX_HELLO_BYTES, MESSAGE, Resume, Role, WIRE_VERSION, Welcome, json_line};
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_checkpoints::{Checkpoint, CheckpointError, Fact, Wanted};
use tidegate_core::{ComponentName, Entropy as _, PrincipalName, SessionId, SessionName};
use tidegate_governor::Caller;
use tidegate_host::OsEntropy;
use tidegate_leases::Owner;
use tidegate_relay::{Marked, StreamFacts, StreamId, sort_reported};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

/// How long a connection may take to say what it is.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Numbers streams within this daemon.
static LAST_STREAM: AtomicU64 = AtomicU64::new(0);

type Reader = Lines<OwnedReadHalf>;

/// Serves one connection to its end. What goes wrong with it is its own.
pub(super) async fn serve(daemon: Arc<Daemon>, socket: UnixStream) {
    // A connection that breaks is over; everything durable about it has been said by then.
    let _ = Box::pin(hello(&daemon, socket)).await;
}

async fn hello(daemon: &Arc<Daemon>, socket: UnixStream) -> io::Result<()> {
    let (reader, mut writer) = socket.into_split();
    let mut reader = Lines::with_limit(reader, MAX_HELLO_BYTES);
    let Ok(Ok(Some(Line::Whole(line)))) = tokio::time::timeout(HELLO_PATIENCE, reader.next()).await else {
        return Ok(());
    };
    reader.limit_to_messages();
    let hello: Hello = match serde_json::from_slice(&line) {
        Ok(Hello { wire, .. }) if wire != WIRE_VERSION => {
            let message = format!(
                "this daemon speaks version {WIRE_VERSION} of the socket's protocol and was spoken to in version {wire}: use the \
                 same `tidegate` on both sides"
            );
            return refuse(&mut writer, message, false).await;
        }
        Ok(hello) => hello,
        Err(error) => return refuse(&mut writer, format!("that is not a hello: {error}"), false).await,
    };
    let caller = match daemon.credentials.caller(hello.token.as_deref()) {
        Ok(caller) => caller,
        Err(message) => return refuse(&mut writer, message, false).await,
    };
    match hello.role {
        Role::Command => {
            welcome(&mut writer, None, None).await?;
            requests(daemon, &caller, None, reader, writer).await
        }
        Role::Control(attach) => control(daemon, &caller, attach, reader, writer).await,
        Role::Stream { component, attach, resume } => {
            stream(daemon, &caller, component, attach, resume, reader, writer).await
        }
    }
}

async fn refuse(writer: &mut OwnedWriteHalf, message: String, retry: bool) -> io::Result<()> {
    writer.write_all(&json_line(&Welcome::Refused { message, retry })).await
}

async fn welcome(
    writer: &mut OwnedWriteHalf,
    session: Option<SessionId>,
    notice: Option<String>,
) -> io::Result<()> {
    writer.write_all(&json_line(&Welcome::Open { session, notice })).await
}

/// Welcomes a stream, and hands it the file of its marks.
async fn welcome_with(
    writer: &mut OwnedWriteHalf,
    session: &SessionId,
    notice: Option<String>,
    marks: &Marks,
) -> io::Result<()> {
    let line = json_line(&Welcome::Open { session: Some(session.clone()), notice });
    let sent = loop {
        writer.writable().await?;
        let socket: &UnixStream = writer.as_ref();
        match socket.try_io(Interest::WRITABLE, || send_with_file(socket, &line, marks.file())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => break sent?,
        }
    };
    writer.write_all(&line[sent..]).await
}

fn send_with_file(socket: &UnixStream, line: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    control.push(SendAncillaryMessage::ScmRights(&files)); // there is space for it
    Ok(sendmsg(socket, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?)
}

/// A connection that has become part of a session.
struct Attached {
    id: String,
    session: SessionId,
    /// The server that it leads to; the control endpoint has none.
    handle: Option<Handle>,
    notice: Option<String>,
    closing: Arc<Notify>,
}

/// Whose session an operator takes over: its own of that name, else the one that anybody has; a new one is its own.
fn stolen_from(
    mut sessions: Vec<Checkpoint>,
    operator: &Caller,
    name: Option<&SessionName>,
) -> Result<PrincipalName, (String, bool)> {
    sessions.retain(|it| it.ended.is_none());
    match name.map(|name| documents::find_session(&sessions, operator, name)) {
        Some(Ok(found)) => Ok(found.session.principal.clone()),
        Some(Err(unclear)) if unclear.refused => Err((unclear.message, false)),
        _ => Ok(operator.name().clone()),
    }
}

/// Makes a connection part of its session: durable before the client hears of it.
async fn attach(
    daemon: &Daemon,
    caller: &Caller,
    attach: Attach,
    component: Option<(&Site, StreamId)>,
) -> Result<Attached, (String, bool)> {
    let id = OsEntropy.id("stream");
    let name = component.map(|(site, _)| site.name().clone());
    let generated = attach.session.is_none();
    let refusal = |error: CheckpointError| {
        let retry = matches!(error, CheckpointError::Store(_));
        (error.to_string(), retry)
    };
    let owner = match &attach.owner {
        Some(owner) => owner.clone(),
        None if attach.steal && caller.is_operator() => {
            let sessions = daemon.ctx.checkpoints.list().await.map_err(refusal)?;
            stolen_from(sessions, caller, attach.session.as_ref())?
        }
        None => caller.name().clone(),
    };
    let wanted = Wanted {
        caller: caller.name().clone(),
        operator: caller.is_operator(),
        owner,
        name: attach.session,
        client: attach.client.clone(),
        steal: attach.steal,
    };
    let request = tidegate_checkpoints::Attach { wanted, stream: id.clone(), component: name };
    let attached = daemon.ctx.checkpoints.attach(&request).await.map_err(refusal)?;
    let closing = Arc::new(Notify::new());
    let session = attached.session;
    daemon.registry.cut(&attached.cut, "the session was taken over by another client").await;
    let seated = component.map(|(site, stream)| Ok((site.seat(&session)?, stream))).transpose();
    let seated = match seated {
        Ok(seated) => seated,
        Err(message) => {
            let detached = daemon.ctx.checkpoints.detach(&session, Some(&id)).await;
            grumble("a session's end could not be recorded", detached);
            return Err((message, false));
        }
    };
    let handle = seated.as_ref().map(|(handle, _)| handle.clone());
    let connection = Connection {
        session: session.clone(),
        client: attach.client.clone(),
        component: seated,
        closing: closing.clone(),
    };
    daemon.registry.opened(&id, connection);
    // Somebody may have taken the session over before this connection could be found.
    let now = grumble("a session could not be read", daemon.ctx.checkpoints.get(&session).await).flatten();
    if now.is_some_and(|now| !now.has_stream(&id)) {
        daemon.registry.closed(&id);
        return Err(("the session was taken over by another client".to_owned(), false));
    }
    let owner = Owner { session: session.clone(), process: attach.client };
    let leases = grumble("a session's leases could not be adopted", daemon.ctx.leases.reattach(&owner).await);
    let held: Vec<Fact> = leases.iter().flatten().map(|key| Fact::LeaseHeld(key.to_string())).collect();
    if !held.is_empty() {
        grumble(
            "a session's leases could not be recorded",
            daemon.ctx.checkpoints.record(&session, &held).await,
        );
    }
    let notice = attached.resolution.notice().or_else(|| {
        generated.then(|| {
            format!("this is the session {}; `--session {0}` makes it yours again later", session.name)
        })
    });
    Ok(Attached { id, session, handle, notice, closing })
}

async fn detach(daemon: &Daemon, attached: &Attached) {
    daemon.registry.closed(&attached.id);
    let detached = daemon.ctx.checkpoints.detach(&attached.session, Some(&attached.id)).await;
    grumble("a session's end could not be recorded", detached);
}

async fn control(
    daemon: &Arc<Daemon>,
    caller: &Caller,
    wanted: Attach,
    reader: Reader,
    mut writer: OwnedWriteHalf,
) -> io::Result<()> {
    let attached = match attach(daemon, caller, wanted, None).await {
        Ok(attached) => attached,
        Err((message, retry)) => return refuse(&mut writer, message, retry).await,
    };
    let served = async {
        welcome(&mut writer, Some(attached.session.clone()), attached.notice.clone()).await?;
        requests(daemon, caller, Some(&attached.session), reader, writer).await
    };
    let served = tokio::select! {
        served = served => served,
        () = attached.closing.notified() => Ok(()),
    };
    detach(daemon, &attached).await;
    served
}

/// Answers requests of the API, one after the other.
async fn requests(
    daemon: &Arc<Daemon>,
    caller: &Caller,
    session: Option<&SessionId>,
    mut reader: Reader,
    mut writer: OwnedWriteHalf,
) -> io::Result<()> {
    while let Some(Line::Whole(line)) = reader.next().await? {
        let answer = match serde_json::from_slice::<Request>(&line) {
            Ok(Request::RestartWait { id }) => super::operations::wait(daemon, &id, &mut writer).await?,
            Ok(request) => super::handlers::handle(daemon, caller, session, request).await,
            Err(error) => Err(Failure::cannot(format!(
                "the daemon does not know this request ({error}); is it of another version?"
            ))),
        };
        let reply = match answer {
            Ok(document) => Reply::Done(document),
            Err(failure) => Reply::Failed(failure),
        };
        writer.write_all(&json_line(&reply)).await?;
    }
    Ok(())
}

async fn stream(
    daemon: &Arc<Daemon>,
    caller: &Caller,
    component: ComponentName,
    wanted: Attach,
    resume: Option<Resume>,
    mut reader: Reader,
    mut writer: OwnedWriteHalf,
) -> io::Result<()> {
    let Some(site) = daemon.plant.site(&component) else {
        let names = || daemon.plant.sites().map(|site| site.name().as_str());
        let hint = match nearest(component.as_str(), names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return refuse(&mut writer, format!("the daemon has no component {component}; {hint}"), false).await;
    };
    let stream = StreamId(LAST_STREAM.fetch_add(1, Ordering::Relaxed) + 1);
    let attached = match attach(daemon, caller, wanted, Some((site, stream))).await {
        Ok(attached) => attached,
        Err((message, retry)) => return refuse(&mut writer, message, retry).await,
    };
    let (session, Some(handle)) = (attached.session.clone(), attached.handle.clone()) else { return Ok(()) };
    daemon.ctx.acquaint(&session, &handle.seat).await;
    let mut late = VecDeque::new();
    let served = async {
        let marks = Marks::new()?;
        welcome_with(&mut writer, &session, attached.notice.clone(), &marks).await?;
        let resumed = match resume {
            Some(resume) => {
                let (resumed, answered_late) = resumed(daemon, &session, &component, resume).await;
                late = answered_late;
                Some(resumed)
            }
            None => None,
        };
        let outbox = Outbox::new(writer);
        let peer = Peer { outbox: outbox.clone(), marks };
        handle.tell(Msg::Opened { stream, session: session.clone(), peer, resumed }).await;
        tokio::select! {
            served = lines(daemon, &handle, stream, &session, &outbox, &mut reader) => served,
            never = settle_late(daemon, &handle, stream, &session, &mut late) => never,
            () = outbox.is_cut() => Ok(()),
        }
    };
    let served = tokio::select! {
        served = served => served,
        () = attached.closing.notified() => Ok(()),
    };
    for (call, _) in late {
        // Nobody waits here any more: what became of it is for the session's record.
        handle
            .tell(Msg::Reported { stream, session: session.clone(), call: Box::new(call), answer: None })
            .await;
    }
    handle.ask(|done| Msg::Gone { stream, done }).await;
    detach(daemon, &attached).await;
    served
}

/// Passes a stream's lines on. A client that doesn't read its answers isn't read either.
async fn lines(
    daemon: &Daemon,
    handle: &Handle,
    stream: StreamId,
    session: &SessionId,
    outbox: &Outbox,
    reader: &mut Reader,
) -> io::Result<()> {
    loop {
        outbox.drained().await;
        match reader.next().await? {
            Some(Line::Whole(mut line)) if line.first() == Some(&MESSAGE) => {
                line.remove(0);
                handle.tell(Msg::Line { stream, line }).await;
                daemon.active(session);
            }
            Some(Line::Whole(_)) => say("a shim sent a line without a tag; is it of another version?"),
            Some(Line::TooLong { bytes, head, tail }) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                handle.tell(Msg::TooLong { stream, head, tail, bytes }).await;
            }
            Some(Line::Torn { .. }) | None => return Ok(()),
        }
    }
}

/// What a shim knows of a stream that an earlier daemon served, and what the checkpoint says of it.
/// And the calls that a server which outlived its daemon may yet answer.
async fn resumed(
    daemon: &Daemon,
    session: &SessionId,
    component: &ComponentName,
    resume: Resume,
) -> (Resumed, VecDeque<(Marked, KeptCall)>) {
    let checkpoint = daemon.ctx.checkpoints.get(session).await.ok().flatten();
    let facts = checkpoint.map_or_else(StreamFacts::default, |c| StreamFacts {
        subscriptions: c
            .subscriptions
            .iter()
            .filter(|s| s.component == *component)
            .map(|s| s.uri.clone())
            .collect(),
        log_level: c.log_level.get(component).cloned(),
    });
    let reported = resume.forwarded.into_iter().map(|reported| {
        let call = Marked {
            line: reported.line.get().as_bytes().to_vec(),
            class: reported.mark.class,
            tool: reported.mark.tool,
            age: Duration::from_millis(reported.age_ms),
        };
        (call, reported.mark.call)
    });
    let (marked, late) = sort_reported(reported);
    let initialize = resume.initialize.map(|line| line.get().as_bytes().to_vec());
    (Resumed { initialize, facts, marked }, late)
}

/// Settles what an old server may answer late, as soon as it is known that it has, or never will. Doesn't end.
///
/// # Cancel safety
/// What is still in `late` wasn't settled.
async fn settle_late(
    daemon: &Daemon,
    handle: &Handle,
    stream: StreamId,
    session: &SessionId,
    late: &mut VecDeque<(Marked, KeptCall)>,
) -> io::Result<()> {
    while let Some((_, kept)) = late.front() {
        let answer = daemon.ctx.estate.answer(kept).await;
        if let Some((call, _)) = late.pop_front() {
            let call = Box::new(call);
            handle.tell(Msg::Reported { stream, session: session.clone(), call, answer }).await;
        }
    }
    std::future::pending().await
}
