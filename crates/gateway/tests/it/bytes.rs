//! What passes through the real programs passes byte for byte, but for ids, progress tokens and cancelled ids.

use crate::json::{json, space};
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tidegate_suite::harness::{Plan, eventually};

/// Messages of one run: enough for every form of the generator, and a second's work.
const CASES: usize = 150;

/// How the server knows a request.
fn upstream(line: &str) -> String {
    let message: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap();
    message["id"].get().to_owned()
}

#[test]
fn whatever_is_in_a_message_arrives_as_it_was_sent() {
    let rig = Plan::new().fault("files", &["--echo"]).start();
    let (mut c1, server) = (rig.connect("files", "c1"), rig.server("files").clone());
    let mut runner = TestRunner::deterministic();
    let mut any = |strategy: &dyn Fn() -> proptest::strategy::BoxedStrategy<String>| {
        strategy().new_tree(&mut runner).unwrap().current()
    };
    for case in 0..CASES {
        let (value, extra) = (any(&|| json().boxed()), any(&|| json().boxed()));
        let gap = any(&|| space().boxed());
        // Deeper than any generated one, and twice the same key.
        let deep = if case == 0 { format!("{}{}", "[".repeat(100), "]".repeat(100)) } else { value.clone() };
        let params = |token: &str| {
            format!(
                r#"{gap}{{"value":{value},{gap}"value":{extra},"_meta":{{"x":{extra},"progressToken":{token}}},"deep":{deep}}}"#
            )
        };
        let line = |id: &str, token: &str| {
            format!(
                r#"{{"unknown":{extra},{gap}"method":"x/é","jsonrpc":"2.0","params":{},"id":{gap}{id}{gap}}}"#,
                params(token)
            )
        };
        let id = format!(r#""\u00e9-{case}""#);
        let call = c1.request_line(&id, &line(&id, r#""token""#));
        let answer = c1.line_for(&call);
        let arrived = server.raw_lines().pop().unwrap();
        let known = upstream(&arrived);
        assert_eq!(arrived, line(&known, &known), "to the server");
        let params = params(&known);
        let params = params.trim();
        assert_eq!(answer, format!("{{ \"result\" : {params}\t,\"jsonrpc\":\"2.0\",\"id\":{id} }}"), "back");
    }
    let note = r#"{"jsonrpc":"2.0" , "method":"x/note","params":{"a":1e400,"a":0.10}}"#;
    c1.send(note);
    eventually("a notification arrives", || server.raw_lines().pop().unwrap() == note);
}
