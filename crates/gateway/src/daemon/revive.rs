//! A start outside of operations: the first one, the one after a crash, and the one after the daemon's own death.
//!
//! May be dropped at any await: what it had started by then is on record under its generation, and whoever has the
//! component next ends it.

use super::context::{Context, grumble, of_component, say};
use super::seat::Seat;
use super::settings::effective;
use super::stage;
use super::start::{self, NotStarted};
use crate::config::ComponentConfig;
use crate::process::{Server, TreeState, await_old_tree, end_old_tree};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_core::{BoxFuture, Generation, IncidentId, ProcessIdentity};
use tidegate_governor::{Component, ComponentError, ComponentState, OldServer, settle_old_server};
use tidegate_incidents::{IncidentKind, Report, Severity};
use tidegate_relay::{Introduction, ServerFacts};

/// How often it is looked whether the unsafe calls of an old server have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server that serves as soon as somebody installs it.
pub(super) struct Revived {
    pub(super) server: Box<Server>,
    pub(super) facts: Box<ServerFacts>,
}

/// Why there is none.
pub(super) enum NotRevived {
    /// An operation has the component; it starts it.
    Owned,
    /// It is a session's own, and nobody is there whom it could serve.
    NobodyThere,
    /// Something of an earlier server may live, and perhaps work: nothing is started beside it.
    Survived { incident: Option<IncidentId>, message: String },
    /// It did not start; another try may do better.
    Failed { message: String, stderr: String },
}

impl NotRevived {
    pub(super) fn broken(error: &dyn Display) -> Self {
        Self::Failed { message: format!("the start was cut short: {error}"), stderr: String::new() }
    }
}

impl From<ComponentError> for NotRevived {
    fn from(error: ComponentError) -> Self {
        match error {
            ComponentError::Owned { .. } => Self::Owned,
            other => Self::broken(&other),
        }
    }
}

/// Starts the next generation of a component after `delay`.
pub(super) async fn revive(
    ctx: Arc<Context>,
    seat: Arc<Seat>,
    config: ComponentConfig,
    introduction: Option<Introduction>,
    delay: Duration,
) -> Result<Revived, NotRevived> {
    tokio::time::sleep(delay).await;
    let name = &seat.record;
    let record = ctx.components.get(name).await?;
    if let Some(process) = &record.process {
        settle_old_tree(&ctx, &seat, &record, process).await?;
        ctx.components.stopped(name, record.generation, ComponentState::Starting).await?;
    }
    if seat.session.is_some() && introduction.is_none() {
        return Err(NotRevived::NobodyThere);
    }
    // What it was upgraded to is the whole component's.
    let component = ctx.components.get(&seat.component).await?;
    let launch = ctx
        .launcher
        .identify(&effective(&config, &component))
        .await
        .map_err(|message| failed(message, String::new()))?;
    let generation = stage::begin(&ctx, &seat).await?;
    let recorder = ctx.components.recorder(name, generation);
    let spawned = start::spawn(&ctx.spawner, &launch, &ctx.nonce(), &recorder).await;
    let mut server = match spawned {
        Ok(server) => server,
        Err(NotStarted { message, stderr }) => {
            // The launcher has ended without having become the server.
            grumble(
                "a start could not be recorded",
                ctx.components.stopped(name, generation, ComponentState::Starting).await,
            );
            return Err(failed(format!("{seat} could not be started: {message}"), stderr));
        }
    };
    match start::handshake(&mut server, generation, config.start_timeout, introduction.as_ref()).await {
        Ok(facts) => {
            ctx.components.set_state(name, generation, ComponentState::Ready, None).await?;
            if seat.session.is_some() {
                // What had failed, with an operation, works again.
                let (name, generation) = (&component.name, component.generation);
                let works = ctx.components.set_state(name, generation, ComponentState::Ready, None).await;
                grumble("a component could not be recorded", works);
            }
            Ok(Revived { server: Box::new(server), facts: Box::new(facts) })
        }
        Err(NotStarted { message, .. }) => {
            let stopped = server.handle.stop(config.stop_grace).await;
            let stderr = server.handle.final_stderr(start::STDERR_LINES).await;
            match stopped {
                Ok(_) => {
                    ctx.components.stopped(name, generation, ComponentState::Starting).await?;
                    Err(failed(format!("{seat} could not be started: {message}"), stderr))
                }
                Err(error) => Err(survived(&ctx, &seat, generation, &error.to_string()).await),
            }
        }
    }
}

fn failed(message: String, stderr: String) -> NotRevived {
    NotRevived::Failed { message, stderr }
}

/// Waits for, or ends, what an earlier daemon's server has left. One in which an unsafe call may be running is waited for
/// and never killed.
async fn settle_old_tree(
    ctx: &Context,
    seat: &Seat,
    record: &Component,
    process: &ProcessIdentity,
) -> Result<(), NotRevived> {
    match prove_old_tree_gone(ctx, record, process, ctx.drain_deadline).await {
        Ok(()) => Ok(()),
        Err(message) => Err(survived(ctx, seat, record.generation, &message).await),
    }
}

/// The same, whoever has the component: an operation that finds such a tree waits too, at most `limit`.
pub(super) async fn prove_old_tree_gone(
    ctx: &Context,
    record: &Component,
    process: &ProcessIdentity,
    limit: Duration,
) -> Result<(), String> {
    let old = OldTree { ctx, record, process, said: AtomicBool::new(false) };
    let deadline = ctx.now().deadline(limit);
    let proved = settle_old_server(&old, record.unsafe_possible, &ctx.clock, deadline).await;
    settled_old_tree(ctx, record, process, proved).await
}

/// It is known what became of an old tree; where it is gone, that is the end of the incident that said otherwise.
pub(super) async fn settled_old_tree(
    ctx: &Context,
    record: &Component,
    process: &ProcessIdentity,
    proved: Result<(), String>,
) -> Result<(), String> {
    ctx.estate.settled(&process.nonce);
    proved?;
    let (about, how) =
        (of_component(&record.name), format!("process {} and its tree are proved gone", process.pid));
    let recovered = ctx.incidents.recovered(IncidentKind::TreeSurvived, &about, &how).await;
    grumble("a recovery could not be recorded", recovered);
    Ok(())
}

/// A server of an earlier daemon, found by its record.
struct OldTree<'a> {
    ctx: &'a Context,
    record: &'a Component,
    process: &'a ProcessIdentity,
    /// It was said that it is waited for.
    said: AtomicBool,
}

impl OldServer for OldTree<'_> {
    fn nothing_runs(&self) -> bool {
        self.ctx.estate.nothing_runs(&self.process.nonce)
    }

    fn left(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(async move {
            let TreeState::Running { pids } =
                await_old_tree(self.process, LOOK_EVERY).await.map_err(|error| error.to_string())?
            else {
                return Ok(None);
            };
            if !self.said.swap(true, Ordering::Relaxed) {
                let seat = Seat::on_record(self.record);
                say(&format!("waiting for the old server of {seat}, in which an unsafe call may be running"));
            }
            Ok(Some(format!("processes {pids:?}")))
        })
    }

    fn end(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { end_old_tree(self.process).await.map(drop).map_err(|error| error.to_string()) })
    }
}

async fn survived(ctx: &Context, seat: &Seat, generation: Generation, message: &str) -> NotRevived {
    let name = &seat.component;
    let title = format!("{seat} can't be started beside its old server: {message}");
    let mut report = Report::new(
        IncidentKind::TreeSurvived,
        of_component(&seat.record),
        Severity::Critical,
        title.as_str(),
    );
    report.scope = Some(name.clone());
    report.next_prompt = Some(format!(
        "{title}. Look what those processes do, end them when it is safe, then run `tidegate restart request {name} --reason …`."
    ));
    let incident = ctx.report(&report).await;
    ctx.unavailable(seat, generation, incident.as_ref()).await;
    NotRevived::Survived { incident, message: title }
}
