//! The ten bullets at process level: the real binary, real pipes, real kills. Each story is in a file of its own; here
//! they leave their evidence. Beside them, three sessions of the official SDK, and kills at any instant.

mod authority;
mod drain;
mod failure;
mod kill;
mod leases;
mod memory;
mod scope;
mod sessions;

use tidegate_suite::{Evidence, Level, manifest};

/// Runs the proof of a bullet under the name that the manifest has for it.
fn prove(bullet: u8, proof: fn()) {
    let listed = manifest().into_iter().find(|it| it.bullet == bullet && it.level == Level::Process).unwrap();
    let evidence = Evidence::start(listed.test, bullet, Level::Process).unwrap();
    proof();
    evidence.finish().unwrap();
}

#[test]
fn bullet_01_no_unilateral_restart() {
    prove(1, authority::no_unilateral_restart);
}

#[test]
fn bullet_02_new_work_stops_during_drain() {
    prove(2, drain::new_work_stops);
}

#[test]
fn bullet_03_active_safe_work_finishes() {
    prove(3, drain::active_work_finishes);
}

#[test]
fn bullet_04_unsafe_mutation_blocks_restart() {
    prove(4, drain::unsafe_work_blocks);
}

#[test]
fn bullet_05_durable_checkpoints() {
    prove(5, memory::checkpoints_are_durable);
}

#[test]
fn bullet_06_no_silent_orphans() {
    prove(6, leases::no_lease_is_orphaned_silently);
}

#[test]
fn bullet_07_resume_or_next_action() {
    prove(7, memory::everybody_goes_on_or_is_told);
}

#[test]
fn bullet_08_failed_drain_leaves_work() {
    prove(8, failure::a_failed_drain_leaves_work);
}

#[test]
fn bullet_09_scoped() {
    prove(9, scope::only_the_scope_notices);
}

#[test]
fn bullet_10_no_chat_reconstruction() {
    prove(10, memory::the_state_directory_is_enough);
}
