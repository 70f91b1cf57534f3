//! Restart operations, and the lines of `restart wait`.

use super::text::{ago, cell, duration, each, labelled, section, table, when};
use serde_json::Value;
use tidegate_core::WallTime;

/// A live line of `restart wait`: the phase, or one holder.
pub(in crate::cli) fn progress(progress: &Value) -> String {
    let Some(holder) = progress.get("holder") else { return cell(&progress["phase"]) };
    let left = match &progress["drain_ends_in_ms"] {
        Value::Null => String::new(),
        left => format!("; {} until the deadline", duration(left)),
    };
    format!("waiting for {}{left}", holder_text(holder))
}

/// Whose call, what it is, and since when.
pub(super) fn holder_text(holder: &Value) -> String {
    format!(
        "{}: {} on {} ({}), running for {}{}",
        cell(&holder["session"]),
        cell(&holder["tool"]),
        cell(&holder["component"]),
        cell(&holder["class"]),
        duration(&holder["age_ms"]),
        if holder["detached"] == true { ", its caller is gone" } else { "" },
    )
}

/// Operations as a table.
pub(super) fn operation_table(list: &Value, now: WallTime) -> String {
    let row = |op: &Value| {
        [
            cell(&op["id"]),
            cell(&op["phase"]),
            cell(&op["scope"]),
            cell(&op["requested_by"]),
            ago(&op["requested_at"], now),
            cell(&op["reason"]),
        ]
    };
    table(["ID", "PHASE", "SCOPE", "REQUESTED BY", "WHEN", "REASON"], each(list).map(row))
}

/// `restart list`.
pub(in crate::cli) fn operations(doc: &Value, now: WallTime) -> String {
    section("Operations", &operation_table(&doc["operations"], now))
}

/// `reload`: what is proposed, and what can't be.
pub(in crate::cli) fn reload(doc: &Value, now: WallTime) -> String {
    let proposed = match each(&doc["operations"]).next() {
        None => "No component's configuration has changed.\n".to_owned(),
        Some(_) => operations(doc, now),
    };
    each(&doc["notes"]).map(cell).fold(proposed, |text, note| format!("{text}\n{note}"))
}

/// One operation, and what to type next.
pub(in crate::cli) fn operation(doc: &Value, now: WallTime) -> String {
    let op = &doc["operation"];
    let mut text = format!("{}  {}\n", cell(&op["id"]), cell(&op["phase"]));
    text += &labelled("scope", &cell(&op["scope"]));
    text += &labelled("reason", &cell(&op["reason"]));
    let by = match &op["session"] {
        Value::Null => cell(&op["requested_by"]),
        session => format!("{}, session {}", cell(&op["requested_by"]), cell(session)),
    };
    text += &labelled("requested by", &format!("{by}, {}", when(&op["requested_at"], now)));
    for approval in each(&op["approvals"]) {
        let (who, at) = (cell(&approval["principal"]), when(&approval["at"], now));
        text += &labelled("approved by", &format!("{who}, {at}"));
    }
    if op["phase"] == "Requested" {
        let given = op["approvals"].as_array().map_or(0, Vec::len);
        text += &labelled("approvals", &format!("{given} of {}", cell(&op["approvals_needed"])));
        text += &labelled("expires in", &duration(&op["expires_in_ms"]));
        text += &op["void"].as_str().map_or_else(String::new, |void| labelled("void", void));
    }
    if op["break_glass"] == true {
        text += &labelled("approvals", "skipped: the glass was broken");
    }
    if !op["drain_ends_in_ms"].is_null() {
        text += &labelled("deadline in", &duration(&op["drain_ends_in_ms"]));
    }
    for holder in each(&op["holders"]) {
        text += &labelled("holder", &holder_text(holder));
    }
    for (component, generation) in op["generations"].as_object().into_iter().flatten() {
        let (before, after) = (cell(&generation["before"]), &generation["after"]);
        let after = if after.is_null() { String::new() } else { format!(" -> {}", cell(after)) };
        text += &labelled("generation", &format!("{component}: {before}{after}"));
    }
    for (component, said) in op["failures"].as_object().into_iter().flatten() {
        text += &labelled("failure", &format!("{component}: {}", cell(said)));
    }
    if let Some(note) = op["note"].as_str().filter(|note| !note.is_empty()) {
        text += &labelled("note", note);
    }
    if doc["counted"] == false {
        text += &labelled("note", "your approval had been counted before; it counts once");
    }
    if !op["ended_at"].is_null() {
        text += &labelled("ended", &when(&op["ended_at"], now));
    }
    if let Some(next) = next(op) {
        text += &labelled("next", &next);
    }
    text
}

/// What to type next, whoever it is for.
fn next(op: &Value) -> Option<String> {
    let id = cell(&op["id"]);
    Some(match op["phase"].as_str()? {
        "Requested" if op["void"].is_string() => ask_again(op),
        "Requested" => format!("an approver runs: tidegate restart approve {id} --token-file FILE"),
        "Completed" => return None,
        "Refused" | "RolledBack" | "Failed" => format!("tidegate incidents show {}", cell(&op["incident"])),
        "Denied" | "Expired" | "Cancelled" => format!("to ask again: {}", ask_again(op)),
        _ => format!("tidegate restart wait {id}"),
    })
}

/// What asks for the same once more.
pub(super) fn ask_again(op: &Value) -> String {
    if op["intent"] == "takeover" {
        return "tidegate serve --takeover".to_owned();
    }
    let scope = each(&op["scope"]).map(cell).collect::<Vec<_>>().join(" ");
    format!("tidegate restart request {scope} --reason TEXT")
}
