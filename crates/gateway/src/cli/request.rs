//! The commands that ask the daemon: what each sends, and how its document reads.

use super::print::{aside, cell, document, duration, rows, table};
use super::{
    CheckpointsCommand, Command, Global, IncidentsCommand, LeasesCommand, RestartCommand, SessionsCommand,
    client, later,
};
use crate::api::Request;
use crate::exit::{CliError, CliResult, Outcome};
use serde_json::Value;

/// How a document is shown to people.
type Render = fn(&Value) -> String;

pub(super) fn run(global: &Global, command: &Command) -> CliResult {
    let (request, render) = plan(command)?;
    let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
    let answer =
        runtime.block_on(client::ask(global, &request, |progress| aside(&progress_line(progress))))?;
    document(global, &answer, render);
    Ok(match &request {
        Request::RestartWait { .. } if answer["operation"]["phase"] != "Completed" => Outcome::No,
        _ => Outcome::Done,
    })
}

/// What a command asks, and how its answer is shown.
fn plan(command: &Command) -> Result<(Request, Render), CliError> {
    Ok(match command {
        Command::Status => (Request::Status, status),
        Command::Restart(command) => restart(command)?,
        Command::Sessions { command: None | Some(SessionsCommand::List) } => (Request::SessionList, sessions),
        Command::Sessions { command: Some(SessionsCommand::Show { name }) } => {
            (Request::SessionShow { session: name.clone() }, super::state::render_resume)
        }
        Command::Sessions { command: Some(SessionsCommand::End { name }) } => {
            (Request::SessionEnd { session: name.clone() }, sessions)
        }
        Command::Leases(command) => leases(command),
        Command::Checkpoints(CheckpointsCommand::List) => (Request::CheckpointList, checkpoints),
        Command::Checkpoints(CheckpointsCommand::Show { session }) => {
            (Request::CheckpointShow { session: session.clone() }, super::state::render_resume)
        }
        Command::Incidents(command) => match command {
            IncidentsCommand::List => (Request::IncidentList, incidents),
            IncidentsCommand::Show { id } => (Request::IncidentShow { id: id.clone() }, incident),
            IncidentsCommand::Ack { id } => (Request::IncidentAcknowledge { id: id.clone() }, incident),
            IncidentsCommand::Resolve { id } => (Request::IncidentResolve { id: id.clone() }, incident),
        },
        _ => return Err(CliError::cannot("this command does not ask the daemon")),
    })
}

fn restart(command: &RestartCommand) -> Result<(Request, Render), CliError> {
    Ok(match command {
        RestartCommand::Request { abandon_unsafe: true, .. } => return Err(later("--abandon-unsafe")),
        RestartCommand::Request { command, .. } if !command.is_empty() => {
            return Err(later("restart request --command"));
        }
        RestartCommand::Request { components, reason, operation, break_glass, .. } => (
            Request::RestartAsk {
                components: components.clone(),
                reason: reason.clone(),
                operation: operation.clone(),
                break_glass: *break_glass,
            },
            operation_text,
        ),
        RestartCommand::Approve { id } => (Request::RestartApprove { id: id.clone() }, operation_text),
        RestartCommand::Deny { id } => (Request::RestartDeny { id: id.clone() }, operation_text),
        RestartCommand::Cancel { id } => (Request::RestartCancel { id: id.clone() }, operation_text),
        RestartCommand::List => (Request::RestartList, operations),
        RestartCommand::Show { id } => (Request::RestartShow { id: id.clone() }, operation_text),
        RestartCommand::Wait { id } => (Request::RestartWait { id: id.clone() }, operation_text),
    })
}

fn leases(command: &LeasesCommand) -> (Request, Render) {
    match command {
        LeasesCommand::List => (Request::LeaseList, lease_list),
        LeasesCommand::Show { key } => (Request::LeaseShow { key: key.clone() }, lease_text),
        LeasesCommand::Acquire { key, session, class, ttl } => (
            Request::LeaseAcquire {
                session: Some(session.clone()),
                key: key.clone(),
                class: *class,
                ttl_ms: ttl.saturating_mul(1_000),
            },
            lease_text,
        ),
        LeasesCommand::Renew { key, session, fence } => (
            Request::LeaseRenew { session: Some(session.clone()), key: key.clone(), fence: *fence },
            lease_text,
        ),
        LeasesCommand::Release { key, session, fence } => (
            Request::LeaseRelease { session: Some(session.clone()), key: key.clone(), fence: *fence },
            lease_text,
        ),
        LeasesCommand::Adopt { key, session } => {
            (Request::LeaseAdopt { key: key.clone(), session: session.clone() }, lease_text)
        }
    }
}

/// A live line of `restart wait`: the phase, or one holder.
fn progress_line(progress: &Value) -> String {
    match progress.get("holder") {
        Some(holder) => format!(
            "waiting for {} ({}) {} in {}, {}{}",
            cell(&holder["tool"]),
            cell(&holder["class"]),
            cell(&holder["session"]),
            cell(&holder["component"]),
            duration(&holder["age_ms"]),
            if holder["detached"] == true { ", its caller is gone" } else { "" },
        ),
        None => cell(&progress["phase"]),
    }
}

fn section(title: &str, text: String) -> String {
    if text.is_empty() { format!("{title}: none\n") } else { format!("{title}\n{text}\n") }
}

fn status(doc: &Value) -> String {
    let components = rows(
        &doc["components"],
        &[
            ("name", cell),
            ("state", cell),
            ("generation", cell),
            ("pid", cell),
            ("in_flight", cell),
            ("held", cell),
            ("restarts", cell),
        ],
    );
    let components = table(&["NAME", "STATE", "GEN", "PID", "IN FLIGHT", "HELD", "RESTARTS"], &components);
    [
        section("Components", components),
        section("Sessions", session_table(&doc["sessions"])),
        section("Leases", lease_table(&doc["leases"])),
        section("Operations", operation_table(&doc["operations"])),
        section("Open incidents", incident_table(&doc["incidents"])),
    ]
    .join("\n")
}

fn session_table(list: &Value) -> String {
    let rows = rows(list, &[("name", cell), ("principal", cell), ("streams", cell), ("attached", cell)]);
    table(&["NAME", "PRINCIPAL", "STREAMS", "ATTACHED"], &rows)
}

fn sessions(doc: &Value) -> String {
    section("Sessions", session_table(&doc["sessions"]))
}

fn lease_table(list: &Value) -> String {
    let rows = rows(
        list,
        &[
            ("key", cell),
            ("session", cell),
            ("fence", cell),
            ("class", cell),
            ("expires_in_ms", duration),
            ("state", cell),
        ],
    );
    table(&["KEY", "SESSION", "FENCE", "CLASS", "EXPIRES IN", "STATE"], &rows)
}

fn lease_list(doc: &Value) -> String {
    section("Leases", lease_table(&doc["leases"]))
}

fn lease_text(doc: &Value) -> String {
    lease_table(&Value::Array(vec![doc["lease"].clone()]))
}

fn operation_table(list: &Value) -> String {
    let rows = rows(
        list,
        &[("id", cell), ("phase", cell), ("scope", cell), ("requested_by", cell), ("reason", cell)],
    );
    table(&["ID", "PHASE", "SCOPE", "REQUESTED BY", "REASON"], &rows)
}

fn operations(doc: &Value) -> String {
    section("Operations", operation_table(&doc["operations"]))
}

fn operation_text(doc: &Value) -> String {
    let op = &doc["operation"];
    let mut text = format!(
        "{}  {}\nscope         {}\nreason        {}\nrequested by  {}\n",
        cell(&op["id"]),
        cell(&op["phase"]),
        cell(&op["scope"]),
        cell(&op["reason"]),
        cell(&op["requested_by"])
    );
    for approval in op["approvals"].as_array().into_iter().flatten() {
        text += &format!("approved by   {} at {}\n", cell(&approval["principal"]), cell(&approval["at"]));
    }
    for holder in op["holders"].as_array().into_iter().flatten() {
        text += &format!(
            "holder        {} {} ({}), {}{}\n",
            cell(&holder["session"]),
            cell(&holder["tool"]),
            cell(&holder["class"]),
            duration(&holder["age_ms"]),
            if holder["detached"] == true { ", its caller is gone" } else { "" }
        );
    }
    for (component, generation) in op["generations"].as_object().into_iter().flatten() {
        text += &format!(
            "generation    {component}: {} -> {}\n",
            cell(&generation["before"]),
            cell(&generation["after"])
        );
    }
    if !op["incident"].is_null() {
        text += &format!("incident      {0}  (tidegate incidents show {0})\n", cell(&op["incident"]));
    }
    if doc["counted"] == false {
        text += "note          your approval had been counted before; it counts once\n";
    }
    if op["phase"] == "Requested" {
        text += &format!("next          an approver runs: tidegate restart approve {}\n", cell(&op["id"]));
    }
    text
}

fn checkpoints(doc: &Value) -> String {
    let rows = rows(
        &doc["checkpoints"],
        &[("session", cell), ("updated_at", cell), ("next_action", |a| cell(&a["kind"]))],
    );
    section("Checkpoints", table(&["SESSION", "UPDATED", "NEXT ACTION"], &rows))
}

fn incident_table(list: &Value) -> String {
    let rows = rows(
        list,
        &[
            ("id", cell),
            ("kind", cell),
            ("state", cell),
            ("severity", cell),
            ("count", cell),
            ("last_seen", cell),
            ("who_is_next", cell),
        ],
    );
    table(&["ID", "KIND", "STATE", "SEVERITY", "COUNT", "LAST SEEN", "NEXT"], &rows)
}

fn incidents(doc: &Value) -> String {
    section("Incidents", incident_table(&doc["incidents"]))
}

fn incident(doc: &Value) -> String {
    doc["incidents"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|incident| {
            let mut text = format!(
                "{}  {} ({})\nseen         {} times, {} to {}\n\nSTATE        {}\nWHO_IS_NEXT  {}\nNEXT_ACTION  {}\nNEXT_PROMPT  {}\n",
                cell(&incident["id"]),
                cell(&incident["kind"]),
                cell(&incident["severity"]),
                cell(&incident["count"]),
                cell(&incident["first_seen"]),
                cell(&incident["last_seen"]),
                cell(&incident["state"]),
                cell(&incident["who_is_next"]),
                cell(&incident["next_action"]["kind"]),
                cell(&incident["next_prompt"]),
            );
            for (name, value) in incident["evidence"].as_object().into_iter().flatten() {
                text += &format!("\n{name}:\n{}\n", cell(value));
            }
            text
        })
        .collect()
}
