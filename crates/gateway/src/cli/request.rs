//! The commands that ask the daemon: what each sends, and how its document is shown.

use super::print::{aside, document};
use super::render::{self, Render};
use super::{
    CheckpointsCommand, Command, Global, IncidentsCommand, LeasesCommand, RestartCommand, SessionsCommand,
    client,
};
use crate::api::Request;
use crate::exit::{CliError, CliResult, Outcome};

pub(super) fn run(global: &Global, command: &Command) -> CliResult {
    let (request, render) = plan(command)?;
    let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
    let answer =
        runtime.block_on(client::ask(global, &request, |progress| aside(&render::progress(progress))))?;
    document(global, &answer, render)?;
    Ok(match &request {
        Request::RestartWait { .. } if answer["operation"]["phase"] != "Completed" => Outcome::No,
        _ => Outcome::Done,
    })
}

/// What a command asks, and how its answer is shown.
fn plan(command: &Command) -> Result<(Request, Render), CliError> {
    Ok(match command {
        Command::Status => (Request::Status, render::status),
        Command::Restart(command) => restart(command),
        Command::Reload => (Request::Reload, render::reload),
        Command::Sessions { command: None | Some(SessionsCommand::List) } => {
            (Request::SessionList, render::sessions)
        }
        Command::Sessions { command: Some(SessionsCommand::Show { name }) } => {
            (Request::SessionShow { session: name.clone() }, render::resume)
        }
        Command::Sessions { command: Some(SessionsCommand::End { name }) } => {
            (Request::SessionEnd { session: name.clone() }, render::sessions)
        }
        Command::Leases(command) => leases(command),
        Command::Checkpoints(CheckpointsCommand::List) => (Request::CheckpointList, render::checkpoints),
        Command::Checkpoints(CheckpointsCommand::Show { session }) => {
            (Request::CheckpointShow { session: session.clone() }, render::resume)
        }
        Command::Incidents(command) => match command {
            IncidentsCommand::List => (Request::IncidentList, render::incidents),
            IncidentsCommand::Show { id } => (Request::IncidentShow { id: id.clone() }, render::incident),
            IncidentsCommand::Ack { id } => {
                (Request::IncidentAcknowledge { id: id.clone() }, render::incident)
            }
            IncidentsCommand::Resolve { id } => {
                (Request::IncidentResolve { id: id.clone() }, render::incident)
            }
        },
        _ => return Err(CliError::cannot("this command does not ask the daemon")),
    })
}

fn restart(command: &RestartCommand) -> (Request, Render) {
    match command {
        RestartCommand::Request { components, reason, operation, break_glass, abandon_unsafe, command } => (
            Request::RestartAsk {
                components: components.clone(),
                reason: reason.clone(),
                operation: operation.clone(),
                break_glass: *break_glass,
                abandon_unsafe: *abandon_unsafe,
                command: command.clone(),
            },
            render::operation,
        ),
        RestartCommand::Approve { id } => (Request::RestartApprove { id: id.clone() }, render::operation),
        RestartCommand::Deny { id } => (Request::RestartDeny { id: id.clone() }, render::operation),
        RestartCommand::Cancel { id } => (Request::RestartCancel { id: id.clone() }, render::operation),
        RestartCommand::List => (Request::RestartList, render::operations),
        RestartCommand::Show { id } => (Request::RestartShow { id: id.clone() }, render::operation),
        RestartCommand::Wait { id } => (Request::RestartWait { id: id.clone() }, render::operation),
    }
}

fn leases(command: &LeasesCommand) -> (Request, Render) {
    match command {
        LeasesCommand::List => (Request::LeaseList, render::leases),
        LeasesCommand::Show { key } => (Request::LeaseShow { key: key.clone() }, render::lease),
        LeasesCommand::Acquire { key, session, class, ttl } => (
            Request::LeaseAcquire {
                session: Some(session.clone()),
                key: key.clone(),
                class: *class,
                ttl_ms: ttl.saturating_mul(1_000),
            },
            render::lease,
        ),
        LeasesCommand::Renew { key, session, fence } => (
            Request::LeaseRenew { session: Some(session.clone()), key: key.clone(), fence: *fence },
            render::lease,
        ),
        LeasesCommand::Release { key, session, fence } => (
            Request::LeaseRelease { session: Some(session.clone()), key: key.clone(), fence: *fence },
            render::lease,
        ),
        LeasesCommand::Adopt { key, session } => {
            (Request::LeaseAdopt { key: key.clone(), session: session.clone() }, render::lease)
        }
    }
}
