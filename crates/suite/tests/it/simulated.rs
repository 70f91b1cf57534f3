//! The ten bullets in simulated worlds: each over seeds of its own, with all invariants checked after every step, and with
//! what the bullet is about reached. A schedule that never got there proves nothing.

use tidegate_simulator::{Coverage, Plan, run};
use tidegate_suite::{Evidence, Level};

/// Seeds of one bullet. Every worker of the suite sees other ones, and `cargo xtask simulate` a thousand more.
const SEEDS: u64 = 100;
/// Between the first seeds of two bullets: nobody's seeds are anybody else's.
const APART: u64 = 100_000;

/// Plays this bullet's worlds and leaves the evidence. `reached` names what at least one of them has to have come to.
fn prove(bullet: u8, test: &str, reached: impl Fn(&Coverage) -> Vec<(&'static str, bool)>) {
    let mut evidence =
        Evidence::start(&format!("simulated::{test}"), bullet, Level::Simulated).expect("evidence");
    evidence.seeds(SEEDS);
    let plan = Plan::new(u64::from(bullet) * APART, SEEDS);
    let summary = run(&plan, &mut |_| {});
    if let Some(failure) = summary.failures.first() {
        panic!("{failure}");
    }
    let missed: Vec<&str> = reached(&summary.coverage)
        .into_iter()
        .filter(|(_, reached)| !reached)
        .map(|(what, _)| what)
        .collect();
    assert!(missed.is_empty(), "never reached in {SEEDS} seeds: {}", missed.join(", "));
    evidence.finish().expect("evidence");
}

fn mark(coverage: &Coverage, name: &'static str) -> (&'static str, bool) {
    (name, coverage.marks.contains_key(name))
}

fn phase(coverage: &Coverage, name: &'static str) -> (&'static str, bool) {
    (name, coverage.phases.contains_key(name))
}

fn refusal(coverage: &Coverage, name: &'static str) -> (&'static str, bool) {
    (name, coverage.refusals.contains_key(name))
}

fn action(coverage: &Coverage, name: &'static str) -> (&'static str, bool) {
    (name, coverage.next_actions.contains_key(name))
}

fn incident(coverage: &Coverage, name: &'static str) -> (&'static str, bool) {
    (name, coverage.incidents.contains_key(name))
}

#[test]
fn bullet_01_no_unilateral_restart() {
    prove(1, "bullet_01_no_unilateral_restart", |c| {
        vec![
            mark(c, "approval by one who may not"),
            mark(c, "approval by one who may"),
            mark(c, "server stopped for an operation"),
            phase(c, "Denied"),
            phase(c, "Expired"),
            incident(c, "break_glass"),
        ]
    });
}

#[test]
fn bullet_02_new_work_stops_during_drain() {
    prove(2, "bullet_02_new_work_stops_during_drain", |c| {
        vec![mark(c, "called during a drain"), refusal(c, "draining"), phase(c, "Completed")]
    });
}

#[test]
fn bullet_03_active_safe_work_finishes() {
    prove(3, "bullet_03_active_safe_work_finishes", |c| {
        vec![
            mark(c, "answered during a drain"),
            mark(c, "server stopped for an operation"),
            mark(c, "call cancelled"),
        ]
    });
}

#[test]
fn bullet_04_unsafe_mutation_blocks_restart() {
    prove(4, "bullet_04_unsafe_mutation_blocks_restart", |c| {
        vec![phase(c, "Refused"), phase(c, "Completed"), mark(c, "daemon died")]
    });
}

#[test]
fn bullet_05_durable_checkpoints() {
    prove(5, "bullet_05_durable_checkpoints", |c| {
        vec![mark(c, "fact kept"), mark(c, "daemon died"), mark(c, "server stopped for an operation")]
    });
}

#[test]
fn bullet_06_no_silent_orphans() {
    prove(6, "bullet_06_no_silent_orphans", |c| {
        vec![
            mark(c, "lease carried over"),
            mark(c, "lease released"),
            mark(c, "lease expired"),
            mark(c, "lease adopted"),
            mark(c, "lease orphaned"),
            incident(c, "lease_orphaned"),
        ]
    });
}

#[test]
fn bullet_07_resume_or_next_action() {
    prove(7, "bullet_07_resume_or_next_action", |c| {
        vec![
            action(c, "Continue"),
            action(c, "RetryCall"),
            action(c, "VerifyThenRetry"),
            action(c, "WaitForRestart"),
            action(c, "ReacquireLease"),
            action(c, "RefreshTools"),
            action(c, "StateReset"),
            action(c, "RequestApproval"),
            action(c, "ContactOperator"),
        ]
    });
}

#[test]
fn bullet_08_failed_drain_leaves_work() {
    prove(8, "bullet_08_failed_drain_leaves_work", |c| {
        vec![
            incident(c, "drain_refused"),
            incident(c, "operation_interrupted"),
            incident(c, "restart_failed"),
            phase(c, "Refused"),
            phase(c, "Failed"),
        ]
    });
}

#[test]
fn bullet_09_scoped() {
    prove(9, "bullet_09_scoped", |c| {
        vec![mark(c, "compared with an undisturbed run"), phase(c, "Completed"), refusal(c, "unavailable")]
    });
}

#[test]
fn bullet_10_no_chat_reconstruction() {
    prove(10, "bullet_10_no_chat_reconstruction", |c| {
        vec![mark(c, "daemon died"), mark(c, "fact kept"), action(c, "VerifyThenRetry")]
    });
}
