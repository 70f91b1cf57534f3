//! How a request that is refused or lost is answered. The one place that knows the codes and the shape.

use crate::{RawId, Rejected};
use serde_json::json;
use tidegate_core::{ComponentName, Generation, NextAction, OperationId};

/// Why a request got no answer of the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Held for as long as holding lasts, or not holdable.
    Draining,
    /// Written to the server, never answered, not replayable.
    OutcomeUnknown,
    /// A request or approval is not allowed, or the drain was refused.
    RestartRefused,
    /// The lease is missing, lost or fenced off.
    LeaseRequired,
    /// The component can't be started.
    Unavailable,
    /// The tool is gone or changed in the new generation.
    ToolChanged,
}

impl RefusalKind {
    /// The JSON-RPC error code: outside the range that JSON-RPC and MCP reserve.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Self::Draining => 4503,
            Self::OutcomeUnknown => 4504,
            Self::RestartRefused => 4505,
            Self::LeaseRequired => 4506,
            Self::Unavailable => 4507,
            Self::ToolChanged => 4508,
        }
    }

    /// The name in the public contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::RestartRefused => "restart_refused",
            Self::LeaseRequired => "lease_required",
            Self::Unavailable => "unavailable",
            Self::ToolChanged => "tool_changed",
        }
    }
}

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub kind: RefusalKind,
    /// Whether making the same call again is right.
    pub retryable: bool,
    /// When, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Where.
    pub component: ComponentName,
    /// The generation it was meant for, or written to; zero where none is known.
    pub generation: Generation,
    /// The restart operation behind it.
    pub operation: Option<OperationId>,
    /// What to do.
    pub next_action: NextAction,
}

impl Refusal {
    /// The object of the public contract.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "kind": self.kind.as_str(),
            "retryable": self.retryable,
            "retry_after_ms": self.retry_after_ms,
            "component": self.component,
            "generation": (self.generation != Generation::default()).then_some(self.generation),
            "operation": self.operation,
            "next_action": self.next_action.to_json(),
        })
    }

    /// The answer to the request `id`: of a `tools/call` a tool result that the model sees, of anything else an error.
    #[must_use]
    pub fn render_for(&self, id: &RawId, method: &str) -> Vec<u8> {
        self.render_saying(id, method, &self.next_action.prompt())
    }

    /// As [`Refusal::render_for`], with another text than the next action's.
    #[must_use]
    pub fn render_saying(&self, id: &RawId, method: &str, text: &str) -> Vec<u8> {
        if method == "tools/call" {
            let result = json!({
                "content": [{ "type": "text", "text": text }],
                "isError": true,
                "_meta": { "tidegate/refusal": self.to_json() },
            });
            result_line(id, &result.to_string())
        } else {
            error_line(Some(id), self.kind.code(), text, Some(&self.to_json()))
        }
    }
}

impl Rejected {
    /// What whoever sent it is answered.
    #[must_use]
    pub fn answer(&self) -> Vec<u8> {
        error_line(self.id.as_ref(), self.error.code(), &self.error.to_string(), None)
    }
}

/// A response with this result.
pub(crate) fn result_line(id: &RawId, result: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
}

/// An error response; without an id where the request's can't be known.
pub(crate) fn error_line(
    id: Option<&RawId>,
    code: i64,
    message: &str,
    data: Option<&serde_json::Value>,
) -> Vec<u8> {
    let id = id.map_or("null", RawId::as_json);
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data.clone();
    }
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}
