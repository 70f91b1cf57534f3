//! Records of machines, ablations and decisions, made by hand: what the schema takes, and each way to claim too much.

use serde_json::{Value, json};
use tidegate_determinism::Record;

use crate::support::{faults, repository};

fn stored(name: &str) -> Value {
    let path = repository("fixtures/determinism").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A machine that reached the highest level, what differed natively beside it, and what confirmed it.
fn machine() -> Value {
    let mut document = stored("record-v1-equal.json");
    let diverged = stored("record-v1-diverged.json");
    document["executor"]["name"] = json!("vm");
    document["executor"]["pins"] = json!(["time: the machine's only clock is the count of its instructions"]);
    document["verdict"]["level"] = json!("E3_state_equal");
    document["verdict"]["qualifiers"] =
        json!(["loaded", "seed_sensitive", "controls_passed", "cause_confirmed"]);
    document["observation"]["channels"] = json!([
        { "name": "stdout", "records": 20 }, { "name": "trace", "records": 9 }, { "name": "kernel log", "records": 400 }
    ]);
    for control in document["controls"].as_array_mut().unwrap() {
        if control["kind"] == "positive" {
            let follows = control["name"] == "urandom" || control["name"] == "hash-order";
            let does = if follows { "differs between seeds only" } else { "equal" };
            (control["expected"], control["observed"]) = (json!(does), json!(does));
        }
    }
    let mut native = json!({});
    for key in ["executor", "observation", "cells", "controls", "divergences", "verdict", "cost"] {
        native[key] = diverged[key].clone();
    }
    native["divergences"][0]["confidence"] = json!("confirmed");
    native["verdict"]["qualifiers"] = json!(["controls_passed", "cause_confirmed"]);
    native["cost"]["runs"] = json!([{
        "part": "boot", "runs": 5, "wall_s": 0.4, "cpu_s": 0.5, "resident_mib": null, "ratio_to_native": 1.0
    }]);
    document["beside"] = json!([native]);
    document["ablation"] = json!({
        "executor": "vm", "part": "restored", "pinned_runs": 2, "pinned_equal": 1,
        "factors": [
            { "factor": "rtc_base", "change": "the clock starts in 2001", "runs": 1, "differing": 1 },
            { "factor": "file_order", "change": "this executor can't move it alone", "runs": 0, "differing": 0 }
        ],
        "lines": [
            { "stream": "stdout", "index": 1, "text": "at 12:00:00", "steady": true, "factors": ["rtc_base"] }
        ],
        "lines_left_out": 0, "lines_steady": 3
    });
    document["decisions"] = json!([{
        "executor": "antithesis", "subject": "tidegate@sha256:aa", "level": "not_run", "decision": "no_go",
        "reasons": ["ACCESS_DECISION_ABSENT", "COST_DECISION_ABSENT"], "evidence": ["none", "none"],
        "buys": "a search", "flake": null, "owner": "operator", "decide_by": null, "on_record": []
    }]);
    document
}

#[test]
fn a_machines_record_is_valid_and_reads_back_as_it_is() {
    let document = machine();
    assert_eq!(faults(&document), Vec::<String>::new());
    let record: Record = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), document);
    let (text, page) = (record.markdown(), record.html());
    for said in ["E3_state_equal", "cause_confirmed", "the clock starts in 2001", "COST_DECISION_ABSENT"] {
        assert!(text.contains(said) && page.contains(said), "{said}");
    }
    assert!(record.answer().contains("the same trace, the same kernel log and the same files"));
}

#[track_caller]
fn refused(pointer: &str, value: Value) {
    let mut document = machine();
    *document.pointer_mut(pointer).unwrap() = value.clone();
    assert!(!faults(&document).is_empty(), "{pointer} = {value} was accepted");
}

#[test]
fn a_trace_that_is_equal_without_records_is_no_record() {
    refused("/observation/channels/1/records", json!(0));
    refused("/observation/channels/2/records", json!(0));
    refused("/observation/channels", json!([{ "name": "stdout", "records": 20 }]));
    refused("/executor/pins", json!([]));
    refused("/cells", json!([]));
    refused("/cells/0/part", json!("replayed"));
    refused("/executor/name", json!("sandbox"));
}

#[test]
fn a_machine_that_is_deaf_to_its_seed_claims_nothing() {
    let mut document = machine();
    for control in document["controls"].as_array_mut().unwrap() {
        if control["kind"] == "positive" {
            (control["expected"], control["observed"]) = (json!("equal"), json!("equal"));
        }
    }
    assert!(!faults(&document).is_empty());
    refused("/controls/5/observed", json!("differs"));
}

#[test]
fn no_cause_is_confirmed_without_factors_that_were_moved() {
    let mut document = machine();
    document.as_object_mut().unwrap().remove("ablation");
    assert!(!faults(&document).is_empty());
    refused("/ablation/factors", json!([]));
    refused("/ablation/factors/1/differing", json!(3));
    refused("/ablation/lines/0/factors", json!([]));
    refused("/ablation/executor", json!("native"));
    refused("/ablation/pinned_runs", json!(0));
    refused("/verdict/qualifiers", json!(["controls_passed", "cross_host"]));
}

#[test]
fn what_runs_beside_is_held_to_the_same_rules() {
    refused("/beside/0/divergences", json!([]));
    refused("/beside/0/verdict/level", json!("E1_output_equal"));
    refused("/beside/0/executor/pins", json!(["the clock"]));
    refused("/beside/0/cost/external_spend", json!(1));
}

#[test]
fn nothing_is_ever_spent_and_a_go_has_no_reason_against_it() {
    refused("/cost/external_spend", json!(1));
    refused("/cost", json!({ "wall_s": 1.0, "cpu_s": 1.0, "external_spend": 0, "credits": 5 }));
    refused("/decisions/0/decision", json!("go"));
    refused("/decisions/0/level", json!("E1_output_equal"));
    refused("/decisions/0/reasons", json!(["TOO_DEAR"]));
    let mut bought = machine();
    bought["decisions"][0]["decision"] = json!("go");
    bought["decisions"][0]["reasons"] = json!([]);
    assert!(!faults(&bought).is_empty(), "a go for what costs money needs both decisions on record");
    let decided = |about| json!({ "executor": "antithesis", "about": about, "decision": "go", "by": "ops", "on": "2026-11-30", "text": "t" });
    bought["decisions"][0]["on_record"] = json!([decided("access"), decided("cost")]);
    assert_eq!(faults(&bought), Vec::<String>::new());
}

#[test]
fn the_commercial_executor_has_never_run() {
    let mut document = machine();
    document["executor"]["name"] = json!("antithesis");
    assert!(!faults(&document).is_empty());
}
