//! Which keys a configuration may have. The one list: what is not here is refused with its line and the nearest key.

use super::nearest;
use toml::de::{DeTable, DeValue};

/// A table of the configuration: the keys it may have and those that are reserved for later.
struct Table {
    /// As shown in messages.
    name: &'static str,
    known: &'static [&'static str],
    later: &'static [&'static str],
}

const ROOT: Table = Table {
    name: "the configuration",
    known: &["state", "policy", "operator", "principal", "component"],
    later: &["http"],
};
const STATE: Table = Table { name: "[state]", known: &["store"], later: &[] };
const POLICY: Table = Table {
    name: "[policy]",
    known: &["approvals", "approvers", "operator_approvals", "drain_deadline", "hold", "request_ttl"],
    later: &[],
};
const OPERATOR: Table = Table { name: "[[operator]]", known: &["name", "token_sha256"], later: &[] };
const PRINCIPAL: Table = Table { name: "[[principal]]", known: &["name", "token_sha256"], later: &[] };
const COMPONENT: Table = Table {
    name: "[[component]]",
    known: &[
        "name",
        "command",
        "env",
        "cwd",
        "start_timeout",
        "stop_grace",
        "call_timeout",
        "sharing",
        "state",
        "trust_annotations",
        "tools",
        "leases",
    ],
    later: &["max_ttl"],
};

/// The first key that may not be there: its offset in the text and what to say.
pub(super) fn first_bad_key(root: &DeTable<'_>) -> Option<(usize, String)> {
    check(root, &ROOT).or_else(|| {
        root.iter().find_map(|(key, value)| match (key.get_ref().as_ref(), value.get_ref()) {
            ("state", DeValue::Table(t)) => check(t, &STATE),
            ("policy", DeValue::Table(t)) => check(t, &POLICY),
            ("operator", list) => check_each(list, &OPERATOR),
            ("principal", list) => check_each(list, &PRINCIPAL),
            ("component", list) => check_each(list, &COMPONENT),
            _ => None,
        })
    })
}

/// The innermost key that holds what stands at `at`.
pub(super) fn key_at<'a>(table: &'a DeTable<'_>, at: usize) -> Option<&'a str> {
    table.iter().find_map(|(key, value)| {
        let inside = match value.get_ref() {
            DeValue::Table(table) => key_at(table, at),
            DeValue::Array(items) => items.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(table) => key_at(table, at),
                _ => None,
            }),
            _ => None,
        };
        inside.or_else(|| value.span().contains(&at).then(|| key.get_ref().as_ref()))
    })
}

fn check_each(list: &DeValue<'_>, table: &Table) -> Option<(usize, String)> {
    let DeValue::Array(items) = list else { return None };
    items.iter().find_map(|item| match item.get_ref() {
        DeValue::Table(t) => check(t, table),
        _ => None,
    })
}

fn check(found: &DeTable<'_>, table: &Table) -> Option<(usize, String)> {
    found.iter().find_map(|(key, _)| {
        let name = key.get_ref().as_ref();
        let message = if table.known.contains(&name) {
            return None;
        } else if table.later.contains(&name) {
            format!("`{name}` in {} is not available yet; remove it", table.name)
        } else {
            let hint = match nearest(name, table.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", table.known.join(", ")),
            };
            format!("unknown key `{name}` in {}; {hint}", table.name)
        };
        Some((key.span().start, message))
    })
}
