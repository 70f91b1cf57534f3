//! Subjects whose answer is known before the check runs.

use tidegate_determinism::{Cause, Condition, Confidence, Level, Qualifier};

use crate::support::{companion_with, expect, plan, program, script, shell};

/// The causes of a subject that must diverge, none of them confirmed.
fn causes(plan: &tidegate_determinism::Plan) -> Vec<Cause> {
    let record = expect(plan, Level::Diverged);
    assert_eq!(record.exit_code(), 0, "a divergence is a verdict");
    let cell = &record.cells[0];
    assert!(cell.distinct > 1 && cell.bound_95.is_none() && cell.rate.is_some(), "{cell:?}");
    for divergence in &record.divergences {
        assert_ne!(divergence.confidence, Confidence::Confirmed);
        assert_ne!(divergence.context.expected, divergence.context.observed);
    }
    record.divergences.iter().map(|divergence| divergence.cause).collect()
}

#[test]
fn what_differs_by_its_nature_diverges_with_a_probable_cause() {
    assert_eq!(causes(&program("hash-order")), [Cause::Order]);
    assert_eq!(causes(&shell("echo writing logs/$(date +%F)/$(date +%T.%N).txt")), [Cause::Clock]);
    assert_eq!(causes(&shell("echo $$ >&2; cat /proc/sys/kernel/random/uuid")), [Cause::Pid, Cause::Entropy]);
    assert_eq!(causes(&shell("echo steady; exit $(($$ % 251))")), [Cause::Unclassified]);
}

#[test]
fn what_depends_on_places_in_memory_or_on_who_is_first_diverges() {
    assert_eq!(causes(&program("address-order")), [Cause::Order]);
    causes(&program("read-order"));
}

#[test]
fn children_that_write_into_one_pipe_diverge_in_their_order() {
    let child = "(n=0; while [ $n -lt 4000 ]; do echo child $i; n=$((n+1)); done) &";
    let forks = format!("for i in 1 2 3 4 5 6 7 8; do {child} done; wait");
    assert_eq!(causes(&shell(&forks)), [Cause::Order]);
}

#[test]
fn callbacks_of_reads_in_node_diverge_in_their_order() {
    // Reads of different length, each of several steps, four at a time: three thousand of them never agree.
    let script = "const fs = require('fs'); for (let n = 0; n < 3000; n++) fs.readFile('/proc/self/status', () => console.log('read', n));";
    assert_eq!(causes(&plan(&["node", "-e", script])), [Cause::Order]);
}

#[test]
fn threads_that_race_diverge_without_a_made_up_cause() {
    causes(&program("lock-order"));
    assert_eq!(causes(&program("unlocked-counter")), [Cause::Unclassified]);
}

#[test]
fn a_pure_program_is_equal_idle_and_loaded_and_each_has_its_own_bound() {
    let mut plan = program("pure-numbers");
    plan.conditions = vec![Condition::Idle, Condition::Loaded];
    plan.hogs = 1;
    let record = expect(&plan, Level::OutputEqual);
    assert!(record.verdict.qualifiers.contains(&Qualifier::Loaded));
    assert!(!record.verdict.qualifiers.contains(&Qualifier::SeedSensitive));
    let rows: Vec<_> =
        record.cells.iter().map(|cell| (cell.condition, cell.runs, cell.equal, cell.bound_95)).collect();
    assert_eq!(rows, [(Condition::Idle, 3, 2, Some(0.776_393)), (Condition::Loaded, 3, 2, Some(0.776_393))]);
}

#[test]
fn a_program_that_follows_the_seed_is_seed_sensitive() {
    let record = expect(&program("seed"), Level::OutputEqual);
    assert!(record.verdict.qualifiers.contains(&Qualifier::SeedSensitive));
    assert!(!record.verdict.qualifiers.contains(&Qualifier::Loaded));
}

#[test]
fn addresses_are_equal_by_a_rule_whose_hits_are_counted() {
    let record = expect(&program("address"), Level::OutputEqual);
    // Three runs and the one from another seed.
    assert_eq!(record.observation.rules[0].hits, 4);
}

#[test]
fn a_hidden_clock_is_equal_in_its_output_and_the_report_says_what_that_hides() {
    let record = expect(&program("clock-spin"), Level::OutputEqual);
    assert!(record.markdown().contains("equal output hides that"));
    assert!(record.observation.not_compared[0].contains("clock reads"));
}

#[test]
fn what_pins_something_is_listed_and_the_run_is_called_normalised() {
    let record = expect(&plan(&["echo", "steady", "--random-seed=1"]), Level::OutputEqual);
    assert_eq!(record.executor.relaxations, ["--random-seed pins the runtime's random numbers"]);
    assert!(record.verdict.qualifiers.contains(&Qualifier::Normalised));
}

#[test]
fn answers_are_compared_by_their_id_and_their_order_apart_from_them() {
    let answer = |id: u32| format!(r#"echo '{{"jsonrpc":"2.0","id":{id},"result":{{}}}}'"#);
    let subject = format!(
        "read a; read b; n=$(od -An -N1 -tu1 /dev/urandom); if [ $((n % 2)) = 0 ]; then {}; {}; else {}; {}; fi",
        answer(1),
        answer(2),
        answer(2),
        answer(1)
    );
    let mut plan = shell(&subject);
    plan.runs = 40; // the chance that all forty agree is one in 2^39
    plan.script =
        Some(script("{\"send\": {\"id\": 1}}\n{\"send\": {\"id\": 2}}\n{\"expect\": 1}\n{\"expect\": 2}\n"));
    let record = expect(&plan, Level::Diverged);
    let seen: Vec<_> =
        record.divergences.iter().map(|divergence| (divergence.stream.as_str(), divergence.cause)).collect();
    assert_eq!(seen, [("order/stdout", Cause::Schedule)]);
    assert_eq!(record.cells[0].distinct, 2);
}

#[test]
fn a_conversation_is_fed_step_by_step_to_the_end_of_the_input() {
    let mut plan = shell(
        r#"while read line; do echo '{"jsonrpc":"2.0","id":"a","result":"'${#line}'"}'; done; echo bye; exit 3"#,
    );
    plan.script =
        Some(script("{\"send\": {\"id\": \"a\"}}\n{\"expect\": \"a\"}\n{\"send_line\": \"raw\"}\n"));
    let record = expect(&plan, Level::OutputEqual);
    // Three lines in each of three runs and the one from another seed.
    assert_eq!(record.observation.records, 12);
    assert_eq!(record.workload.script.as_ref().map(|script| script.steps), Some(3));
}

#[test]
fn two_conditions_that_agree_with_themselves_but_not_with_one_another_diverge() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let mut plan = shell(&format!("if [ -e '{0}' ]; then echo loaded; else echo idle; fi", mark.display()));
    plan.conditions = vec![Condition::Idle, Condition::Loaded];
    plan.hogs = 1;
    plan.companion = companion_with(&directory, "hog", &format!("touch '{}'", mark.display()));
    let record = expect(&plan, Level::Diverged);
    assert!(record.cells.iter().all(|cell| cell.distinct == 1 && cell.bound_95.is_some()));
    let seen: Vec<_> = record.divergences.iter().map(|divergence| divergence.condition.as_str()).collect();
    assert_eq!(seen, ["idle/loaded"]);
}
