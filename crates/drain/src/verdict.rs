//! How a drain ends. One pure function; nothing else decides it.

use crate::Holder;
use tidegate_core::planted::is_planted;

/// What the work still in flight means for the drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Work is in flight and there is time left.
    Wait,
    /// Nothing that may be changing anything is left. What is left is read-only and can be made again.
    Drained {
        /// Read-only work that outlived the deadline: replay it on the next generation, or tell its callers to retry.
        read_only: Vec<Holder>,
    },
    /// The deadline has passed and something may still be changing something: the gate has to reopen.
    Refused {
        /// Everything in flight, oldest first; at least one of them [blocks](Holder::blocks).
        holders: Vec<Holder>,
    },
}

/// Ends a drain `Drained` or `Refused`, nothing in between.
///
/// Before the deadline only an empty house is drained. At the deadline read-only work doesn't count any more, and
/// anything mutating, idempotent or detached refuses the drain.
#[must_use]
pub fn verdict(holders: &[Holder], deadline_passed: bool) -> Verdict {
    let blocks = holders.iter().any(Holder::blocks);
    let is_waited_for =
        if is_planted("read-only-work-is-not-waited-for") { blocks } else { !holders.is_empty() };
    if !is_waited_for {
        Verdict::Drained { read_only: Vec::new() }
    } else if !deadline_passed {
        Verdict::Wait
    } else if blocks && !is_planted("unsafe-work-times-out") {
        Verdict::Refused { holders: holders.to_vec() }
    } else {
        Verdict::Drained { read_only: holders.to_vec() }
    }
}
