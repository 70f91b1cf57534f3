//! The stored format: what the schema refuses, what a reader sees.

use serde_json::{Value, json};
use tidegate_determinism::{Level, Reason, Record};

use crate::support::{faults, repository};

/// A record of a check in which a clock, a process number and something unknown differed.
fn stored(name: &str) -> Value {
    let path = repository("fixtures/determinism").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn stored_records_of_version_1_are_valid_and_read_back_as_they_are() {
    for name in ["record-v1-diverged.json", "record-v1-equal.json"] {
        let document = stored(name);
        assert_eq!(faults(&document), Vec::<String>::new(), "{name}");
        let record: Record = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(serde_json::to_value(record).unwrap(), document, "{name}");
    }
}

/// A change to a valid record, which makes it invalid.
fn refused(name: &str, pointer: &str, value: Value) {
    let mut document = stored(name);
    *document.pointer_mut(pointer).unwrap() = value.clone();
    assert!(!faults(&document).is_empty(), "{name} with {pointer} = {value} was accepted");
}

#[test]
fn the_schema_refuses_a_vacuous_pass() {
    let equal = "record-v1-equal.json";
    refused(equal, "/cells", json!([]));
    refused(equal, "/cells/0/runs", json!(0));
    refused(equal, "/cells/0/runs", json!(1));
    refused(equal, "/cells/0/equal", json!(0));
    refused(equal, "/cells/0/distinct", json!(2));
    refused(equal, "/cells/0/bound_95", json!(null));
    refused(equal, "/cells/0/rate", json!(0.5));
    refused(equal, "/cells/1/condition", json!("idle"));
    refused(equal, "/observation/records", json!(0));
    refused(equal, "/controls", json!([]));
    refused(equal, "/controls/0/passed", json!(false));
    refused(equal, "/verdict/qualifiers", json!(["loaded"]));
    refused(equal, "/verdict/reason", json!("TIMEOUT"));
    refused(equal, "/divergences", stored("record-v1-diverged.json")["divergences"].clone());
}

#[test]
fn the_schema_refuses_a_check_without_one_kind_of_control() {
    for kind in ["positive", "negative", "comparer"] {
        let controls = stored("record-v1-equal.json")["controls"].as_array().unwrap().clone();
        let without: Vec<Value> = controls.into_iter().filter(|control| control["kind"] != kind).collect();
        refused("record-v1-equal.json", "/controls", json!(without));
    }
}

#[test]
fn the_schema_refuses_spending_and_claims_that_a_native_run_cannot_make() {
    let (equal, diverged) = ("record-v1-equal.json", "record-v1-diverged.json");
    refused(equal, "/cost/external_spend", json!(1));
    refused(equal, "/cost/external_spend", json!(0.5));
    refused(equal, "/verdict/level", json!("E2_trace_equal"));
    refused(equal, "/verdict/level", json!("deterministic"));
    refused(equal, "/executor/pins", json!(["the clock"]));
    refused(equal, "/version", json!(2));
    refused(equal, "/recommendation/decision", json!("maybe"));
    refused(diverged, "/divergences", json!([]));
    refused(diverged, "/divergences/0/confidence", json!("confirmed"));
    refused(diverged, "/verdict/qualifiers", json!(["controls_passed", "cross_host"]));
    refused(diverged, "/verdict/level", json!("no_result"));
}

#[test]
fn the_schema_knows_every_key_at_the_top_and_misses_none() {
    let document = stored("record-v1-equal.json");
    let mut more = document.clone();
    more["extra"] = json!(1);
    assert!(!faults(&more).is_empty());
    for key in document.as_object().unwrap().keys() {
        let mut fewer = document.clone();
        fewer.as_object_mut().unwrap().remove(key);
        assert!(!faults(&fewer).is_empty(), "{key} was not missed");
    }
}

#[test]
fn a_reader_gets_the_answer_first_and_then_how_it_was_reached() {
    let record: Record = serde_json::from_value(stored("record-v1-diverged.json")).unwrap();
    assert_eq!(record.verdict.level, Level::Diverged);
    insta::assert_snapshot!(record.markdown());
}

#[test]
fn each_level_has_an_answer_of_one_line() {
    let mut record: Record = serde_json::from_value(stored("record-v1-equal.json")).unwrap();
    insta::assert_snapshot!(record.answer());
    record.verdict.level = Level::NotRun;
    record.verdict.reason = Some(Reason::ExecutorUnavailable);
    record.verdict.detail = Some("qemu-system-x86_64 is missing: apt-get install qemu-system-x86".to_owned());
    insta::assert_snapshot!(record.answer());
}
