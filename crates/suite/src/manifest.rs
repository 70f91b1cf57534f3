//! Which test proves which bullet at which level. Data only: it runs nothing and judges nothing.

use serde::{Deserialize, Serialize};

/// How a bullet is shown to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Fake sessions, servers and time under seeded schedules.
    Simulated,
    /// The real binary, real pipes, real kills.
    Process,
    /// A restart mechanism that isn't ours, through an adapter.
    External,
}

/// Why a listed test can't prove its bullet here. Both fields are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// What the environment makes impossible.
    pub reason: &'static str,
    /// Where that is tracked.
    pub issue: &'static str,
}

/// A test that has to leave evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// 1 to 10.
    pub bullet: u8,
    /// At which level.
    pub level: Level,
    /// The test's name in the suite's test binary `it`.
    pub test: &'static str,
    /// Set where it can't be proved here.
    pub pending: Option<Pending>,
}

const fn listed(bullet: u8, level: Level, test: &'static str) -> Listed {
    Listed { bullet, level, test, pending: None }
}

/// One test per bullet and level. The external level has none until a subject is configured.
const TESTS: [Listed; 20] = [
    listed(1, Level::Simulated, "simulated::bullet_01_no_unilateral_restart"),
    listed(2, Level::Simulated, "simulated::bullet_02_new_work_stops_during_drain"),
    listed(3, Level::Simulated, "simulated::bullet_03_active_safe_work_finishes"),
    listed(4, Level::Simulated, "simulated::bullet_04_unsafe_mutation_blocks_restart"),
    listed(5, Level::Simulated, "simulated::bullet_05_durable_checkpoints"),
    listed(6, Level::Simulated, "simulated::bullet_06_no_silent_orphans"),
    listed(7, Level::Simulated, "simulated::bullet_07_resume_or_next_action"),
    listed(8, Level::Simulated, "simulated::bullet_08_failed_drain_leaves_work"),
    listed(9, Level::Simulated, "simulated::bullet_09_scoped"),
    listed(10, Level::Simulated, "simulated::bullet_10_no_chat_reconstruction"),
    listed(1, Level::Process, "process::bullet_01_no_unilateral_restart"),
    listed(2, Level::Process, "process::bullet_02_new_work_stops_during_drain"),
    listed(3, Level::Process, "process::bullet_03_active_safe_work_finishes"),
    listed(4, Level::Process, "process::bullet_04_unsafe_mutation_blocks_restart"),
    listed(5, Level::Process, "process::bullet_05_durable_checkpoints"),
    listed(6, Level::Process, "process::bullet_06_no_silent_orphans"),
    listed(7, Level::Process, "process::bullet_07_resume_or_next_action"),
    listed(8, Level::Process, "process::bullet_08_failed_drain_leaves_work"),
    listed(9, Level::Process, "process::bullet_09_scoped"),
    listed(10, Level::Process, "process::bullet_10_no_chat_reconstruction"),
];

/// Every test that has to leave evidence, by level and bullet.
#[must_use]
pub fn manifest() -> Vec<Listed> {
    TESTS.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_bullet_has_a_test_at_both_levels_and_no_test_is_listed_twice() {
        for level in [Level::Simulated, Level::Process] {
            let bullets: Vec<u8> = manifest()
                .iter()
                .filter(|listed| listed.level == level)
                .map(|listed| listed.bullet)
                .collect();
            assert_eq!(bullets, (1..=10).collect::<Vec<u8>>());
        }
        let names: BTreeSet<&str> = manifest().iter().map(|listed| listed.test).collect();
        assert_eq!(names.len(), manifest().len());
    }

    #[test]
    fn a_test_says_its_level_and_bullet_in_its_name() {
        for Listed { bullet, level, test, .. } in manifest() {
            let level = if level == Level::Simulated { "simulated" } else { "process" };
            assert!(test.starts_with(&format!("{level}::bullet_{bullet:02}_")), "{test}");
        }
    }
}
