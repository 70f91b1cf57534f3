//! One server's part in an operation: stopped with proof, started, verified and handed to its actor. The same for the
//! server of a shared component and for a session's own.

use super::component::{Handle, Msg};
use super::context::{Context, grumble};
use super::revive::{prove_old_tree_gone, settled_old_tree};
use super::seat::Seat;
use super::start::{self, NotStarted};
use crate::config::{ComponentConfig, STOP_GRACE};
use crate::process::{Server, end_old_tree};
use std::time::Duration;
use tidegate_core::{ComponentName, Generation};
use tidegate_governor::{ComponentError, ComponentState, LaunchIdentity, RecordIdentity, Verified};
use tidegate_relay::Introduction;

/// A server between its start and its verification.
pub(super) struct Staged {
    generation: Generation,
    server: Box<Server>,
    introduction: Option<Introduction>,
}

/// Begins the next generation of a server, outside of operations or as a session's own part in one.
pub(super) async fn begin(ctx: &Context, seat: &Seat) -> Result<Generation, ComponentError> {
    if let Some(session) = &seat.session {
        ctx.components.belongs(&seat.record, session).await?;
    }
    Ok(ctx.components.begin_generation(&seat.record).await?.generation)
}

/// Starts a server of this generation; its identity is durable before its program runs.
pub(super) async fn start(
    ctx: &Context,
    launch: &LaunchIdentity,
    generation: Generation,
    identity: &dyn RecordIdentity,
    introduction: Option<Introduction>,
) -> Result<Staged, NotStarted> {
    let server = Box::new(start::spawn(&ctx.spawner, launch, &ctx.nonce(), identity).await?);
    Ok(Staged { generation, server, introduction })
}

/// Starts a session's own server, under a generation of its own.
pub(super) async fn start_own(
    ctx: &Context,
    seat: &Seat,
    launch: &LaunchIdentity,
    introduction: Introduction,
) -> Result<Staged, NotStarted> {
    let generation = begin(ctx, seat).await.map_err(NotStarted::because)?;
    let recorder = ctx.components.recorder(&seat.record, generation);
    start(ctx, launch, generation, &recorder, Some(introduction)).await
}

/// Shakes hands with a server and hands it to its actor.
///
/// # Errors
/// Why it doesn't serve; what is staged is to be stopped then.
pub(super) async fn verify(
    ctx: &Context,
    handle: &Handle,
    mut staged: Staged,
) -> Result<Verified, (Option<Staged>, NotStarted)> {
    let Some(config) = ctx.settings.get(&handle.name) else {
        return Err((Some(staged), NotStarted::because("there is no such component")));
    };
    match shake(&mut staged, &config).await {
        Ok(facts) => {
            let (server, facts) = (staged.server, Box::new(facts));
            let generation = facts.generation;
            let verified = handle.ask(|verified| Msg::Ready { server, facts, verified }).await;
            if handle.seat.session.is_some() {
                // An operation records the component, and not each of its servers.
                let state = ComponentState::Ready;
                let ready = ctx.components.set_state(&handle.seat.record, generation, state, None).await;
                grumble("a session's server could not be recorded", ready);
            }
            verified.ok_or_else(|| (None, NotStarted::because("the daemon is ending")))
        }
        Err(error) => Err((Some(staged), error)),
    }
}

async fn shake(
    Staged { generation, server, introduction }: &mut Staged,
    config: &ComponentConfig,
) -> Result<tidegate_relay::ServerFacts, NotStarted> {
    start::handshake(server, *generation, config.start_timeout, introduction.as_ref()).await
}

/// Verifies a server that is nobody's: with no session connected, the command is tried all the same, and ended again.
///
/// # Errors
/// Why it doesn't serve; what is staged is to be stopped then.
pub(super) async fn probe(
    ctx: &Context,
    name: &ComponentName,
    mut staged: Staged,
) -> Result<Verified, (Option<Staged>, NotStarted)> {
    let Some(config) = ctx.settings.get(name) else {
        return Err((Some(staged), NotStarted::because("there is no such component")));
    };
    let facts = match shake(&mut staged, &config).await {
        Ok(facts) => facts,
        Err(error) => return Err((Some(staged), error)),
    };
    let generation = staged.generation;
    end(staged, config.stop_grace).await.map_err(|error| (None, error))?;
    let stopped = ctx.components.stopped(name, generation, ComponentState::Verifying).await;
    stopped.map_err(|error| (None, NotStarted::because(error)))?;
    Ok(Verified {
        tools: facts.lists.tools().len(),
        version: facts.initialize.server_version,
        ..Verified::default()
    })
}

/// Ends a staged server and answers its last words.
///
/// # Errors
/// Why it can't be proved dead.
async fn end(staged: Staged, grace: Duration) -> Result<String, NotStarted> {
    let stopped = staged.server.handle.stop(grace).await;
    let stderr = staged.server.handle.final_stderr(start::STDERR_LINES).await;
    match stopped {
        Ok(_) => Ok(stderr),
        Err(error) => Err(NotStarted { message: error.to_string(), stderr }),
    }
}

/// Stops whatever there is of a server: what was staged, what its actor has, what is on record. `force`: whatever may
/// be running in it.
pub(super) async fn stop(
    ctx: &Context,
    handle: &Handle,
    staged: Option<Staged>,
    force: bool,
) -> Result<(), String> {
    handle.ask(|done| Msg::Hands { off: true, done }).await;
    if let Some(staged) = staged {
        let grace = ctx.settings.get(&handle.name).map_or(STOP_GRACE, |config| config.stop_grace);
        let ended = end(staged, grace).await;
        let stderr = ended.as_ref().unwrap_or_else(|error| &error.stderr).clone();
        handle.tell(Msg::LastWords { stderr }).await;
        ended.map_err(|error| error.message)?;
    }
    let proof = handle.ask(|proof| Msg::Stop { proof }).await;
    let proved = proof.unwrap_or_else(|| Err("the daemon is ending".to_owned()))?;
    settle(ctx, &handle.seat.record, proved.as_deref(), force).await?;
    if handle.seat.session.is_some() {
        // Nobody else records it: an operation knows the component, and not each of its servers.
        let record = ctx.components.get(&handle.seat.record).await.map_err(|e| e.to_string())?;
        if record.process.is_some() {
            let state = ComponentState::Starting;
            let stopped = ctx.components.stopped(&record.name, record.generation, state).await;
            stopped.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Stops a server that was only tried.
pub(super) async fn stop_probe(
    ctx: &Context,
    name: &ComponentName,
    staged: Option<Staged>,
    force: bool,
) -> Result<(), String> {
    if let Some(staged) = staged {
        let grace = ctx.settings.get(name).map_or(STOP_GRACE, |config| config.stop_grace);
        end(staged, grace).await.map_err(|error| error.message)?;
    }
    settle(ctx, name, None, force).await
}

/// Ends what an earlier server in this place has left; the one that serves now is left alone.
///
/// # Errors
/// What is there, and why it isn't ended.
pub(super) async fn settle_left(ctx: &Context, handle: &Handle, limit: Duration) -> Result<(), String> {
    let serving = handle.ask(|seen| Msg::Look { seen }).await.and_then(|seen| seen.pid);
    let record = ctx.components.get(&handle.seat.record).await.map_err(|error| error.to_string())?;
    match &record.process {
        Some(process) if serving != Some(process.pid) => {
            prove_old_tree_gone(ctx, &record, process, limit).await
        }
        _ => Ok(()),
    }
}

/// What is on record and isn't the one that is `proved` dead, by its nonce: started by an earlier daemon, or by a start
/// that was given up.
async fn settle(
    ctx: &Context,
    name: &ComponentName,
    proved: Option<&str>,
    force: bool,
) -> Result<(), String> {
    let record = ctx.components.get(name).await.map_err(|error| error.to_string())?;
    match &record.process {
        Some(process) if proved == Some(&process.nonce) => Ok(()),
        Some(process) if force => {
            let ended = end_old_tree(process).await.map(drop).map_err(|error| error.to_string());
            settled_old_tree(ctx, &record, process, ended).await
        }
        Some(process) => prove_old_tree_gone(ctx, &record, process, ctx.drain_deadline).await,
        None => Ok(()),
    }
}
