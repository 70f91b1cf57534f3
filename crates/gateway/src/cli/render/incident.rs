//! Incidents: what happened, who is next, what they do.

use super::text::{ago, cell, each, labelled, section, table, when};
use serde_json::Value;
use tidegate_core::WallTime;

/// Incidents as a table.
pub(super) fn incident_table(list: &Value, now: WallTime) -> String {
    let row = |incident: &Value| {
        [
            cell(&incident["id"]),
            cell(&incident["severity"]),
            cell(&incident["state"]),
            cell(&incident["kind"]),
            cell(&incident["count"]),
            ago(&incident["last_seen"], now),
            cell(&incident["who_is_next"]),
            cell(&incident["title"]),
        ]
    };
    table(["ID", "SEVERITY", "STATE", "KIND", "COUNT", "LAST SEEN", "NEXT", "WHAT"], each(list).map(row))
}

/// `incidents list`.
pub(in crate::cli) fn incidents(doc: &Value, now: WallTime) -> String {
    section("Incidents", &incident_table(&doc["incidents"], now))
}

/// Incidents one by one, with evidence and history.
pub(in crate::cli) fn incident(doc: &Value, now: WallTime) -> String {
    each(&doc["incidents"]).map(|incident| one(incident, now)).collect::<Vec<_>>().join("\n")
}

fn one(incident: &Value, now: WallTime) -> String {
    let id = cell(&incident["id"]);
    let mut text = format!("{id}  {} ({})\n", cell(&incident["kind"]), cell(&incident["severity"]));
    text += &labelled("what", &cell(&incident["title"]));
    for about in ["scope", "operation", "session"] {
        if !incident[about].is_null() {
            text += &labelled(about, &cell(&incident[about]));
        }
    }
    let (first, last) = (when(&incident["first_seen"], now), when(&incident["last_seen"], now));
    text += &match incident["count"].as_u64() {
        Some(1) => labelled("seen", &first),
        _ => labelled("seen", &format!("{} times, first {first}, last {last}", cell(&incident["count"]))),
    };
    text += &format!(
        "\nSTATE        {}{}\nWHO_IS_NEXT  {}\nNEXT_ACTION  {}\nNEXT_PROMPT  {}\n",
        cell(&incident["state"]),
        if incident["flapping"] == true { ", flapping" } else { "" },
        cell(&incident["who_is_next"]),
        cell(&incident["next_action"]["kind"]),
        cell(&incident["next_prompt"]),
    );
    let evidence = incident["evidence"].as_object().filter(|evidence| !evidence.is_empty());
    for (name, value) in evidence.into_iter().flatten() {
        let value = value.as_str().map_or_else(|| cell(value), str::to_owned);
        text += &match value.trim_end() {
            one_line if !one_line.contains('\n') => format!("\n{name}: {one_line}"),
            lines => format!("\n{name}:\n  {}", lines.replace('\n', "\n  ")),
        };
    }
    text.push('\n');
    for step in each(&incident["history"]) {
        let by = match &step["by"] {
            Value::Object(by) => by.iter().map(|(kind, name)| format!("{kind} {}", cell(name))).collect(),
            by => cell(by),
        };
        text += &format!("\n{} by {by}, {}", cell(&step["step"]), when(&step["at"], now));
    }
    text.push('\n');
    if incident["state"] != "resolved" {
        text += &format!("\nwhen it is done, an operator runs: tidegate incidents resolve {id}\n");
    }
    text
}
