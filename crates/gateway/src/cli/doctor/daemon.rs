//! The running daemon: whether it answers, and what it says of itself.

use super::finding::{Finding, count};
use crate::api::Request;
use crate::cli::render::{cell, each};
use crate::cli::{Global, client};
use crate::config::Config;
use serde_json::Value;

const CHECK: &str = "daemon";

pub(super) async fn look(global: &Global, config: &Config, locked: bool) -> Vec<Finding> {
    match client::ask(global, &Request::Status, |_| ()).await {
        Ok(status) => answered(&status),
        Err(error) if locked => vec![Finding::failed(
            CHECK,
            format!("a daemon has the state directory and does not answer: {error}"),
            "look at its log; it may just be starting or ending",
        )],
        Err(_) => vec![Finding::warning(
            CHECK,
            "none is running",
            format!("tidegate serve --config {}", config.path.display()),
        )],
    }
}

/// What the document of `status` says that somebody should know.
pub(super) fn answered(status: &Value) -> Vec<Finding> {
    let of = |list: &str, what: &str| count(status[list].as_array().map_or(0, Vec::len), what);
    let said = format!("it answers: {}, {}", of("components", "component"), of("sessions", "session"));
    let mut findings = vec![Finding::ok(CHECK, said)];
    for component in each(&status["components"]) {
        let name = cell(&component["name"]);
        if component["state"] == "unavailable" {
            let next = match component["incident"].as_str() {
                Some(incident) => format!("tidegate incidents show {incident}"),
                None => format!("tidegate restart request {name} --reason TEXT"),
            };
            findings.push(Finding::failed(CHECK, format!("{name} is unavailable"), next));
        }
        if let Some(skipped) = component["skipped_lines"].as_u64().filter(|skipped| *skipped > 0) {
            findings.push(Finding::warning(
                CHECK,
                format!("{name} wrote {skipped} lines to its standard output that are no messages; they were skipped"),
                "servers log to standard error: report it to its author, or turn its banner off",
            ));
        }
    }
    let open = status["incidents"].as_array().map_or(0, Vec::len);
    if open > 0 {
        findings.push(Finding::warning(CHECK, count(open, "open incident"), "tidegate status"));
    }
    findings
}
