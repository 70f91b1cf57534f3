//! Executors beside the native one: what they pin, what they confirm, and what is never started.

use std::net::TcpListener;

use tidegate_determinism::go_no_go::{About, Answer, Code, ImageFacts, OnRecord};
use tidegate_determinism::{
    Cause, Confidence, Decision, ExecutorKind, Level, Plan, Qualifier, Reason, Record,
};

use crate::support::{check, expect, plan, program, repository, shell};

/// A check in the sandbox; `None` where the kernel grants none, which the record then has to say.
fn sandboxed(mut plan: Plan) -> Option<Record> {
    plan.executor = ExecutorKind::Sandbox;
    plan.ablate = true;
    let record = check(&plan);
    if record.verdict.level == Level::NotRun {
        assert_eq!(record.verdict.reason, Some(Reason::ExecutorUnavailable));
        assert!(record.decisions.iter().any(|decision| decision.reasons == [Code::ExecutorUnavailable]));
        return None;
    }
    Some(record)
}

/// The causes that a lever confirmed for what differed natively.
fn confirmed(record: &Record) -> Vec<Cause> {
    let native = record.beside.iter().find(|outcome| outcome.executor.name == "native").unwrap();
    assert_eq!(native.verdict.level, Level::Diverged);
    let of_confirmed = native.divergences.iter().filter(|one| one.confidence == Confidence::Confirmed);
    of_confirmed.map(|divergence| divergence.cause).collect()
}

#[test]
fn what_a_sandbox_pins_is_equal_in_it_and_confirmed_by_its_levers() {
    for (script, cause) in [
        ("echo one; echo $$", Cause::Pid),
        (r"echo one; sed -n 's/^\([0-9a-f]*\)...-.*\[stack\]/at 0x\1/p' /proc/self/maps", Cause::Address),
    ] {
        let Some(record) = sandboxed(shell(script)) else { return };
        assert_eq!(record.verdict.level, Level::OutputEqual, "{}", record.markdown());
        assert_eq!(confirmed(&record), [cause], "{}", record.markdown());
        assert!(record.verdict.qualifiers.contains(&Qualifier::CauseConfirmed));
        assert!(record.beside[0].verdict.qualifiers.contains(&Qualifier::CauseConfirmed));
    }
}

#[test]
fn what_a_sandbox_cannot_pin_diverges_in_it_and_is_never_confirmed() {
    let Some(record) = sandboxed(shell("date +%T.%N; cat /proc/sys/kernel/random/uuid")) else { return };
    assert_eq!(record.verdict.level, Level::Diverged);
    assert_eq!(record.recommendation.decision, Decision::Revisit);
    assert_eq!(confirmed(&record), []);
    assert!(!record.verdict.qualifiers.contains(&Qualifier::CauseConfirmed));
    assert!(record.executor.not_pinned.iter().any(|free| free.starts_with("time:")));
}

#[test]
fn names_sorted_by_their_place_in_memory_are_settled_by_pinning_places() {
    let Some(record) = sandboxed(program("address-order")) else { return };
    assert_eq!(record.verdict.level, Level::OutputEqual, "{}", record.markdown());
    let ablation = record.ablation.as_ref().unwrap();
    let moving: Vec<&str> = ablation
        .factors
        .iter()
        .filter(|moved| moved.differing > 0)
        .map(|moved| moved.factor.name())
        .collect();
    assert!(moving.contains(&"address_layout"), "{moving:?}");
}

#[test]
fn a_subject_that_needs_a_network_has_a_reason_where_there_is_none() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
    let mut plan = plan(&["bash", "-c", &script]);
    plan.image_facts = Some(ImageFacts { platform: "linux/amd64".to_owned(), ..ImageFacts::default() });
    let Some(record) = sandboxed(plan) else { return };
    assert_eq!(
        (record.verdict.level, record.verdict.reason),
        (Level::NoResult, Some(Reason::NetworkRequired))
    );
    let said = record.verdict.detail.as_deref().unwrap();
    assert!(said.contains("Network is unreachable"), "{said}");
    assert!(record.decisions[0].reasons.contains(&Code::NetworkRequired), "{:?}", record.decisions[0]);
    assert_eq!(record.beside[0].verdict.level, Level::OutputEqual, "natively there is one");
}

#[test]
fn an_executor_that_is_not_there_is_a_reason_and_no_pass() {
    let mut plan = shell("echo steady");
    plan.executor = ExecutorKind::Vm;
    let record = expect(&plan, Level::NotRun);
    assert_eq!(record.verdict.reason, Some(Reason::ExecutorUnavailable));
    assert_eq!((record.exit_code(), record.recommendation.decision), (1, Decision::NoGo));
    assert!(record.verdict.detail.as_deref().unwrap().contains("--image PATH or --rootfs DIR"));
    // The subject ran natively all the same.
    assert_eq!(record.beside[0].verdict.level, Level::OutputEqual);
}

#[test]
fn the_commercial_executor_is_prepared_for_and_never_started() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = shell("echo steady");
    plan.executor = ExecutorKind::Antithesis;
    plan.hand_over = Some(directory.path().join("antithesis"));
    let record = expect(&plan, Level::NotRun);
    assert!(record.cells.is_empty() && record.beside.is_empty());
    let asked = |record: &Record| record.decisions[0].reasons.clone();
    assert_eq!(asked(&record), [Code::AccessDecisionAbsent, Code::CostDecisionAbsent]);
    assert!(record.verdict.detail.unwrap().contains("TAG_NOT_DIGEST"), "the lint is told");
    assert!(directory.path().join("antithesis/config/docker-compose.yaml").is_file());

    let decided = |about| OnRecord {
        executor: "antithesis".to_owned(),
        about,
        decision: Answer::NoGo,
        by: "ops".to_owned(),
        on: "2026-11-30".to_owned(),
        text: "no flake needs it".to_owned(),
    };
    plan.on_record = vec![decided(About::Access), decided(About::Cost)];
    let record = expect(&plan, Level::NotRun);
    assert!(asked(&record).is_empty(), "what is decided isn't asked again");
    assert_eq!(record.decisions[0].decision, Answer::NoGo);
    assert!(record.markdown().contains("no flake needs it"));
}

/// No connection, no program, no address: what is prepared leaves this machine by somebody's own hand or not at all.
#[test]
fn nothing_in_the_hand_over_could_push_launch_or_spend() {
    let text = std::fs::read_to_string(repository("crates/determinism/src/executor/antithesis.rs")).unwrap();
    for means in
        ["std::net", "TcpStream", "Command::", "http:", "https:", "reqwest", "env::var", "docker push"]
    {
        assert!(!text.contains(means), "the hand-over has {means}");
    }
    let manifest = std::fs::read_to_string(repository("crates/determinism/Cargo.toml")).unwrap();
    for client in ["reqwest", "hyper", "ureq", "curl", "tokio"] {
        assert!(!manifest.contains(client), "the crate has {client}");
    }
}
