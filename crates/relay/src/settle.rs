//! What becomes of a call that was written and lost its server. The one place that decides it, for a dead server and
//! for a dead daemon alike.

use tidegate_core::WorkClass;
use tidegate_core::planted::is_planted;

/// What is known of such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostFacts {
    /// Its class.
    pub class: WorkClass,
    /// The operator allows an idempotent call to be written again.
    pub replay_allowed: bool,
    /// It has been written twice already.
    pub replayed: bool,
    /// Its first deadline, [`REPLAY_DEADLINE`](crate::REPLAY_DEADLINE) after its admission, has passed.
    pub deadline_passed: bool,
    /// No other non-read call of the component was admitted since.
    pub undisturbed: bool,
    /// Somebody still waits for the answer.
    pub wanted: bool,
}

/// Its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Write it to the next generation, once.
    Replay,
    /// It had no effect that matters: the caller may make it again.
    Retry,
    /// The outcome is unknown, and that is the end of it.
    Unknown,
}

/// Settles a call that was written and not answered.
#[must_use]
pub fn settle(call: &LostFacts) -> Settled {
    let in_time = call.wanted && !call.replayed && !call.deadline_passed;
    match call.class {
        WorkClass::ReadOnly if in_time => Settled::Replay,
        WorkClass::ReadOnly => Settled::Retry,
        WorkClass::Idempotent if in_time && call.replay_allowed && call.undisturbed => Settled::Replay,
        WorkClass::Idempotent => Settled::Unknown,
        WorkClass::Mutating => {
            if is_planted("retried-though-it-may-have-happened") {
                return Settled::Retry;
            }
            if is_planted("written-again-after-a-death") {
                return if in_time { Settled::Replay } else { Settled::Unknown };
            }
            Settled::Unknown
        }
    }
}

/// Settles a call that a shim reports as marked `forwarding` after the daemon has died: it may have been written or not,
/// and what else was admitted since is forgotten.
#[must_use]
pub fn settle_marked(class: WorkClass, deadline_passed: bool) -> Settled {
    settle(&LostFacts {
        class,
        replay_allowed: false,
        replayed: false,
        deadline_passed,
        undisturbed: false,
        wanted: true,
    })
}
