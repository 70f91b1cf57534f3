//! One connection from its hello to its end: which session it belongs to, and where its lines go.

use super::Daemon;
use super::component::{Msg, Outbox, Resumed, ToShim};
use super::registry::Connection;
use crate::channel::Receiver;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tidegate_checkpoints::{Attach, CheckpointError, Fact, Wanted};
use tidegate_core::{ComponentName, Entropy as _, PrincipalName, ProcessIdentity, SessionName};
use tidegate_leases::Owner;
use tidegate_relay::{Marked, StreamFacts, StreamId};

/// What a shim says first.
pub(crate) struct Hello {
    pub(crate) component: ComponentName,
    pub(crate) session: SessionName,
    pub(crate) client: ProcessIdentity,
    /// Requests that an earlier daemon had begun to forward; `None` for a stream that no daemon has served.
    pub(crate) resume: Option<Vec<Marked>>,
}

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
    let connection = Connection {
        session: session.clone(),
        client: hello.client.clone(),
        component: handle.clone(),
        stream,
    };
    daemon.registry.opened(&id, connection);
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
    let resumed = match hello.resume {
        None => None,
        Some(marked) => {
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
            Some(Resumed { facts, marked })
        }
    };
    handle.tell(Msg::Opened { stream, session: session.clone(), outbox: shim, resumed });
    while let Some(line) = lines.recv().await {
        handle.tell(Msg::Line { stream, line });
        daemon.active(&session);
    }
    handle.ask(|done| Msg::Gone { stream, done }).await;
    daemon.registry.closed(&id);
    ctx.grumble("a session's end could not be recorded", ctx.checkpoints.detach(&session, Some(&id)).await);
}
