//! The refusal of a call of a governance tool that no daemon has answered. Such a tool belongs to no component.

use super::stream::RETRY_AFTER_MS;
use super::tools::Tool;
use crate::api::Failure;
use serde_json::json;
use tidegate_core::{ComponentName, NextAction};
use tidegate_relay::RefusalKind;

/// How far the call went.
pub(super) enum Lost<'a> {
    /// There was no daemon to send it to.
    Unsent,
    /// The daemon would not have it, and will not until somebody has changed something.
    Unwelcome,
    /// It was sent, and the answer never came.
    Unanswered(&'a Tool),
}

/// What the caller is answered, with the refusal of the public contract.
pub(super) fn failure(lost: Lost<'_>, reason: String) -> Failure {
    let Ok(gateway) = "tidegate".parse::<ComponentName>() else { return Failure::cannot(reason) };
    let (kind, retryable, next) = match lost {
        Lost::Unsent => {
            let retry_after_ms = RETRY_AFTER_MS;
            let next = NextAction::WaitForRestart { component: gateway, operation: None, retry_after_ms };
            (RefusalKind::Unavailable, true, next)
        }
        Lost::Unwelcome => (RefusalKind::Unavailable, false, NextAction::ContactOperator { incident: None }),
        Lost::Unanswered(tool) => {
            let name = tool.name.to_owned();
            let next = if tool.read_only {
                NextAction::RetryCall { component: gateway, tool: name }
            } else {
                NextAction::VerifyThenRetry { component: gateway, tool: name, answer: None }
            };
            (RefusalKind::OutcomeUnknown, tool.read_only, next)
        }
    };
    let refusal = json!({
        "kind": kind.as_str(),
        "retryable": retryable,
        "retry_after_ms": retryable.then_some(RETRY_AFTER_MS),
        "component": null,
        "generation": null,
        "operation": null,
        "reason": reason,
        "next_action": next.to_json(),
    });
    Failure { refusal: Some(refusal), ..Failure::cannot(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_call_went_decides_what_its_caller_is_to_do() {
        let tool = |name| Lost::Unanswered(Tool::named(name).unwrap());
        for (lost, kind, retryable, next) in [
            (Lost::Unsent, "unavailable", true, "WaitForRestart"),
            (Lost::Unwelcome, "unavailable", false, "ContactOperator"),
            (tool("status"), "outcome_unknown", true, "RetryCall"),
            (tool("restart_request"), "outcome_unknown", false, "VerifyThenRetry"),
            (tool("lease_acquire"), "outcome_unknown", false, "VerifyThenRetry"),
        ] {
            let failure = failure(lost, "it is gone".to_owned());
            let refusal = failure.refusal.unwrap();
            assert!(!failure.refused && failure.message == "it is gone" && refusal["reason"] == "it is gone");
            assert_eq!(
                (&refusal["kind"], &refusal["retryable"], &refusal["next_action"]["kind"]),
                (&json!(kind), &json!(retryable), &json!(next))
            );
            assert_eq!(refusal["retry_after_ms"].is_u64(), retryable, "{refusal}");
        }
    }
}
