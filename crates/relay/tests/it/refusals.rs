//! The shape of refusals, as the public contract has it.

use serde_json::json;
use tidegate_core::{Generation, NextAction};
use tidegate_relay::{RawId, Refusal, RefusalKind};

fn refusal(kind: RefusalKind) -> Refusal {
    let component = "files".parse().unwrap();
    Refusal {
        kind,
        retryable: true,
        retry_after_ms: Some(5_000),
        component,
        generation: Generation(4),
        operation: Some("op-1".parse().unwrap()),
        next_action: NextAction::RetryCall { component: "files".parse().unwrap(), tool: "read".to_owned() },
    }
}

fn parsed(line: Vec<u8>) -> serde_json::Value {
    serde_json::from_slice(&line).unwrap()
}

#[test]
fn every_kind_has_its_code_and_name() {
    for (kind, code, name) in [
        (RefusalKind::Draining, 4503, "draining"),
        (RefusalKind::OutcomeUnknown, 4504, "outcome_unknown"),
        (RefusalKind::RestartRefused, 4505, "restart_refused"),
        (RefusalKind::LeaseRequired, 4506, "lease_required"),
        (RefusalKind::Unavailable, 4507, "unavailable"),
        (RefusalKind::ToolChanged, 4508, "tool_changed"),
    ] {
        assert_eq!((kind.code(), kind.as_str()), (code, name));
        let error = parsed(refusal(kind).render_for(&RawId::number(1), "resources/read"));
        assert_eq!((&error["error"]["code"], &error["error"]["data"]["kind"]), (&json!(code), &json!(name)));
    }
}

#[test]
fn a_generation_that_nobody_knows_is_null() {
    let unknown = Refusal { generation: Generation::default(), ..refusal(RefusalKind::Unavailable) };
    assert_eq!(unknown.to_json()["generation"], json!(null));
}

#[test]
fn a_refused_tool_call_is_a_tool_result_that_the_model_sees() {
    let prompt = "Call read on files again: the last call had no effect.";
    let object = json!({
        "kind": "draining", "retryable": true, "retry_after_ms": 5000, "component": "files", "generation": 4,
        "operation": "op-1",
        "next_action": { "kind": "RetryCall", "component": "files", "tool": "read", "prompt": prompt },
    });
    assert_eq!(
        parsed(refusal(RefusalKind::Draining).render_for(&RawId::new("\"a\"").unwrap(), "tools/call")),
        json!({ "jsonrpc": "2.0", "id": "a", "result": {
            "content": [{ "type": "text", "text": prompt }],
            "isError": true,
            "_meta": { "tidegate/refusal": object },
        }})
    );
    assert_eq!(
        parsed(refusal(RefusalKind::Draining).render_for(&RawId::number(7), "prompts/get")),
        json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": 4503, "message": prompt, "data": object } })
    );
}
