//! A start outside of operations: the first one, the one after a crash, and the one after the daemon's own death. And what
//! every start is made of: a launcher, its identity on record, its program, its handshake.
//!
//! May be dropped at any await: what it had started by then is on record under its generation.

use super::context::{Context, of_component};
use crate::chance::happens;
use serde_json::json;
use std::sync::Arc;
use tidegate_core::{ComponentName, Generation, IncidentId, ProcessIdentity};
use tidegate_governor::{Component, ComponentError, ComponentState, LaunchIdentity, RecordIdentity};
use tidegate_incidents::{IncidentKind, Report, Severity};
use tidegate_relay::{InitializeResult, List, ListCache, PROTOCOL_VERSION, ServerFacts};

/// A server that serves as soon as somebody installs it.
pub(super) struct Revived {
    pub(super) server: ProcessIdentity,
    pub(super) facts: Box<ServerFacts>,
}

/// Why there is none.
pub(super) enum NotRevived {
    /// An operation has the component; it starts it.
    Owned,
    /// Something of an earlier server may live, and perhaps work: nothing is started beside it.
    Survived { incident: Option<IncidentId>, message: String },
    /// It did not start; another try may do better.
    Failed { message: String },
}

impl From<ComponentError> for NotRevived {
    fn from(error: ComponentError) -> Self {
        match error {
            ComponentError::Owned { .. } => Self::Owned,
            other => Self::Failed { message: format!("the start was cut short: {other}") },
        }
    }
}

/// Starts the next generation of a component after `delay_ms`.
pub(super) async fn revive(
    ctx: &Arc<Context>,
    name: &ComponentName,
    delay_ms: u64,
) -> Result<Revived, NotRevived> {
    ctx.world.executor.sleep(delay_ms).await;
    let record = ctx.components.get(name).await?;
    if let Some(process) = &record.process {
        settle_old_tree(ctx, &record, process).await?;
        ctx.components.stopped(name, record.generation, ComponentState::Starting).await?;
    }
    let failed = |message: String| NotRevived::Failed { message };
    let launch = ctx.launch(name).await.ok_or_else(|| failed("there is no such component".to_owned()))?;
    let generation = ctx.components.begin_generation(name).await?.generation;
    let recorder = ctx.components.recorder(name, generation);
    let server = match spawn(ctx, name, generation, &launch, &recorder).await {
        Ok(server) => server,
        Err(message) => {
            // The launcher has ended without having become the server.
            let stopped = ctx.components.stopped(name, generation, ComponentState::Starting).await;
            ctx.grumble("a start could not be recorded", stopped);
            return Err(failed(format!("{name} could not be started: {message}")));
        }
    };
    match handshake(ctx, name, generation, server.pid).await {
        Ok(facts) => {
            ctx.components.set_state(name, generation, ComponentState::Ready, None).await?;
            Ok(Revived { server, facts })
        }
        Err(message) => match ctx.world.stop_server(server.pid, false).await {
            Ok(()) => {
                ctx.components.stopped(name, generation, ComponentState::Starting).await?;
                Err(failed(format!("{name} could not be started: {message}")))
            }
            Err(error) => Err(survived(ctx, name, generation, &error).await),
        },
    }
}

/// Waits for, or ends, what an earlier daemon's server has left. One in which an unsafe call may be running is waited for
/// and never killed.
async fn settle_old_tree(
    ctx: &Context,
    record: &Component,
    process: &ProcessIdentity,
) -> Result<(), NotRevived> {
    let proof = ctx.prove_old_server_gone(process, record.unsafe_possible, false).await;
    match proof {
        Ok(()) => Ok(()),
        Err(message) => Err(survived(ctx, &record.name, record.generation, &message).await),
    }
}

async fn survived(ctx: &Context, name: &ComponentName, generation: Generation, message: &str) -> NotRevived {
    let title = format!("{name} can't be started beside its old server: {message}");
    let mut report =
        Report::new(IncidentKind::TreeSurvived, of_component(name), Severity::Critical, title.as_str());
    report.scope = Some(name.clone());
    let incident = ctx.report(&report).await;
    ctx.unavailable(name, generation, incident.as_ref()).await;
    NotRevived::Survived { incident, message: title }
}

/// Starts `launch`: its identity is on record before its program runs.
pub(super) async fn spawn(
    ctx: &Context,
    name: &ComponentName,
    generation: Generation,
    launch: &LaunchIdentity,
    identity: &dyn RecordIdentity,
) -> Result<ProcessIdentity, String> {
    let world = &ctx.world;
    let server = world.launcher(name, generation, ctx.group, &ctx.nonce());
    if let Err(error) = identity.record(&server).await {
        world.server_exits(server.pid, "its launcher was told not to go on");
        return Err(error.to_string());
    }
    let mut rng = world.generator(&format!("start {name} {generation}"));
    world.executor.sleep(rng.u64(20..80)).await;
    if world.is_chaos() && happens(&mut rng, world.story.faults.bad_starts / 2) {
        world.server_exits(server.pid, "its launcher can't run the program");
        return Err("exec failed".to_owned());
    }
    world.run_program(server.pid, launch);
    Ok(server)
}

/// The handshake and the lists.
pub(super) async fn handshake(
    ctx: &Context,
    name: &ComponentName,
    generation: Generation,
    pid: u32,
) -> Result<Box<ServerFacts>, String> {
    let world = &ctx.world;
    let mut rng = world.generator(&format!("handshake {name} {generation}"));
    world.executor.sleep(rng.u64(10..60)).await;
    if world.is_chaos() && happens(&mut rng, world.story.faults.bad_starts / 2) {
        if rng.bool() {
            world.server_exits(pid, "it crashes in its handshake");
        }
        return Err("no answer to initialize".to_owned());
    }
    if world.is_broken(pid) {
        return Err("it speaks another protocol".to_owned());
    }
    if !world.serves(pid) {
        return Err("it ended during its handshake".to_owned());
    }
    let initialize = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": { "tools": {}, "tasks": {} },
        "serverInfo": { "name": name.as_str(), "version": generation.to_string() },
    });
    let initialize = InitializeResult::new(&initialize.to_string()).map_err(|error| error.to_string())?;
    let mut tools = vec!["read", "put", "write"];
    if !world.story.calm && !happens(&mut rng, 300) {
        tools.push("extra");
    }
    let tools: Vec<_> = tools.into_iter().map(|tool| json!({ "name": tool })).collect();
    let mut lists = ListCache::default();
    lists.set(List::Tools, json!({ "tools": tools }).to_string());
    Ok(Box::new(ServerFacts { generation, initialize, lists }))
}
