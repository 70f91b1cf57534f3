//! The ten bullets as functions of what was observed, one each, and the two rules that stand above them: a call takes
//! effect once, and everything settles. Pure: each looks at one observation and names what is wrong with it.

mod leases;
mod operations;
mod sessions;
mod work;

use super::Observation;
use leases::work_under_leases;
use operations::{failed_drain_leaves_work, no_chat_reconstruction, no_unilateral_restart};
use sessions::{durable_checkpoints, no_silent_orphans, resume_or_next_action};
use std::fmt;
use work::{
    active_safe_work_finishes, every_call_once, new_work_stops_during_drain, scoped,
    unsafe_mutation_blocks_restart,
};

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// One of the ten bullets.
    Bullet(u8),
    /// A call takes effect at most once and is answered at most once, and an answer is the server's.
    Once,
    /// When nothing goes wrong any more, everything comes to an end.
    Settles,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bullet(number) => {
                write!(f, "bullet {number} ({})", NAMES.get(usize::from(*number) - 1).unwrap_or(&"?"))
            }
            Self::Once => f.write_str("every call once"),
            Self::Settles => f.write_str("everything settles"),
        }
    }
}

const NAMES: [&str; 10] = [
    "no unilateral restart",
    "new work stops during drain",
    "active safe work finishes",
    "unsafe mutation blocks restart",
    "durable checkpoints",
    "no silent orphans",
    "resume or next action",
    "failed drain leaves work",
    "scoped",
    "no chat reconstruction",
];

/// A broken rule, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What a check finds.
type Found = Option<String>;

type Check = fn(&Observation<'_>) -> Found;

/// All of them, in order.
const CHECKS: [(Rule, Check); 12] = [
    (Rule::Bullet(1), no_unilateral_restart),
    (Rule::Bullet(2), new_work_stops_during_drain),
    (Rule::Bullet(3), active_safe_work_finishes),
    (Rule::Bullet(4), unsafe_mutation_blocks_restart),
    (Rule::Bullet(5), durable_checkpoints),
    (Rule::Bullet(6), no_silent_orphans),
    (Rule::Bullet(6), work_under_leases),
    (Rule::Bullet(7), resume_or_next_action),
    (Rule::Bullet(8), failed_drain_leaves_work),
    (Rule::Bullet(9), scoped),
    (Rule::Bullet(10), no_chat_reconstruction),
    (Rule::Once, every_call_once),
];

/// Checks everything after a step.
pub(crate) fn check(observed: &Observation<'_>) -> Result<(), Violation> {
    for (rule, check) in CHECKS {
        if let Some(what) = check(observed) {
            return Err(Violation { rule, what });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
