//! One connection from its hello to its end: which session it belongs to, and where its lines go.

use super::Daemon;
use super::component::{Handle, Msg, Outbox, Resumed, ToShim};
use super::registry::Connection;
use crate::channel::{Receiver, channel};
use crate::world::KeptCall;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use tidegate_checkpoints::{Attach, CheckpointError, Fact, Wanted};
use tidegate_core::{ComponentName, Entropy as _, PrincipalName, ProcessIdentity, SessionId, SessionName};
use tidegate_leases::Owner;
use tidegate_relay::{Marked, StreamFacts, StreamId, sort_reported};

/// What a shim says first.
pub(crate) struct Hello {
    pub(crate) component: ComponentName,
    pub(crate) session: SessionName,
    pub(crate) client: ProcessIdentity,
    /// Requests that an earlier daemon had begun to forward; `None` for a stream that no daemon has served.
    pub(crate) resume: Option<Vec<Reported>>,
}

/// A request that an earlier daemon had begun to forward, and how its server knows it.
pub(crate) type Reported = (Marked, Option<KeptCall>);

pub(super) async fn serve(daemon: &Arc<Daemon>, hello: Hello, shim: Outbox, mut lines: Receiver<Vec<u8>>) {
    let Some(handle) = daemon.plant.component(&hello.component).cloned() else {
        return shim.send(ToShim::Refused { retry: false });
    };
    let ctx = &daemon.ctx;
    let id = ctx.world.ids.id("stream");
    let wanted = Wanted::own(PrincipalName::local(), Some(hello.session), Some(hello.client.clone()));
    let request = Attach::new(wanted, id.clone(), Some(hello.component.clone()));
    let attached = match ctx.checkpoints.attach(&request).await {
        Ok(attached) => attached,
        Err(error) => {
            return shim.send(ToShim::Refused { retry: matches!(error, CheckpointError::Store(_)) });
        }
    };
    let session = attached.session;
    let stream = StreamId(daemon.streams.fetch_add(1, Ordering::Relaxed) + 1);
    daemon.registry.cut(&attached.cut).await;
    let (open, mut closing) = channel();
    let connection = Connection {
        session: session.clone(),
        client: hello.client.clone(),
        component: handle.clone(),
        stream,
        _open: open,
    };
    daemon.registry.opened(&id, connection);
    // Somebody may have cut the session off before this connection could be found.
    let now = ctx.grumble("a session could not be read", ctx.checkpoints.get(&session).await).flatten();
    if now.is_some_and(|now| !now.has_stream(&id)) {
        daemon.registry.closed(&id);
        return shim.send(ToShim::Refused { retry: false });
    }
    let owner = Owner { session: session.clone(), process: Some(hello.client) };
    let leases = ctx.grumble("a session's leases could not be adopted", ctx.leases.reattach(&owner).await);
    let held: Vec<Fact> = leases.iter().flatten().map(|key| Fact::LeaseHeld(key.to_string())).collect();
    if !held.is_empty() {
        ctx.grumble(
            "a session's leases could not be recorded",
            ctx.checkpoints.record(&session, &held).await,
        );
    }
    ctx.acquaint(&session, &hello.component).await;
    shim.send(ToShim::Welcome(session.clone()));
    let mut late = VecDeque::new();
    let resumed = match hello.resume {
        None => None,
        Some(reported) => {
            let checkpoint = ctx.checkpoints.get(&session).await.ok().flatten();
            let facts = checkpoint.map_or_else(StreamFacts::default, |c| StreamFacts {
                subscriptions: c
                    .subscriptions
                    .iter()
                    .filter(|s| s.component == hello.component)
                    .map(|s| s.uri.clone())
                    .collect(),
                log_level: c.log_level.get(&hello.component).cloned(),
            });
            let (marked, answered_late) = sort_reported(reported);
            late = answered_late;
            Some(Resumed { facts, marked })
        }
    };
    handle.tell(Msg::Opened { stream, session: session.clone(), outbox: shim, resumed });
    let passing = async {
        while let Some(line) = lines.recv().await {
            handle.tell(Msg::Line { stream, line });
            daemon.active(&session);
        }
    };
    let served = first(passing, settle_late(daemon, &handle, stream, &session, &mut late));
    first(served, async { closing.recv().await.unwrap_or_default() }).await;
    for (call, _) in late {
        // Nobody waits here any more: what became of it is for the session's record.
        handle.tell(Msg::Reported { stream, session: session.clone(), call: Box::new(call), answer: None });
    }
    handle.ask(|done| Msg::Gone { stream, done }).await;
    daemon.registry.closed(&id);
    ctx.grumble("a session's end could not be recorded", ctx.checkpoints.detach(&session, Some(&id)).await);
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
) {
    while let Some((_, kept)) = late.front() {
        let answer = daemon.ctx.late_answer(kept).await;
        if let Some((call, _)) = late.pop_front() {
            handle.tell(Msg::Reported { stream, session: session.clone(), call: Box::new(call), answer });
        }
    }
    std::future::pending().await
}

/// Runs two futures until one of them has ended.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await;
}
