//! Driving operations: run when approved, settled when interrupted, and the one that ends the daemon.

use super::Daemon;
use super::component::Msg;
use crate::observe::Seen;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_core::{ComponentName, Entropy as _, OperationId};
use tidegate_governor::{Ask, Caller, GovernorError, Operation, Phase};
use tidegate_incidents::{IncidentKind, Report, Severity};

/// The pause before an operation that could not be driven on is tried again.
const RETRY_EVERY_MS: u64 = 2_000;
/// How often it is tried before its gates are left as they are, for the next daemon to settle.
const MAX_RETRIES: u32 = 30;

/// Drives an operation to its end, in a task of its own.
pub(super) fn drive(daemon: &Arc<Daemon>, id: OperationId) {
    let driving = daemon.clone();
    daemon.ctx.world.executor.spawn(daemon.ctx.group, async move {
        let daemon = driving;
        let mut driven = daemon.governor.run(&id, &*daemon.plant).await;
        for _ in 0..MAX_RETRIES {
            match driven {
                Ok(operation) => {
                    let note = if operation.note.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", operation.note)
                    };
                    return daemon.ctx.say(format!("operation {id} has ended: {}{note}", operation.phase));
                }
                Err(GovernorError::AlreadyDriven { .. }) => return,
                Err(error) => daemon.ctx.say(format!("operation {id} is tried again: {error}")),
            }
            daemon.ctx.world.executor.sleep(RETRY_EVERY_MS).await;
            driven = daemon.governor.settle(&id, &*daemon.plant).await;
        }
        daemon.ctx.say(format!("operation {id} is left as it is"));
    });
}

/// Ends the operations that an earlier daemon left, before any gate opens.
pub(super) async fn recover(daemon: &Arc<Daemon>) {
    match daemon.governor.recover(&*daemon.plant).await {
        Ok(settled) => {
            for Operation { id, phase, .. } in settled {
                daemon.ctx.say(format!("operation {id}, left by an earlier daemon, has ended: {phase}"));
            }
        }
        Err(error) => {
            daemon.ctx.say(format!("not every operation could be settled: {error}"));
            let again = daemon.clone();
            daemon.ctx.world.executor.spawn(daemon.ctx.group, async move {
                for _ in 0..MAX_RETRIES {
                    again.ctx.world.executor.sleep(RETRY_EVERY_MS).await;
                    if again.governor.recover(&*again.plant).await.is_ok() {
                        return;
                    }
                }
            });
        }
    }
    drive_left(daemon).await;
}

/// Drives what was approved and nobody drives.
pub(super) async fn drive_left(daemon: &Arc<Daemon>) {
    let undriven = daemon.ctx.grumble("operations can't be read", daemon.governor.undriven().await);
    undriven.into_iter().flatten().for_each(|id| drive(daemon, id));
}

/// A signal is an operation over all components, bound by drain safety alone.
pub(super) async fn shut_down(daemon: &Arc<Daemon>) {
    daemon.plant.hands_off().await;
    let scope = daemon.names();
    match drained(daemon, scope.clone()).await {
        Ok(Operation { phase: Phase::Completed, .. }) => daemon.ctx.say("drained, ends"),
        Ok(operation) => left_running(daemon, &scope, &operation).await,
        Err(error) => daemon.ctx.say(format!("could not be drained: {error}")),
    }
}

async fn drained(daemon: &Daemon, scope: Vec<ComponentName>) -> Result<Operation, GovernorError> {
    // An operation that is under way has its components until it has ended, which it does in bounded time.
    loop {
        let changed = daemon.governor.changed();
        let operations = daemon.governor.list().await?;
        if !operations.iter().any(|o| o.phase.is_running() || o.is_to_reopen()) {
            break;
        }
        changed.await;
    }
    let world = &daemon.ctx.world;
    let id: OperationId = crate::story::name(&world.ids.id("op"));
    let ask = Ask::shutdown(id, scope);
    world.see(Seen::Asked { operation: ask.id.clone(), caller: Caller::signal() });
    let operation = daemon.governor.request(&Caller::signal(), &ask, &*daemon.plant).await?;
    daemon.governor.run(&operation.id, &*daemon.plant).await
}

/// The drain was refused: what is safe to stop is stopped, what isn't is left, and said.
async fn left_running(daemon: &Daemon, scope: &[ComponentName], operation: &Operation) {
    let busy: BTreeSet<&ComponentName> = operation.holders.iter().map(|h| &h.component).collect();
    let idle = scope.iter().filter(|name| !busy.contains(name)).filter_map(|n| daemon.plant.component(n));
    for handle in idle {
        if handle.gate.in_flight() == 0 {
            handle.ask(|proof| Msg::Stop { governed: false, proof }).await;
        }
    }
    let title = "the daemon was told to end while unsafe calls were running";
    let mut report =
        Report::new(IncidentKind::UnsafeAfterSignal, operation.id.as_str(), Severity::Critical, title);
    report.operation = Some(operation.id.clone());
    daemon.ctx.report(&report).await;
    daemon.ctx.say("leaves unsafe calls running, ends");
}
