//! What the API's requests do: each asks the crate that decides, and answers with the public document.

use super::Daemon;
use super::context::say_of;
use super::documents;
use super::housekeeping::lease_effects;
use super::operations::{as_told, drive, operation_document, operations_json, ruled};
use super::site::Site;
use crate::api::{DOCUMENT_VERSION, Failure, Request};
use crate::config::ComponentConfig;
use serde_json::{Value, json};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tidegate_checkpoints::{Actions, Checkpoint, CheckpointError, Clear, Fact, Known, Resume, may_resume};
use tidegate_core::{
    ComponentName, Entropy as _, Fence, Liveness, OperationId, Probe as _, SessionId, SessionName,
};
use tidegate_governor::{
    Approved, Ask, Caller, Change, Counted, GovernorError, Operation, Phase, Replacement,
};
use tidegate_host::OsEntropy;
use tidegate_incidents::{Actor, Incident, IncidentError};
use tidegate_leases::{Acquire, Adopt, By, Lease, LeaseError, LeaseKey, Owner, Release, Renew};

/// The longest a lease lasts that a session without a process holds for mutations.
const MAX_TTL_WITHOUT_PROCESS: Duration = Duration::from_secs(3_600);

type Answer = Result<Value, Failure>;

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
        Request::Status => status(daemon).await,
        Request::RestartAsk { components, reason, operation, break_glass, abandon_unsafe, command } => {
            let id = operation.map_or_else(fresh_operation, Ok)?;
            let mut ask = match command.is_empty() {
                true => Ask::restart(id, components, reason),
                false => upgrade(daemon, id, components, command, reason).await?,
            };
            (ask.break_glass, ask.abandon_unsafe) = (break_glass, abandon_unsafe);
            ask.session = session.cloned();
            request_restart(daemon, caller, ask).await
        }
        Request::Reload => super::reload::reload(daemon, caller, session).await,
        Request::Takeover { reason } => {
            let scope = daemon.plant.sites().map(|site| site.name().clone()).collect();
            request_restart(daemon, caller, Ask::takeover(fresh_operation()?, scope, reason)).await
        }
        Request::RestartApprove { id } => {
            let approved = daemon
                .governor
                .approve(caller, &id, &*daemon.plant)
                .await
                .map_err(|e| governor_failure(&e))?;
            let Approved { operation, counted } = approved;
            say_of(
                &[("operation", &operation.id)],
                &format!("operation {} was approved by {}", operation.id, caller.name()),
            );
            if operation.phase == Phase::Approved {
                drive(daemon, operation.id.clone());
            }
            let mut document = operation_document(daemon, &operation).await;
            document["counted"] = (counted == Counted::Now).into();
            Ok(document)
        }
        Request::RestartDeny { id } => ruled(daemon, caller, daemon.governor.deny(caller, &id).await).await,
        Request::RestartCancel { id } => {
            ruled(daemon, caller, daemon.governor.cancel(caller, &id).await).await
        }
        Request::RestartList => {
            let operations = daemon.governor.list().await.map_err(|e| governor_failure(&e))?;
            let operations = operations_json(daemon, &operations).await;
            Ok(json!({ "version": DOCUMENT_VERSION, "operations": operations }))
        }
        Request::RestartShow { id } | Request::RestartWait { id } => {
            let operation = daemon.governor.get(&id).await.map_err(|e| governor_failure(&e))?;
            Ok(operation_document(daemon, &operation).await)
        }
        Request::SessionList => {
            let sessions = sessions(daemon).await?;
            Ok(json!({ "version": DOCUMENT_VERSION, "sessions": session_rows(daemon, &sessions) }))
        }
        Request::SessionShow { session } | Request::CheckpointShow { session } => {
            let sessions = sessions(daemon).await?;
            let checkpoint = documents::find_session(&sessions, caller, &session)?;
            Ok(documents::resume(&as_told(daemon, checkpoint).await))
        }
        Request::SessionEnd { session } => end_session(daemon, caller, &session).await,
        Request::Resume { session: named } => resume(daemon, caller, session, named).await,
        Request::Checkpoint { notes } => {
            let session = own(session)?;
            let note = Fact::Note { id: OsEntropy.id("note"), text: notes };
            daemon.ctx.checkpoints.record(session, &[note]).await.map_err(checkpoint_failure)?;
            Ok(json!({ "version": DOCUMENT_VERSION, "session": session.name }))
        }
        Request::CheckpointList => {
            let rows: Vec<Value> = sessions(daemon).await?.iter().map(documents::checkpoint).collect();
            Ok(json!({ "version": DOCUMENT_VERSION, "checkpoints": rows }))
        }
        Request::StoreCompact => {
            daemon.ctx.store.compact().await.map_err(Failure::cannot)?;
            Ok(json!({ "version": DOCUMENT_VERSION }))
        }
        Request::IncidentList => {
            let mut incidents = daemon.ctx.incidents.list().await.map_err(incident_failure)?;
            incidents.sort_by_key(|incident| !incident.is_open());
            Ok(documents::incidents(&incidents))
        }
        Request::IncidentShow { id } => {
            Ok(documents::incidents(&[daemon.ctx.incidents.get(&id).await.map_err(incident_failure)?]))
        }
        Request::IncidentAcknowledge { id } => {
            let by = actor(caller, session);
            let seen = daemon.ctx.incidents.acknowledge(&id, &by, "").await.map_err(incident_failure)?;
            Ok(documents::incidents(&[seen]))
        }
        Request::IncidentResolve { id } => {
            operators_only(caller, "resolve incidents")?;
            let resolved = daemon
                .ctx
                .incidents
                .resolve(&id, &actor(caller, session), "")
                .await
                .map_err(incident_failure)?;
            let everybody = sessions(daemon).await?.into_iter().map(|c| c.session);
            daemon.ctx.act(everybody, &Actions::clear([Clear::Incident(id)])).await;
            Ok(documents::incidents(&[resolved]))
        }
        request => lease_request(daemon, caller, session, request).await,
    }
}

async fn status(daemon: &Daemon) -> Answer {
    let mut open = daemon.ctx.incidents.list().await.map_err(incident_failure)?;
    open.retain(Incident::is_open);
    let mut components = Vec::new();
    for site in daemon.plant.sites() {
        components.extend(component(daemon, site, &open).await?);
    }
    let now = daemon.ctx.now();
    let sessions = sessions(daemon).await?;
    let live: Vec<Checkpoint> = sessions.into_iter().filter(|c| c.ended.is_none()).collect();
    let leases = daemon.ctx.leases.list().await.map_err(lease_failure)?;
    let leases: Vec<Value> =
        leases.iter().filter(|l| l.is_live()).map(|l| documents::lease(l, &now)).collect();
    let operations = daemon.governor.list().await.map_err(|e| governor_failure(&e))?;
    let running: Vec<Operation> = operations.into_iter().filter(|o| !o.phase.is_end()).collect();
    let running = operations_json(daemon, &running).await;
    let open: Vec<Value> = open.iter().map(Incident::to_json).collect();
    Ok(json!({
        "version": DOCUMENT_VERSION,
        "components": components,
        "sessions": session_rows(daemon, &live),
        "leases": leases,
        "operations": running,
        "incidents": open,
        "store": daemon.ctx.store.to_json(),
    }))
}

async fn component(daemon: &Daemon, site: &Site, open: &[Incident]) -> Result<Option<Value>, Failure> {
    let records = &daemon.ctx.components;
    let mut servers = Vec::new();
    for (handle, seen) in site.look().await {
        let record = records.get(&handle.seat.record).await.map_err(Failure::cannot)?;
        servers.push((record, seen, handle));
    }
    if site.fleet().is_none() {
        let one = servers.first();
        return Ok(one.map(|(record, seen, handle)| documents::component(record, seen, &handle.gate, open)));
    }
    let record = records.get(site.name()).await.map_err(Failure::cannot)?;
    Ok(Some(documents::fleet(&record, site.gate(), &servers, open)))
}

async fn sessions(daemon: &Daemon) -> Result<Vec<Checkpoint>, Failure> {
    daemon.ctx.checkpoints.list().await.map_err(checkpoint_failure)
}

fn session_rows(daemon: &Daemon, sessions: &[Checkpoint]) -> Vec<Value> {
    let row = |c: &Checkpoint| {
        documents::session(c, daemon.registry.streams(&c.session), daemon.registry.is_attached(&c.session))
    };
    sessions.iter().map(row).collect()
}

fn fresh_operation() -> Result<OperationId, Failure> {
    OsEntropy.id("op").parse().map_err(Failure::cannot)
}

/// The request to start one component by another command.
async fn upgrade(
    daemon: &Daemon,
    id: OperationId,
    components: Vec<ComponentName>,
    command: Vec<String>,
    reason: String,
) -> Result<Ask, Failure> {
    let [component] = components.as_slice() else {
        return Err(Failure::cannot("--command is for one component; ask for the others on their own"));
    };
    let config = daemon.ctx.settings.get(component);
    let Some(config) = config else { return Ok(Ask::restart(id, components, reason)) };
    let replacement = Replacement { command, instead_of: config.command.clone() };
    let upgraded = ComponentConfig { command: replacement.command.clone(), ..config };
    // What can't even be found is told to whoever asks, not to whoever approves.
    daemon.ctx.launcher.identify(&upgraded).await.map_err(Failure::no)?;
    Ok(Ask::upgrade(id, component.clone(), Change::Command(replacement), reason))
}

pub(super) async fn request_restart(daemon: &Arc<Daemon>, caller: &Caller, ask: Ask) -> Answer {
    let operation =
        daemon.governor.request(caller, &ask, &*daemon.plant).await.map_err(|e| governor_failure(&e))?;
    let scope = operation.scope.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(", ");
    say_of(
        &[("operation", &operation.id)],
        &format!(
            "operation {} was requested by {}: a restart of {scope}, {:?}",
            operation.id, operation.requested_by, operation.reason
        ),
    );
    if operation.phase == Phase::Approved {
        drive(daemon, operation.id.clone());
    }
    Ok(operation_document(daemon, &operation).await)
}

async fn end_session(daemon: &Daemon, caller: &Caller, name: &SessionName) -> Answer {
    operators_only(caller, "end sessions")?;
    let all = sessions(daemon).await?;
    let session = documents::find_session(&all, caller, name)?.session.clone();
    let ended =
        daemon.ctx.checkpoints.end(&session, caller.name(), caller.is_operator(), "ended by command").await;
    let cut = ended.map_err(checkpoint_failure)?;
    daemon.registry.cut(&cut, "the session was ended by an operator").await;
    daemon.plant.over(&session).await;
    let mut calls = Vec::new();
    for site in daemon.plant.sites() {
        calls.extend(site.calls_of(&session).await);
    }
    let left = daemon.ctx.upkeep.left_running(&calls).await.map_err(|error| {
        let told = "has ended, and what it leaves running could not be recorded";
        Failure::cannot(format!("{session} {told} ({error}); end it again, so that somebody hears of it"))
    })?;
    for incident in left {
        let told = format!("incident {incident}: {session} has left a running call");
        say_of(&[("incident", &incident)], &told);
    }
    let all = sessions(daemon).await?;
    let rows: Vec<Checkpoint> = all.into_iter().filter(|c| c.session == session).collect();
    Ok(json!({ "version": DOCUMENT_VERSION, "sessions": session_rows(daemon, &rows) }))
}

/// Tells a session where it was and what to do. What it was told here is told once.
async fn resume(
    daemon: &Daemon,
    caller: &Caller,
    asking: Option<&SessionId>,
    named: Option<SessionName>,
) -> Answer {
    let all = sessions(daemon).await?;
    let checkpoint = match &named {
        Some(name) => documents::find_session(&all, caller, name)?,
        None => {
            let session = own(asking)?;
            all.iter()
                .find(|c| c.session == *session)
                .ok_or_else(|| Failure::no("this session has ended; attach again"))?
        }
    };
    let own = asking == Some(&checkpoint.session);
    if let Some(asking) = asking
        && !own
    {
        let liveness =
            checkpoint.client.as_ref().map_or(Liveness::Unknown, |client| daemon.probe.liveness(client));
        let known = Known {
            client: checkpoint.client.clone(),
            liveness,
            attached: daemon.registry.is_attached(&checkpoint.session),
            ended: checkpoint.ended.is_some(),
        };
        may_resume(&asking.principal, &checkpoint.session, &known).map_err(Failure::no)?;
    }
    let document = documents::resume(&as_told(daemon, checkpoint).await);
    if asking.is_some() {
        let told = daemon.ctx.checkpoints.told(&Resume::of(checkpoint.clone())).await;
        told.map_err(checkpoint_failure)?;
        let now = daemon.ctx.checkpoints.get(&checkpoint.session).await.map_err(checkpoint_failure)?;
        daemon.registry.set_unsure(&checkpoint.session, now.as_ref().is_some_and(Checkpoint::has_to_verify));
    }
    Ok(document)
}

async fn lease_request(
    daemon: &Daemon,
    caller: &Caller,
    session: Option<&SessionId>,
    request: Request,
) -> Answer {
    let leases = &daemon.ctx.leases;
    match request {
        Request::LeaseList => {
            let now = daemon.ctx.now();
            let all = leases.list().await.map_err(lease_failure)?;
            let rows: Vec<Value> = all.iter().map(|lease| documents::lease(lease, &now)).collect();
            Ok(json!({ "version": DOCUMENT_VERSION, "leases": rows }))
        }
        Request::LeaseShow { key } => shown(daemon, &lease_key(&key)?).await,
        Request::LeaseAcquire { session: named, key, class, ttl_ms } => {
            let (key, owner) = (lease_key(&key)?, owner(daemon, caller, session, named).await?);
            let acquire = Acquire {
                key: key.clone(),
                max_ttl: owner.process.is_none().then_some(MAX_TTL_WITHOUT_PROCESS),
                owner,
                class,
                ttl: Duration::from_millis(ttl_ms),
                nonce: OsEntropy.id("lease"),
            };
            let (holder, kept) = (acquire.owner.session.clone(), key.to_string());
            let acquired = leases.acquire(acquire).await.map_err(lease_failure)?;
            lease_effects(daemon, &acquired.effects).await;
            daemon
                .ctx
                .checkpoints
                .record(&holder, &[Fact::LeaseHeld(kept)])
                .await
                .map_err(checkpoint_failure)?;
            shown(daemon, &key).await
        }
        Request::LeaseRenew { session: named, key, fence } => {
            let (key, owner) = (lease_key(&key)?, owner(daemon, caller, session, named).await?);
            leases.renew(&Renew { key: key.clone(), owner, fence }).await.map_err(lease_failure)?;
            shown(daemon, &key).await
        }
        Request::LeaseRelease { session: named, key, fence } => {
            let key = lease_key(&key)?;
            release(daemon, caller, session, named, key, fence).await
        }
        Request::LeaseAdopt { key, session: to } => {
            operators_only(caller, "adopt leases")?;
            let key = lease_key(&key)?;
            let lease = find_lease(daemon, &key).await?;
            let to = owner(daemon, caller, None, Some(to)).await?;
            let adopt = Adopt {
                key: key.clone(),
                fence: lease.fence,
                by: caller.name().clone(),
                why: "adopted by command".to_owned(),
                max_ttl: to.process.is_none().then_some(MAX_TTL_WITHOUT_PROCESS),
                to: to.clone(),
                nonce: OsEntropy.id("lease"),
            };
            let (_, effects) = leases.adopt(&adopt).await.map_err(lease_failure)?;
            lease_effects(daemon, &effects).await;
            let held = [Fact::LeaseHeld(key.to_string())];
            daemon.ctx.checkpoints.record(&to.session, &held).await.map_err(checkpoint_failure)?;
            shown(daemon, &key).await
        }
        _ => Err(Failure::cannot("the daemon does not answer this request")),
    }
}

async fn release(
    daemon: &Daemon,
    caller: &Caller,
    session: Option<&SessionId>,
    named: Option<SessionName>,
    key: LeaseKey,
    fence: Fence,
) -> Answer {
    let holder = find_lease(daemon, &key).await?.owner.session;
    let asking = match (session, named) {
        (Some(session), None) => Some(session.clone()),
        (_, Some(name)) => {
            Some(documents::find_session(&sessions(daemon).await?, caller, &name)?.session.clone())
        }
        (None, None) => None,
    };
    let by = match asking {
        Some(asking) if !caller.is_operator() || asking == holder => By::Holder(asking),
        _ => {
            operators_only(caller, "release the leases of others")?;
            By::Operator(caller.name().clone())
        }
    };
    let effects =
        daemon.ctx.leases.release(&Release { key: key.clone(), by, fence }).await.map_err(lease_failure)?;
    lease_effects(daemon, &effects).await;
    let gone = [Fact::LeaseGone(key.to_string())];
    match daemon.ctx.checkpoints.record(&holder, &gone).await {
        // A session that has ended has nothing to be told.
        Ok(()) | Err(CheckpointError::Ended { .. } | CheckpointError::NoSuchSession { .. }) => {}
        Err(error) => return Err(checkpoint_failure(error)),
    }
    shown(daemon, &key).await
}

/// Who holds what is asked for: a session that is connected.
async fn owner(
    daemon: &Daemon,
    caller: &Caller,
    session: Option<&SessionId>,
    named: Option<SessionName>,
) -> Result<Owner, Failure> {
    let session = match named {
        Some(name) => documents::find_session(&sessions(daemon).await?, caller, &name)?.session.clone(),
        None => own(session)?.clone(),
    };
    if !daemon.registry.is_attached(&session) {
        return Err(Failure::no(format!(
            "the session {} is not connected; a lease needs a live session",
            session.name
        )));
    }
    let process = daemon.registry.client(&session);
    Ok(Owner { session, process })
}

async fn find_lease(daemon: &Daemon, key: &LeaseKey) -> Result<Lease, Failure> {
    let lease = daemon.ctx.leases.get(key).await.map_err(lease_failure)?;
    lease.ok_or_else(|| {
        Failure::cannot(format!("there is no lease {key}; `tidegate leases list` lists those that there are"))
    })
}

async fn shown(daemon: &Daemon, key: &LeaseKey) -> Answer {
    Ok(documents::lease_document(&find_lease(daemon, key).await?, &daemon.ctx.now()))
}

fn lease_key(key: &str) -> Result<LeaseKey, Failure> {
    LeaseKey::new(key).map_err(Failure::cannot)
}

fn own(session: Option<&SessionId>) -> Result<&SessionId, Failure> {
    session.ok_or_else(|| Failure::cannot("name a session with --session"))
}

fn actor(caller: &Caller, session: Option<&SessionId>) -> Actor {
    match session {
        _ if caller.is_operator() => Actor::Operator(caller.name().clone()),
        Some(session) => Actor::Session(session.clone()),
        None => Actor::Principal(caller.name().clone()),
    }
}

fn operators_only(caller: &Caller, what: &str) -> Result<(), Failure> {
    if caller.is_operator() {
        return Ok(());
    }
    Err(Failure::no(format!(
        "only operators {what}, and {} is none: give an operator's token, with --token-file or $TIDEGATE_TOKEN",
        caller.name()
    )))
}

/// A governor's no, with the refusal of the public contract; or why it could not answer.
pub(super) fn governor_failure(error: &GovernorError) -> Failure {
    if error.is_refusal() {
        Failure { refused: true, message: error.to_string(), refusal: Some(error.to_json()) }
    } else {
        Failure::cannot(error)
    }
}

/// What was asked can't be run (the store failed, or there is no such thing), or the answer is no.
fn failure(cannot: bool, error: &dyn Display) -> Failure {
    if cannot { Failure::cannot(error) } else { Failure::no(error) }
}

fn checkpoint_failure(error: CheckpointError) -> Failure {
    failure(matches!(error, CheckpointError::Store(_) | CheckpointError::NoSuchSession { .. }), &error)
}

fn lease_failure(error: LeaseError) -> Failure {
    let refusal = documents::lease_refusal(&error);
    Failure { refusal, ..failure(matches!(error, LeaseError::Store(_)), &error) }
}

fn incident_failure(error: IncidentError) -> Failure {
    failure(matches!(error, IncidentError::Store(_) | IncidentError::NoSuchIncident { .. }), &error)
}
