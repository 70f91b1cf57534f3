//! The ten bullets at process level: the real binary, real pipes, real kills. Each story is in a file of its own; here
//! they leave their evidence.

mod authority;
mod drain;

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
