//! The configuration is read again: what has changed becomes a proposed operation, one per component, and nothing else
//! happens. The policy and the credentials are never read again.

use super::Daemon;
use super::context::say;
use super::handlers::request_restart;
use super::operations::operation_json;
use crate::api::{DOCUMENT_VERSION, Failure};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_core::{ComponentName, Entropy as _, OperationId, SessionId};
use tidegate_governor::{Actuator as _, Ask, Caller, Change, Operation, Phase};
use tidegate_host::OsEntropy;

/// Why such an operation is asked for, for whoever approves it.
const REASON: &str = "its configuration has changed";

/// Reads the configuration and proposes, as `caller`, an operation for each component that it has otherwise.
pub(super) async fn reload(
    daemon: &Arc<Daemon>,
    caller: &Caller,
    session: Option<&SessionId>,
) -> Result<Value, Failure> {
    let file = daemon.ctx.settings.on_file().await.map_err(Failure::cannot)?;
    let found = daemon.ctx.settings.compare(&file);
    let (mut operations, mut notes) = (Vec::new(), found.notes);
    for component in found.changed {
        if let Some(pending) = pending(daemon, &component).await? {
            operations.push(operation_json(daemon, &pending).await);
            continue;
        }
        let id: OperationId = OsEntropy.id("op").parse().map_err(Failure::cannot)?;
        let mut ask = Ask::upgrade(id, component.clone(), Change::Configured, REASON);
        ask.session = session.cloned();
        match request_restart(daemon, caller, ask).await {
            Ok(mut document) => operations.push(document["operation"].take()),
            Err(failure) => notes.push(format!("{component}: {failure}")),
        }
    }
    Ok(json!({ "version": DOCUMENT_VERSION, "operations": operations, "notes": notes }))
}

/// The same proposal, where it is there already.
async fn pending(daemon: &Daemon, component: &ComponentName) -> Result<Option<Operation>, Failure> {
    let operations = daemon.governor.list().await.map_err(|e| super::handlers::governor_failure(&e))?;
    let current = daemon.plant.launch_as(component, &Change::Configured).await;
    let is_it = |o: &Operation| {
        let open = o.phase == Phase::Requested || o.phase.is_running();
        open && o.upgrade.changes.get(component) == Some(&Change::Configured)
            && o.launches.get(component) == current.as_ref()
    };
    Ok(operations.into_iter().find(is_it))
}

/// A signal has no credential: what it proposes is proposed by `local`.
pub(super) async fn on_hangup(daemon: &Arc<Daemon>) {
    match reload(daemon, &Caller::local(), None).await {
        Ok(document) => {
            let list = |key: &str| document[key].as_array().cloned().unwrap_or_default();
            for note in list("notes") {
                say(&format!("configuration: {}", note.as_str().unwrap_or_default()));
            }
            say(&format!(
                "SIGHUP: {} operations are proposed; nothing was restarted",
                list("operations").len()
            ));
        }
        Err(failure) => {
            say(&format!("SIGHUP: the configuration can't be used, nothing was changed: {failure}"))
        }
    }
}
