//! Leases.

use super::text::{ago, cell, duration, each, labelled, section, table};
use serde_json::Value;
use tidegate_core::WallTime;

/// Leases as a table.
pub(super) fn lease_table(list: &Value) -> String {
    let row = |lease: &Value| {
        [
            cell(&lease["key"]),
            cell(&lease["session"]),
            cell(&lease["state"]),
            if lease["state"] == "held" { duration(&lease["expires_in_ms"]) } else { "-".to_owned() },
            cell(&lease["class"]),
            cell(&lease["fence"]),
        ]
    };
    table(["KEY", "SESSION", "STATE", "EXPIRES IN", "CLASS", "FENCE"], each(list).map(row))
}

/// `leases list`.
pub(in crate::cli) fn leases(doc: &Value, _now: WallTime) -> String {
    section("Leases", &lease_table(&doc["leases"]))
}

/// One lease, with what became of it.
pub(in crate::cli) fn lease(doc: &Value, now: WallTime) -> String {
    let lease = &doc["lease"];
    let mut text = format!("{}  {}\n", cell(&lease["key"]), cell(&lease["state"]));
    text += &labelled("session", &format!("{} of {}", cell(&lease["session"]), cell(&lease["principal"])));
    text += &labelled("class", &cell(&lease["class"]));
    text += &labelled("fence", &cell(&lease["fence"]));
    if lease["state"] == "held" {
        text += &labelled("expires in", &duration(&lease["expires_in_ms"]));
    }
    for event in each(&lease["history"]) {
        let note = event["note"].as_str().map_or_else(String::new, |note| format!(": {note}"));
        let (at, what, whose) = (ago(&event["at"], now), cell(&event["event"]), cell(&event["session"]));
        text += &labelled("history", &format!("{at}  {what}, {whose}{note}"));
    }
    if lease["state"] == "orphaned" {
        let key = cell(&lease["key"]);
        text += &labelled(
            "next",
            &format!(
                "look at what it protects, then an operator runs: tidegate leases adopt {key} --session NAME"
            ),
        );
    }
    text
}
