//! The governance tools: what each takes, and which request it is. There is no tool that restarts anything.

use crate::api::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::{ComponentName, Fence, IncidentId, OperationId, SessionName, WorkClass};

/// The ttl of a lease when the caller names none: long enough for a model to think between two calls.
const DEFAULT_TTL_MS: u64 = 60_000;

/// One tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Input properties: name, JSON schema, whether it must be there.
    input: fn() -> Vec<(&'static str, Value, bool)>,
    /// The properties of the document it answers with.
    output: fn() -> Value,
    /// Whether it writes nothing.
    pub(super) read_only: bool,
    idempotent: bool,
    request: fn(Value) -> Result<Request, String>,
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn no_input() -> Vec<(&'static str, Value, bool)> {
    Vec::new()
}

fn operation_id() -> Vec<(&'static str, Value, bool)> {
    vec![("operation", text("The operation's id"), true)]
}

fn operation() -> Value {
    json!({ "operation": { "type": "object", "properties": {
        "id": { "type": "string" }, "phase": { "type": "string" },
        "scope": { "type": "array", "items": { "type": "string" } }, "reason": { "type": "string" } },
        "required": ["id", "phase", "scope", "reason"] } })
}

fn lease() -> Value {
    json!({ "lease": { "type": "object", "properties": {
        "key": { "type": "string" }, "session": { "type": "string" }, "fence": { "type": "string" },
        "class": { "type": "string" }, "expires_in_ms": { "type": ["integer", "null"] }, "state": { "type": "string" } },
        "required": ["key", "fence", "state"] } })
}

fn lease_key_and_fence() -> Vec<(&'static str, Value, bool)> {
    vec![
        ("key", text("The resource"), true),
        ("fence", text("The fence that lease_acquire gave, EPOCH.REVISION"), true),
    ]
}

fn incidents() -> Value {
    json!({ "incidents": { "type": "array", "items": { "type": "object" } } })
}

/// Reads a tool's arguments; what is missing or mistyped is said by name.
fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    serde_json::from_value(arguments).map_err(|e| e.to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskRestart {
    components: Vec<ComponentName>,
    reason: String,
    operation: Option<OperationId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneOperation {
    operation: OperationId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    notes: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneSession {
    session: Option<SessionName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acquire {
    key: String,
    #[serde(default = "mutating")]
    class: WorkClass,
    ttl_ms: Option<u64>,
}

fn mutating() -> WorkClass {
    WorkClass::Mutating
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    key: String,
    fence: Fence,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneIncident {
    incident: IncidentId,
}

/// Every tool, in the order it is listed.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "status",
        title: "Status",
        description: "Shows components, sessions, leases, restart operations and open incidents.",
        input: no_input,
        output: || {
            json!({ "components": { "type": "array", "items": { "type": "object" } },
                    "sessions": { "type": "array", "items": { "type": "object" } } })
        },
        read_only: true,
        idempotent: true,
        request: |a| arguments::<Nothing>(a).map(|_| Request::Status),
    },
    Tool {
        name: "restart_request",
        title: "Ask for a restart",
        description: "Asks for a restart of components. Nothing is restarted until somebody else with a credential has approved \
                      it; other sessions' work is drained first.",
        input: || {
            vec![
                (
                    "components",
                    json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
                    true,
                ),
                ("reason", text("Why, for whoever approves it"), true),
                ("operation", text("An id of your own, to ask again without asking twice"), false),
            ]
        },
        output: operation,
        read_only: false,
        idempotent: false,
        request: |a| {
            let AskRestart { components, reason, operation } = arguments(a)?;
            Ok(Request::RestartAsk {
                components,
                reason,
                operation,
                break_glass: false,
                abandon_unsafe: false,
                command: Vec::new(),
            })
        },
    },
    Tool {
        name: "restart_approve",
        title: "Approve a restart",
        description: "Approves a restart that somebody else asked for. Takes a credential that the policy lists as an approver.",
        input: operation_id,
        output: operation,
        read_only: false,
        idempotent: true,
        request: |a| arguments::<OneOperation>(a).map(|a| Request::RestartApprove { id: a.operation }),
    },
    Tool {
        name: "restart_deny",
        title: "Deny a restart",
        description: "Denies a restart that waits for approval. Takes a credential that the policy lists as an approver.",
        input: operation_id,
        output: operation,
        read_only: false,
        idempotent: true,
        request: |a| arguments::<OneOperation>(a).map(|a| Request::RestartDeny { id: a.operation }),
    },
    Tool {
        name: "restart_status",
        title: "Look at a restart",
        description: "Shows a restart operation: its phase, its approvals, and who holds it up.",
        input: operation_id,
        output: operation,
        read_only: true,
        idempotent: true,
        request: |a| arguments::<OneOperation>(a).map(|a| Request::RestartShow { id: a.operation }),
    },
    Tool {
        name: "session_checkpoint",
        title: "Keep notes",
        description: "Keeps notes of this session on stable storage, for whoever continues it.",
        input: || vec![("notes", text("What a successor has to know"), true)],
        output: || json!({ "session": { "type": "string" } }),
        read_only: false,
        idempotent: false,
        request: |a| arguments::<Notes>(a).map(|a| Request::Checkpoint { notes: a.notes }),
    },
    Tool {
        name: "session_resume",
        title: "Resume",
        description: "Tells what this session (or an earlier one of yours whose client is gone) has to know and to do next.",
        input: || vec![("session", text("The earlier session's name; this session when absent"), false)],
        output: || {
            json!({ "session": { "type": "string" }, "facts": { "type": "object" },
                    "next_action": { "type": "object", "properties": { "kind": { "type": "string" }, "prompt": { "type": "string" } },
                    "required": ["kind", "prompt"] } })
        },
        // What is told here is told once: news leaves the session's record with it.
        read_only: false,
        idempotent: false,
        request: |a| arguments::<OneSession>(a).map(|a| Request::Resume { session: a.session }),
    },
    Tool {
        name: "lease_acquire",
        title: "Acquire a lease",
        description: "Acquires an exclusive, time-bounded claim on a resource for this session.",
        input: || {
            vec![
                ("key", text("The resource, such as repo/main"), true),
                (
                    "class",
                    json!({ "type": "string", "enum": ["read-only", "idempotent", "mutating"] }),
                    false,
                ),
                ("ttl_ms", json!({ "type": "integer", "minimum": 1 }), false),
            ]
        },
        output: lease,
        read_only: false,
        idempotent: true,
        request: |a| {
            let Acquire { key, class, ttl_ms } = arguments(a)?;
            Ok(Request::LeaseAcquire { session: None, key, class, ttl_ms: ttl_ms.unwrap_or(DEFAULT_TTL_MS) })
        },
    },
    Tool {
        name: "lease_renew",
        title: "Renew a lease",
        description: "Renews a lease of this session. Any activity of the session renews its leases as well.",
        input: lease_key_and_fence,
        output: lease,
        read_only: false,
        idempotent: true,
        request: |a| {
            arguments::<Held>(a).map(|a| Request::LeaseRenew { session: None, key: a.key, fence: a.fence })
        },
    },
    Tool {
        name: "lease_release",
        title: "Release a lease",
        description: "Releases a lease of this session.",
        input: lease_key_and_fence,
        output: lease,
        read_only: false,
        idempotent: true,
        request: |a| {
            arguments::<Held>(a).map(|a| Request::LeaseRelease { session: None, key: a.key, fence: a.fence })
        },
    },
    Tool {
        name: "incident_list",
        title: "List incidents",
        description: "Lists incidents with who is next and what to do.",
        input: no_input,
        output: incidents,
        read_only: true,
        idempotent: true,
        request: |a| arguments::<Nothing>(a).map(|_| Request::IncidentList),
    },
    Tool {
        name: "incident_acknowledge",
        title: "Acknowledge an incident",
        description: "Says that this session has seen an incident. Resolving it is an operator's.",
        input: || vec![("incident", text("The incident's id"), true)],
        output: incidents,
        read_only: false,
        idempotent: true,
        request: |a| arguments::<OneIncident>(a).map(|a| Request::IncidentAcknowledge { id: a.incident }),
    },
];

impl Tool {
    /// The tool of that name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|t| t.name == name)
    }

    /// Its entry in `tools/list`.
    pub(super) fn listed(&self) -> Value {
        let input = (self.input)();
        let required: Vec<&str> = input.iter().filter(|(_, _, must)| *must).map(|(name, ..)| *name).collect();
        let properties: serde_json::Map<String, Value> =
            input.into_iter().map(|(name, schema, _)| (name.to_owned(), schema)).collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
            "outputSchema": { "type": "object", "properties": (self.output)() },
            "annotations": { "readOnlyHint": self.read_only, "destructiveHint": false, "idempotentHint": self.idempotent,
                             "openWorldHint": false },
        })
    }

    /// The request that a call is.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub(super) fn request(&self, arguments: Value) -> Result<Request, String> {
        (self.request)(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_those_of_the_contract_and_none_restarts_anything() {
        let names: Vec<&str> = TOOLS.iter().map(|t| t.name).collect();
        assert_eq!(
            names,
            [
                "status",
                "restart_request",
                "restart_approve",
                "restart_deny",
                "restart_status",
                "session_checkpoint",
                "session_resume",
                "lease_acquire",
                "lease_renew",
                "lease_release",
                "incident_list",
                "incident_acknowledge"
            ]
        );
    }

    #[test]
    fn a_tool_is_read_only_when_it_writes_nothing() {
        let read_only: Vec<&str> = TOOLS.iter().filter(|tool| tool.read_only).map(|tool| tool.name).collect();
        assert_eq!(read_only, ["status", "restart_status", "incident_list"]);
    }

    #[test]
    fn arguments_are_checked_by_name() {
        let request = |tool: &str, a: Value| Tool::named(tool).unwrap().request(a);
        assert!(matches!(request("status", Value::Null), Ok(Request::Status)));
        assert!(request("restart_request", json!({ "reason": "x" })).unwrap_err().contains("components"));
        assert!(request("status", json!({ "x": 1 })).unwrap_err().contains("unknown field `x`"));
        assert!(
            request("lease_renew", json!({ "key": "k", "fence": "7" }))
                .unwrap_err()
                .contains("EPOCH.REVISION")
        );
    }
}
