//! The public JSON documents, made from records. Field names here are a contract: none is ever renamed.

use super::component::{Handle, Seen};
use crate::api::{DOCUMENT_VERSION, Failure};
use serde_json::{Value, json};
use tidegate_checkpoints::{Checkpoint, Resume, next_action};
use tidegate_core::{IncidentId, NextAction, Now, SessionName};
use tidegate_drain::Gate;
use tidegate_governor::{Caller, Component, ComponentState};
use tidegate_incidents::Incident;
use tidegate_leases::{Kept, Lease, LeaseError};
use tidegate_relay::RefusalKind;

/// Finds a session by its name: the caller's own, or, for an operator, anybody's whose name is clear.
///
/// # Errors
/// There is none, or there are several.
pub(crate) fn find_session<'a>(
    sessions: &'a [Checkpoint],
    caller: &Caller,
    name: &SessionName,
) -> Result<&'a Checkpoint, Failure> {
    let named = || sessions.iter().filter(|c| c.session.name == *name);
    if let Some(own) = named().find(|c| c.session.principal == *caller.name()) {
        return Ok(own);
    }
    let mut others = named().filter(|_| caller.is_operator());
    match (others.next(), others.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => {
            Err(Failure::no(format!("several principals have a session {name}; act as one of them")))
        }
        (None, _) => {
            let of = if caller.is_operator() { String::new() } else { format!(" of {}", caller.name()) };
            Err(Failure::cannot(format!(
                "there is no session {name}{of}; `tidegate sessions` lists those that there are"
            )))
        }
    }
}

/// `resume`, `sessions show` and `checkpoints show`.
pub(crate) fn resume(checkpoint: &Checkpoint) -> Value {
    let mut document = Resume::of(checkpoint.clone()).to_json();
    document["version"] = DOCUMENT_VERSION.into();
    document["session"] = json!(checkpoint.session.name);
    document["principal"] = json!(checkpoint.session.principal);
    document
}

/// One session of a list.
pub(super) fn session(checkpoint: &Checkpoint, streams: usize, attached: bool) -> Value {
    json!({
        "name": checkpoint.session.name,
        "principal": checkpoint.session.principal,
        "streams": streams,
        "attached": attached,
        "next_action": next_action(checkpoint).to_json(),
        "updated_at": checkpoint.updated_at,
        "ended": checkpoint.ended.as_ref().map(|ended| ended.at),
        "unanswered": checkpoint.calls.iter().filter(|call| call.is_unanswered()).collect::<Vec<_>>(),
    })
}

/// One checkpoint of a list.
pub(super) fn checkpoint(checkpoint: &Checkpoint) -> Value {
    json!({
        "session": checkpoint.session.name,
        "principal": checkpoint.session.principal,
        "checkpoint": checkpoint.version,
        "updated_at": checkpoint.updated_at,
        "next_action": next_action(checkpoint).to_json(),
    })
}

/// One lease.
pub(super) fn lease(lease: &Lease, now: &Now) -> Value {
    let mut document = lease.to_json(now);
    document["session"] = json!(lease.owner.session.name);
    document["principal"] = json!(lease.owner.session.principal);
    document
}

/// `{version, lease}`.
pub(super) fn lease_document(it: &Lease, now: &Now) -> Value {
    json!({ "version": DOCUMENT_VERSION, "lease": lease(it, now) })
}

/// The refusal of the public contract for a lease that the caller doesn't hold, or hold any more.
pub(super) fn lease_refusal(error: &LeaseError) -> Option<Value> {
    let (key, retry_after) = match error {
        LeaseError::Held { key, free_in, kept: Kept::Unexpired, .. } => (key, Some(*free_in)),
        LeaseError::Held { key, .. }
        | LeaseError::Stale { key, .. }
        | LeaseError::NotHeld { key, .. }
        | LeaseError::NotYours { key, .. }
        | LeaseError::OwnerGone { key }
        | LeaseError::Outlived { key } => (key, None),
        _ => return None,
    };
    let next = NextAction::ReacquireLease { lease: key.to_string(), unnamed: false };
    Some(json!({
        "kind": RefusalKind::LeaseRequired.as_str(),
        "retryable": retry_after.is_some(),
        "retry_after_ms": retry_after.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        "component": null,
        "generation": null,
        "operation": null,
        "reason": error.to_string(),
        "next_action": next.to_json(),
    }))
}

/// `{version, incidents}`.
pub(super) fn incidents(incidents: &[Incident]) -> Value {
    json!({ "version": DOCUMENT_VERSION, "incidents": incidents.iter().map(Incident::to_json).collect::<Vec<_>>() })
}

/// One component of `status`, which is one server. Its incident is the one that made it unavailable, else any that is open
/// about it.
pub(super) fn component(record: &Component, seen: &Seen, gate: &Gate, open: &[Incident]) -> Value {
    let mut document = server(record, seen, gate);
    document["name"] = json!(record.name);
    document["incident"] = json!(incident_of(record, open));
    document
}

/// One component of `status` that has a server for each session. What is a number of a server is the sum of theirs.
pub(super) fn fleet(
    record: &Component,
    gate: &Gate,
    servers: &[(Component, Seen, Handle)],
    open: &[Incident],
) -> Value {
    let state = match record.state {
        ComponentState::Ready if !gate.is_open() => ComponentState::Draining,
        state => state,
    };
    let one = |(record, seen, handle): &(Component, Seen, Handle)| {
        let mut document = server(record, seen, &handle.gate);
        document["session"] = json!(handle.seat.session.as_ref().map(|session| &session.name));
        document["principal"] = json!(handle.seat.session.as_ref().map(|session| &session.principal));
        document
    };
    let last_words =
        servers.iter().map(|(_, seen, _)| seen.last_stderr.as_str()).rfind(|said| !said.is_empty());
    json!({
        "name": record.name,
        "state": state,
        "generation": record.generation,
        "pid": null,
        "in_flight": servers.iter().map(|(_, _, handle)| handle.gate.in_flight()).sum::<usize>(),
        "held": servers.iter().map(|(_, seen, _)| seen.held).sum::<usize>(),
        "restarts": record.restarts,
        "last_stderr": last_words.unwrap_or_default(),
        "stderr_bytes": servers.iter().map(|(_, seen, _)| seen.stderr_bytes).sum::<u64>(),
        "skipped_lines": servers.iter().map(|(_, seen, _)| seen.skipped_lines).sum::<u64>(),
        "incident": incident_of(record, open),
        "servers": servers.iter().filter(|(_, seen, _)| !seen.is_idle).map(one).collect::<Vec<_>>(),
    })
}

fn incident_of<'a>(record: &'a Component, open: &'a [Incident]) -> Option<&'a IncidentId> {
    let about = open.iter().find(|incident| incident.scope.as_ref() == Some(&record.name));
    record.incident.as_ref().or(about.map(|incident| &incident.id))
}

/// What there is to say of one server.
fn server(record: &Component, seen: &Seen, gate: &Gate) -> Value {
    let state = match record.state {
        // While a drain has the gate, that is what matters to whoever looks.
        ComponentState::Ready if !gate.is_open() => ComponentState::Draining,
        // The next try is a while off, or there is none; calls aren't held for it.
        ComponentState::Starting | ComponentState::Ready if seen.unavailable && gate.is_open() => {
            ComponentState::Unavailable
        }
        // The record is of a server that has ended, or whose daemon has: the next one is on its way.
        ComponentState::Ready if seen.pid.is_none() => ComponentState::Starting,
        // What an earlier daemon had given up is waited for once more.
        ComponentState::Unavailable if !seen.unavailable && record.process.is_some() => {
            ComponentState::Starting
        }
        state => state,
    };
    json!({
        "state": state,
        "generation": record.generation,
        "pid": seen.pid,
        "in_flight": gate.in_flight(),
        "held": seen.held,
        "restarts": record.restarts,
        "last_stderr": seen.last_stderr,
        "stderr_bytes": seen.stderr_bytes,
        "skipped_lines": seen.skipped_lines,
    })
}
