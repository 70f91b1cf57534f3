//! `status`: what needs somebody comes first, with what to type.

use super::incident::incident_table;
use super::lease::lease_table;
use super::operation::{ask_again, holder_text, operation_table};
use super::session::session_table;
use super::text::{ago, cell, duration, each, section, table};
use super::tone::{Tone, toned};
use serde_json::Value;
use tidegate_core::WallTime;

/// Lines of a server's last words that are shown here; `incidents show` has more.
const LAST_WORDS: usize = 3;

/// Below the components, where sessions have servers of their own.
const OWN_SERVERS: &str = "\
    GEN and RESTARTS of a component count restarts of all its servers together; a session's own server counts its own.\n";

pub(in crate::cli) fn status(doc: &Value, now: WallTime) -> String {
    let needs = needs(doc, now);
    let head = match needs.len() {
        0 => toned(Tone::Good, "Nothing needs you.") + "\n",
        1 => toned(Tone::Strong, "1 thing needs somebody:") + "\n",
        n => toned(Tone::Strong, &format!("{n} things need somebody:")) + "\n",
    };
    let row = |name: String, component: &Value| {
        [
            name,
            state(&component["state"]),
            cell(&component["generation"]),
            cell(&component["pid"]),
            cell(&component["in_flight"]),
            cell(&component["held"]),
            cell(&component["restarts"]),
        ]
    };
    let components = table(
        ["NAME", "STATE", "GEN", "PID", "IN FLIGHT", "HELD", "RESTARTS"],
        each(&doc["components"]).flat_map(|component| {
            let own = each(&component["servers"])
                .map(|server| row(format!("  {}", cell(&server["session"])), server))
                .collect::<Vec<_>>();
            std::iter::once(row(cell(&component["name"]), component)).chain(own)
        }),
    );
    let own = each(&doc["components"]).any(|component| each(&component["servers"]).next().is_some());
    let components = if own { components + OWN_SERVERS } else { components };
    let parts = [
        ("Components", components),
        ("Sessions", session_table(&doc["sessions"], now)),
        ("Leases", lease_table(&doc["leases"])),
        ("Operations", operation_table(&doc["operations"], now)),
        ("Open incidents", incident_table(&doc["incidents"], now)),
    ];
    let (empty, full): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, text)| text.is_empty());
    let none: Vec<_> = empty.iter().map(|(title, _)| title.to_lowercase()).collect();
    let mut text = head + &needs.concat();
    for (title, rows) in full {
        text += &format!("\n{}", section(title, &rows));
    }
    if !none.is_empty() {
        text += &format!("\nThere are no {}.\n", none.join(", no "));
    }
    text
}

/// A component's state, in the tone that it has for somebody who waits for it.
fn state(state: &Value) -> String {
    let tone = match state.as_str() {
        Some("ready") => Tone::Good,
        Some("unavailable") => Tone::Bad,
        _ => Tone::Doubtful,
    };
    toned(tone, &cell(state))
}

/// What needs somebody, the worst first.
fn needs(doc: &Value, now: WallTime) -> Vec<String> {
    let is_open = |severity: &'static str| {
        each(&doc["incidents"]).filter(move |incident| incident["severity"] == severity)
    };
    let incidents = ["critical", "warning", "info"].into_iter().flat_map(is_open);
    let unexplained = each(&doc["components"]).filter(|component| {
        component["state"] == "unavailable"
            && !each(&doc["incidents"]).any(|incident| incident["scope"] == component["name"])
    });
    let orphans = each(&doc["leases"]).filter(|lease| lease["state"] == "orphaned");
    let refused = [&doc["store"]["refused"]].into_iter().filter(|refused| !refused.is_null());
    (refused.map(|it| of_store(it, now)))
        .chain(incidents.map(|it| of_incident(doc, it, now)))
        .chain(unexplained.map(of_component))
        .chain(each(&doc["operations"]).map(of_operation))
        .chain(orphans.map(of_lease))
        .collect()
}

/// One need: what it is, lines about it, and what to type.
fn need(what: &str, about: &[String], next: &str) -> String {
    let about: String = about.iter().map(|line| format!("      {line}\n")).collect();
    format!("  - {what}\n{about}      next: {next}\n")
}

fn of_store(refused: &Value, now: WallTime) -> String {
    need(
        &format!(
            "{}, {}: what has to be recorded is refused",
            toned(Tone::Bad, "critical"),
            ago(&refused["at"], now)
        ),
        &[cell(&refused["reason"])],
        "tidegate doctor",
    )
}

fn of_incident(doc: &Value, incident: &Value, now: WallTime) -> String {
    let down = |component: &&Value| {
        component["name"] == incident["scope"]
            && ["starting", "unavailable"].iter().any(|state| component["state"] == *state)
    };
    let component = each(&doc["components"]).find(down);
    let said = component.map(last_words).unwrap_or_default();
    let state =
        component.map_or_else(String::new, |it| format!("; {} is {}", cell(&it["name"]), cell(&it["state"])));
    let tone = if incident["severity"] == "critical" { Tone::Bad } else { Tone::Doubtful };
    let (severity, title) = (toned(tone, &cell(&incident["severity"])), cell(&incident["title"]));
    let last = ago(&incident["last_seen"], now);
    let whose = match incident["who_is_next"].as_str() {
        Some("session") => format!(" (the session {} is told)", cell(&incident["session"])),
        _ => String::new(),
    };
    need(
        &format!("{severity}, {last}: {title}{state}"),
        &said,
        &format!("tidegate incidents show {}{whose}", cell(&incident["id"])),
    )
}

fn of_component(component: &Value) -> String {
    let name = cell(&component["name"]);
    need(
        &format!("{name} is unavailable"),
        &last_words(component),
        &format!("tidegate restart request {name} --reason TEXT"),
    )
}

fn last_words(component: &Value) -> Vec<String> {
    let said: Vec<&str> = component["last_stderr"].as_str().unwrap_or_default().lines().collect();
    said[said.len().saturating_sub(LAST_WORDS)..].iter().map(|line| format!("it said: {line}")).collect()
}

fn of_operation(op: &Value) -> String {
    let (id, scope, by) = (cell(&op["id"]), cell(&op["scope"]), cell(&op["requested_by"]));
    if let Some(void) = op["void"].as_str() {
        return need(
            &format!("the restart of {scope} can't be approved any more (by {by}: {})", cell(&op["reason"])),
            &[void.to_owned()],
            &ask_again(op),
        );
    }
    if op["phase"] == "Requested" {
        return need(
            &format!(
                "the restart of {scope} waits for an approval (by {by}: {}; expires in {})",
                cell(&op["reason"]),
                duration(&op["expires_in_ms"])
            ),
            &[],
            &format!("tidegate restart approve {id} --token-file FILE (or deny)"),
        );
    }
    let holders: Vec<String> = each(&op["holders"]).map(holder_text).collect();
    let left = match &op["drain_ends_in_ms"] {
        Value::Null => String::new(),
        left => format!(", {} until the deadline", duration(left)),
    };
    need(
        &format!("the restart of {scope} is under way: {}{left}", cell(&op["phase"])),
        &holders,
        &format!("tidegate restart wait {id}"),
    )
}

fn of_lease(lease: &Value) -> String {
    let key = cell(&lease["key"]);
    need(
        &format!("the lease {key} of {} is orphaned", cell(&lease["session"])),
        &[],
        &format!("tidegate leases show {key}"),
    )
}
