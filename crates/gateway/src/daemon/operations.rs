//! Driving operations: run when approved, settled when interrupted, expired in time, and watched by those who wait.

use super::Daemon;
use super::context::{grumble, say, say_of};
use crate::api::{DOCUMENT_VERSION, Failure, Reply};
use crate::wire::json_line;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tidegate_checkpoints::Checkpoint;
use tidegate_core::{NextAction, OperationId};
use tidegate_drain::Holder;
use tidegate_governor::{Caller, GovernorError, Intent, Operation, Phase, holder_json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;

/// The pause before an operation that could not be driven on is tried again: the store has failed, and may be back.
const RETRY_EVERY: Duration = Duration::from_secs(2);
/// How often those who wait are told again of the same holders.
const TELL_EVERY_MS: u64 = 5_000;
/// How often it is tried before its gates are left as they are, for the next daemon to settle.
const MAX_RETRIES: u32 = 30;

/// Drives an operation to its end, in a task of its own.
pub(super) fn drive(daemon: &Arc<Daemon>, id: OperationId) {
    let daemon = daemon.clone();
    tokio::spawn(async move {
        say_of(&[("operation", &id)], &format!("operation {id} begins"));
        let mut driven = daemon.governor.run(&id, &*daemon.plant).await;
        for _ in 0..MAX_RETRIES {
            match driven {
                Ok(operation) => return ended(&daemon, &operation),
                Err(GovernorError::AlreadyDriven { .. }) => return,
                Err(error) => {
                    say(&format!("operation {id} could not be driven on and is tried again: {error}"))
                }
            }
            tokio::time::sleep(RETRY_EVERY).await;
            driven = daemon.governor.settle(&id, &*daemon.plant).await;
        }
        say(&format!("operation {id} is left as it is; the next daemon settles it"));
    });
}

/// The public document of one operation.
pub(super) async fn operation_document(daemon: &Daemon, operation: &Operation) -> Value {
    json!({ "version": DOCUMENT_VERSION, "operation": operation_json(daemon, operation).await })
}

/// What came of a no, or of a request that was taken back.
pub(super) async fn ruled(
    daemon: &Daemon,
    caller: &Caller,
    ruled: Result<Operation, GovernorError>,
) -> Result<Value, Failure> {
    let operation = ruled.map_err(|e| super::handlers::governor_failure(&e))?;
    say_of(
        &[("operation", &operation.id)],
        &format!("operation {} was ended by {}: {}", operation.id, caller.name(), operation.phase),
    );
    Ok(operation_document(daemon, &operation).await)
}

/// Operations as the public documents list them.
pub(super) async fn operations_json(daemon: &Daemon, operations: &[Operation]) -> Vec<Value> {
    let mut all = Vec::with_capacity(operations.len());
    for operation in operations {
        all.push(operation_json(daemon, operation).await);
    }
    all
}

/// One operation. Of one that waits it is said whether anybody can still approve it: an approval is for exactly what was
/// asked, and that may have changed since.
pub(super) async fn operation_json(daemon: &Daemon, operation: &Operation) -> Value {
    let mut document = operation.to_json(&daemon.ctx.now());
    let void = daemon.governor.void(operation, &*daemon.plant).await;
    document["void"] = json!(void.as_ref().map(ToString::to_string));
    if let (Some(_), Some(again)) = (void, ask_again(operation)) {
        document["next_action"] = again.to_json();
    }
    document
}

/// What whoever asked for an operation does when nobody can approve it any more.
fn ask_again(operation: &Operation) -> Option<NextAction> {
    let component = operation.scope.first().cloned()?;
    Some(NextAction::RetryCall { component, tool: "restart_request".into() })
}

/// A session's record as it is to be told: whoever waits for an approval that nobody can give any more is to ask again.
pub(super) async fn as_told(daemon: &Daemon, checkpoint: &Checkpoint) -> Checkpoint {
    let mut told = checkpoint.clone();
    for pending in &mut told.pending {
        let NextAction::RequestApproval { operation } = &pending.action else { continue };
        let Ok(operation) = daemon.governor.get(operation).await else { continue };
        if daemon.governor.void(&operation, &*daemon.plant).await.is_some()
            && let Some(again) = ask_again(&operation)
        {
            pending.action = again;
        }
    }
    told
}

/// Says how it ended. A takeover that has stopped the servers ends this daemon, whatever became of them.
fn ended(daemon: &Daemon, operation: &Operation) {
    say_of(&[("operation", &operation.id)], &ending(operation));
    let stopped = operation.phase == Phase::Completed || !operation.failures.is_empty();
    if operation.intent == Intent::Takeover && stopped {
        say("another daemon takes over");
        daemon.taken_over.notify_one();
    }
}

/// How an operation has ended, and what came of it.
fn ending(operation: &Operation) -> String {
    let mut text = format!("operation {} has ended: {}", operation.id, operation.phase);
    for (name, said) in operation.what_failed() {
        text += &format!("; {name}: {said}");
    }
    for holder in &operation.holders {
        text += &format!("; holder {holder}");
    }
    if let Some(incident) = &operation.incident {
        text += &format!("; incident {incident}");
    }
    text
}

/// Answers when the operation has ended. Meanwhile it tells the phase when it changes, and a line per holder whenever
/// these are others, and every few seconds.
///
/// # Errors
/// Those of the connection.
pub(super) async fn wait(
    daemon: &Daemon,
    id: &OperationId,
    writer: &mut OwnedWriteHalf,
) -> io::Result<Result<Value, Failure>> {
    let mut told: Option<Phase> = None;
    let mut told_at_ms = 0;
    let mut told_of: Vec<Holder> = Vec::new();
    loop {
        let changed = daemon.governor.changed();
        let operation = match daemon.governor.get(id).await {
            Ok(operation) => operation,
            Err(error) => return Ok(Err(super::handlers::governor_failure(&error))),
        };
        let now = daemon.ctx.now();
        if operation.phase.is_end() && !operation.is_to_reopen() {
            return Ok(Ok(operation_document(daemon, &operation).await));
        }
        // Who waits is told now and then that it still goes on: silence is a daemon that is stopped or stuck.
        let is_due = now.since(told_at_ms) >= TELL_EVERY_MS;
        if told != Some(operation.phase) || is_due {
            (told, told_at_ms) = (Some(operation.phase), now.boot_ms);
            progress(writer, json!({ "phase": operation.phase })).await?;
        }
        if operation.phase == Phase::Draining && (is_due || !same(&told_of, &operation.holders)) {
            told_of.clone_from(&operation.holders);
            let left = &operation.to_json(&now)["drain_ends_in_ms"];
            for holder in &operation.holders {
                progress(writer, json!({ "holder": holder_json(holder), "drain_ends_in_ms": left })).await?;
            }
        }
        // The event tells of progress; the timer only makes sure that a lost connection is noticed.
        let _ = tokio::time::timeout(Duration::from_secs(1), changed).await;
    }
}

/// Whether these are the same calls, in the same state; only older.
fn same(told: &[Holder], now: &[Holder]) -> bool {
    let is_same =
        |(a, b): (&Holder, &Holder)| Holder { age_ms: 0, ..a.clone() } == Holder { age_ms: 0, ..b.clone() };
    told.len() == now.len() && told.iter().zip(now).all(is_same)
}

async fn progress(writer: &mut OwnedWriteHalf, value: Value) -> io::Result<()> {
    writer.write_all(&json_line(&Reply::Progress(value))).await
}

/// Ends the operations that an earlier daemon left, before any gate opens. Those that can't be settled yet are tried
/// again by a task of their own.
pub(super) async fn recover(daemon: &Arc<Daemon>) {
    match daemon.governor.recover(&*daemon.plant).await {
        Ok(settled) => {
            for operation in settled {
                let left = format!("left by an earlier daemon: {}", ending(&operation));
                say_of(&[("operation", &operation.id)], &left);
            }
        }
        Err(error) => {
            say(&format!("not every operation of an earlier daemon could be settled: {error}"));
            let daemon = daemon.clone();
            tokio::spawn(async move {
                for _ in 0..MAX_RETRIES {
                    tokio::time::sleep(RETRY_EVERY).await;
                    if daemon.governor.recover(&*daemon.plant).await.is_ok() {
                        return;
                    }
                }
            });
        }
    }
    drive_left(daemon).await;
}

/// Begins what was approved and nobody drives.
pub(super) async fn drive_left(daemon: &Arc<Daemon>) {
    let undriven = grumble("operations can't be read", daemon.governor.undriven().await);
    undriven.into_iter().flatten().for_each(|id| drive(daemon, id));
}
