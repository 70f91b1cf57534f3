//! The configuration as a whole: whether it can be used, whether anybody can approve, who can read its secrets.

use super::finding::{Finding, count};
use crate::config::mcp::{Import, looks_secret};
use crate::config::{Config, ConfigError, is_of_a_client};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const CHECK: &str = "configuration";

pub(super) fn unusable(path: &Path, error: &ConfigError) -> Finding {
    let next = format!("repair {}; docs/configuration.md has every key", path.display());
    Finding::failed(CHECK, error.to_string(), next)
}

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let path = config.path.display();
    let mut findings = vec![if config.components.is_empty() {
        Finding::failed(CHECK, format!("{path} has no component"), "add a [[component]]")
    } else {
        let components = count(config.components.len(), "component");
        Finding::ok(CHECK, format!("{path}: {components}, {}", count(config.operators.len(), "operator")))
    }];
    if is_of_a_client(&config.path) {
        let import = Import::read(&config.path).ok();
        for (server, why) in import.iter().flat_map(Import::left) {
            let next = "leave it in the client's own configuration, or repair it";
            findings.push(Finding::warning(CHECK, format!("{server} is left out: {why}"), next));
        }
    }
    match crate::daemon::policy(config).check() {
        Ok(warnings) => findings.extend(warnings.iter().map(|warning| {
            Finding::warning(
                CHECK,
                warning.to_string(),
                "`tidegate token` makes a token, and the hash that goes into an [[operator]]",
            )
        })),
        Err(error) => findings.push(Finding::failed(CHECK, error.to_string(), format!("change {path}"))),
    }
    let secret =
        config.components.iter().any(|component| component.env.keys().any(|name| looks_secret(name)));
    if secret && readable_by_others(&config.path) {
        findings.push(Finding::warning(
            CHECK,
            format!("{path} seems to hold secrets, and others can read it"),
            format!("chmod 600 {path}"),
        ));
    }
    findings
}

/// Whether anybody but the owner has any right to a file or directory.
pub(super) fn readable_by_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}
