//! What the API's requests do: each asks the crate that decides. Composed as the gateway's.

use super::Daemon;
use super::housekeeping::lease_effects;
use super::operations::drive;
use std::sync::Arc;
use std::time::Duration;
use tidegate_checkpoints::{Actions, Checkpoint, CheckpointError, Clear, Fact, Resume};
use tidegate_core::{
    ComponentName, Deadline, Entropy as _, Fence, IncidentId, OperationId, SessionId, WorkClass,
};
use tidegate_governor::{Ask, Caller, Change, GovernorError, Operation, Phase, Replacement};
use tidegate_incidents::Actor;
use tidegate_leases::{Acquire, Acquired, Adopt, By, Lease, LeaseError, LeaseKey, Owner, Release, Renew};
use tidegate_store::{CommitError, StoreError};

/// A restart as somebody wants it.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) id: OperationId,
    pub(crate) scope: Vec<ComponentName>,
    pub(crate) break_glass: bool,
    /// Unsafe calls that outlive the drain are cut.
    pub(crate) abandon: bool,
    /// The first component is started by another command.
    pub(crate) command: Option<String>,
}

impl Wish {
    /// A plain restart.
    pub(crate) fn plain(id: OperationId, scope: Vec<ComponentName>) -> Self {
        Self { id, scope, break_glass: false, abandon: false, command: None }
    }

    fn ask(self, session: Option<&SessionId>) -> Ask {
        let first = self.scope.first().cloned();
        let change = |command: String| {
            let name = first?;
            let replacement = Replacement { command: vec![command], instead_of: vec![name.to_string()] };
            Some((name, Change::Command(replacement)))
        };
        let changes = self.command.and_then(change).into_iter().collect();
        let mut ask = Ask::restart(self.id, self.scope, "it is stale");
        (ask.break_glass, ask.abandon_unsafe, ask.changes) = (self.break_glass, self.abandon, changes);
        ask.session = session.cloned();
        ask
    }
}

/// What can be asked.
pub(crate) enum Request {
    Restart(Wish),
    Approve { id: OperationId },
    Deny { id: OperationId },
    Cancel { id: OperationId },
    Operations,
    Note { id: String, text: String },
    Resume,
    Acquire { key: LeaseKey, class: WorkClass, ttl_ms: u64, max_ttl_ms: Option<u64> },
    Renew { key: LeaseKey, fence: Fence },
    Release { key: LeaseKey, fence: Fence },
    Leases,
    Adopt { key: LeaseKey, to: SessionId },
    Incidents,
    Acknowledge { id: IncidentId },
    Resolve { id: IncidentId },
    EndSession { session: SessionId },
}

/// What was asked for, or why not.
pub(crate) enum Answer {
    Operation(Box<Operation>),
    Operations(Vec<Operation>),
    Done,
    Resumed(Box<Resume>),
    Acquired(Box<Acquired>),
    /// Until then.
    Renewed(Deadline),
    Leases(Vec<Lease>),
    Incidents(Vec<tidegate_incidents::Incident>),
    No(String),
    /// No, and nothing has happened.
    Nothing(String),
    RefusedLease(LeaseError),
}

impl From<Result<Operation, GovernorError>> for Answer {
    fn from(result: Result<Operation, GovernorError>) -> Self {
        match result {
            Ok(operation) => Self::Operation(Box::new(operation)),
            Err(GovernorError::Store(StoreError::Commit(error @ CommitError::Uncertain { .. }))) => no(error),
            Err(error) => Self::Nothing(error.to_string()),
        }
    }
}

fn no(error: impl std::fmt::Display) -> Answer {
    Answer::No(error.to_string())
}

/// Does what was asked, as `caller`, in the name of `session` where it came through one.
pub(super) async fn handle(
    daemon: &Arc<Daemon>,
    caller: &Caller,
    session: Option<&SessionId>,
    request: Request,
) -> Answer {
    if let Some(session) = session {
        daemon.active(session);
    }
    match request {
        Request::Restart(wish) => restart(daemon, caller, &wish.ask(session)).await.into(),
        Request::Approve { id } => match daemon.governor.approve(caller, &id, &*daemon.plant).await {
            Ok(approved) => {
                let operation = approved.operation;
                if operation.phase == Phase::Approved {
                    drive(daemon, operation.id.clone());
                }
                Answer::Operation(Box::new(operation))
            }
            Err(error) => no(error),
        },
        Request::Deny { id } => daemon.governor.deny(caller, &id).await.into(),
        Request::Cancel { id } => daemon.governor.cancel(caller, &id).await.into(),
        Request::Operations => daemon.governor.list().await.map_or_else(no, Answer::Operations),
        Request::Incidents => daemon.ctx.incidents.list().await.map_or_else(no, Answer::Incidents),
        Request::Acknowledge { id } => {
            let seen = daemon.ctx.incidents.acknowledge(&id, &actor(caller, session), "").await;
            seen.map_or_else(no, |_| Answer::Done)
        }
        Request::Resolve { id } => {
            match daemon.ctx.incidents.resolve(&id, &actor(caller, session), "").await {
                Ok(_) => {
                    let all = daemon.ctx.checkpoints.list().await.unwrap_or_default();
                    let everybody = all.into_iter().map(|c| c.session);
                    daemon.ctx.act(everybody, &Actions::clear([Clear::Incident(id)])).await;
                    Answer::Done
                }
                Err(error) => no(error),
            }
        }
        request => match session {
            Some(session) => of_session(daemon, session, request).await,
            None => of_operator(daemon, caller, request).await,
        },
    }
}

async fn restart(daemon: &Arc<Daemon>, caller: &Caller, ask: &Ask) -> Result<Operation, GovernorError> {
    let operation = daemon.governor.request(caller, ask, &*daemon.plant).await?;
    if operation.phase == Phase::Approved {
        drive(daemon, operation.id.clone());
    }
    Ok(operation)
}

fn actor(caller: &Caller, session: Option<&SessionId>) -> Actor {
    match session {
        _ if caller.is_operator() => Actor::Operator(caller.name().clone()),
        Some(session) => Actor::Session(session.clone()),
        None => Actor::Principal(caller.name().clone()),
    }
}

async fn of_session(daemon: &Daemon, session: &SessionId, request: Request) -> Answer {
    let ctx = &daemon.ctx;
    if !daemon.registry.is_attached(session) && !matches!(request, Request::Resume) {
        return no("the session is not connected");
    }
    let owner = || Owner { session: session.clone(), process: daemon.registry.client(session) };
    match request {
        Request::Note { id, text } => {
            let noted = ctx.checkpoints.record(session, &[Fact::Note { id, text }]).await;
            noted.map_or_else(no, |()| Answer::Done)
        }
        Request::Resume => match ctx.checkpoints.resume(session).await {
            Ok(resume) => {
                ctx.grumble("what a session was told", ctx.checkpoints.told(&resume).await);
                if let Ok(now) = ctx.checkpoints.get(session).await {
                    daemon.registry.set_unsure(session, now.as_ref().is_some_and(Checkpoint::has_to_verify));
                }
                Answer::Resumed(Box::new(resume))
            }
            Err(error) => no(error),
        },
        Request::Acquire { key, class, ttl_ms, max_ttl_ms } => {
            let held = Fact::LeaseHeld(key.to_string());
            let nonce = ctx.world.ids.id("lease");
            let ttl = Duration::from_millis(ttl_ms);
            let max_ttl = max_ttl_ms.map(Duration::from_millis);
            let acquire = Acquire { key, owner: owner(), class, ttl, max_ttl, nonce };
            let acquired = match ctx.leases.acquire(acquire).await {
                Ok(acquired) => acquired,
                Err(error) => return Answer::RefusedLease(error),
            };
            lease_effects(daemon, &acquired.effects).await;
            match ctx.checkpoints.record(session, &[held]).await {
                Ok(()) => Answer::Acquired(Box::new(acquired)),
                Err(error) => no(error),
            }
        }
        Request::Renew { key, fence } => {
            match ctx.leases.renew(&Renew { key, owner: owner(), fence }).await {
                Ok(expires) => Answer::Renewed(expires),
                Err(error) => Answer::RefusedLease(error),
            }
        }
        Request::Release { key, fence } => {
            let gone = Fact::LeaseGone(key.to_string());
            let release = Release { key, by: By::Holder(session.clone()), fence };
            match ctx.leases.release(&release).await {
                Ok(effects) => lease_effects(daemon, &effects).await,
                Err(error) => return Answer::RefusedLease(error),
            }
            match ctx.checkpoints.record(session, &[gone]).await {
                Ok(()) | Err(CheckpointError::Ended { .. } | CheckpointError::NoSuchSession { .. }) => {
                    Answer::Done
                }
                Err(error) => no(error),
            }
        }
        _ => no("this is not for sessions"),
    }
}

async fn of_operator(daemon: &Daemon, caller: &Caller, request: Request) -> Answer {
    let ctx = &daemon.ctx;
    match request {
        Request::EndSession { session } if caller.is_operator() => {
            match ctx.checkpoints.end(&session, caller.name(), true, "ended by command").await {
                Ok(cut) => daemon.registry.cut(&cut).await,
                Err(error) => return no(error),
            }
            let left = ctx.upkeep.left_running(&daemon.plant.calls_of(&session).await).await;
            left.map_or_else(no, |_| Answer::Done)
        }
        Request::Leases => ctx.leases.list().await.map_or_else(no, Answer::Leases),
        Request::Adopt { key, to } if caller.is_operator() => {
            let lease = match ctx.leases.get(&key).await {
                Ok(Some(lease)) => lease,
                Ok(None) => return no("there is no such lease"),
                Err(error) => return no(error),
            };
            let Some(process) = daemon.registry.client(&to) else { return no("it is not connected") };
            let adopt = Adopt {
                key: key.clone(),
                fence: lease.fence,
                by: caller.name().clone(),
                why: "it was orphaned".to_owned(),
                to: Owner { session: to.clone(), process: Some(process) },
                max_ttl: None,
                nonce: ctx.world.ids.id("lease"),
            };
            match ctx.leases.adopt(&adopt).await {
                Ok((_, effects)) => {
                    lease_effects(daemon, &effects).await;
                    let held = ctx.checkpoints.record(&to, &[Fact::LeaseHeld(key.to_string())]).await;
                    held.map_or_else(no, |()| Answer::Done)
                }
                Err(error) => no(error),
            }
        }
        _ => no("only operators may"),
    }
}
