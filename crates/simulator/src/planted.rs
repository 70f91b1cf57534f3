//! The teeth: wrong decisions that are planted one at a time, each of which some seed has to catch. The list is data; where
//! each is planted, its name is looked up (`tidegate_core::planted`).

use serde::{Deserialize, Serialize};

/// Within so many seeds every planted bug is caught.
pub const CAUGHT_WITHIN: u64 = 1_500;

/// One wrong decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bug {
    /// The bullet that it breaks.
    pub bullet: u8,
    /// Its name, where it is planted and on the command line.
    pub name: &'static str,
    /// What is decided wrongly.
    pub what: &'static str,
}

const fn bug(bullet: u8, name: &'static str, what: &'static str) -> Bug {
    Bug { bullet, name, what }
}

impl Bug {
    /// The bug of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        BUGS.iter().find(|bug| bug.name == name)
    }
}

/// All of them, by the bullet that each breaks.
pub const BUGS: &[Bug] = &[
    bug(1, "own-request-approved", "an operator approves what they asked for themselves"),
    bug(1, "approved-without-a-credential", "anybody without a credential approves"),
    bug(1, "approved-by-one-who-is-not-listed", "an agent approves that the policy doesn't list"),
    bug(1, "one-approver-counts-twice", "two approvals by one principal are two approvals"),
    bug(1, "glass-broken-by-anybody", "an agent skips the approvals"),
    bug(1, "every-server-is-stopped", "a restart stops the servers outside its scope too"),
    bug(2, "closing-does-not-close", "a closed gate admits"),
    bug(2, "only-the-first-gate-is-closed", "a drain of several components closes one gate"),
    bug(2, "a-late-timer-reopens", "the timer of an earlier drain opens whatever gate is closed"),
    bug(2, "reasserted-behind-a-closed-gate", "subscriptions are put in force before the gate is open"),
    bug(2, "gates-stay-open-after-a-crash", "a restart is carried forward behind an open gate"),
    bug(2, "a-stopped-daemon-loses-its-lock", "a second daemon starts beside one that is stopped"),
    bug(2, "reopened-while-stopped", "the gate opens as soon as the server is dead"),
    bug(3, "a-drain-cancels-work", "closing the gate cancels what is in flight"),
    bug(3, "read-only-work-is-not-waited-for", "a drain is over when only read-only calls are left"),
    bug(3, "every-look-is-the-deadline", "the timer of a progress report is taken for the deadline"),
    bug(3, "answers-are-dropped-during-a-drain", "an answer that comes behind a closed gate is dropped"),
    bug(3, "the-first-late-answer-is-the-last", "a keeper ends with the first of several late answers"),
    bug(3, "a-late-answer-is-not-believed", "a late answer is there, and its call is settled as lost"),
    bug(4, "detached-work-does-not-hold", "a server is stopped under work whose caller is gone"),
    bug(4, "cancelled-is-finished", "a cancelled call gives its permit back at once"),
    bug(4, "unsafe-work-times-out", "at the deadline unsafe work is taken for done"),
    bug(4, "counted-before-closed", "the work in flight is counted, and then the gate is closed"),
    bug(4, "the-unsafe-mark-is-not-made", "nothing durable says that an unsafe call may be running"),
    bug(4, "written-again-after-a-death", "a mutating call is written again after its server has died"),
    bug(4, "a-tree-is-its-main-process", "a server counts as dead while a child of it lives"),
    bug(
        4,
        "an-old-server-is-killed-at-its-work",
        "a successor ends a server in which an unsafe call may run",
    ),
    bug(4, "a-call-begins-unseen", "a server's keeper isn't told of an unsafe call before it is written"),
    bug(5, "acknowledged-before-its-sync", "a commit is acknowledged before it is synced"),
    bug(5, "stopped-without-checkpoints", "servers are stopped before the sessions have checkpoints"),
    bug(5, "a-checkpoint-forgets-notes", "a checkpoint replaces what the session had noted"),
    bug(5, "coming-back-begins-anew", "a session that comes back is a new one"),
    bug(5, "leaving-is-forgetting", "a session that disconnects is forgotten"),
    bug(6, "released-without-its-fence", "a release with an old fence ends the successor's lease"),
    bug(6, "released-by-anybody", "a session releases another's lease"),
    bug(6, "a-live-lease-is-taken", "a lease is taken before it has run out"),
    bug(6, "a-mutating-lease-runs-out", "a mutating lease is taken without proof of death"),
    bug(6, "absent-is-dead", "a holder that isn't connected is taken for dead"),
    bug(6, "orphaned-without-an-incident", "a lease is orphaned and nobody is told"),
    bug(6, "a-restart-releases-leases", "a restart releases what it should carry over"),
    bug(6, "a-restore-keeps-its-epoch", "after a restore fences are given out again"),
    bug(6, "anybodys-lease-will-do", "a call passes under a lease that another session holds"),
    bug(6, "an-old-fence-is-believed", "a call passes under a fence that isn't in force any more"),
    bug(6, "what-has-run-out-still-admits", "a call passes under a lease that has run out"),
    bug(
        7,
        "the-unknown-is-not-recorded",
        "a session is told that an outcome is unknown, and that isn't kept",
    ),
    bug(
        7,
        "retried-though-it-may-have-happened",
        "a session is told to repeat a call that may have happened",
    ),
    bug(
        7,
        "what-a-dead-client-left-is-not-said",
        "a write goes on without its client, and that isn't recorded",
    ),
    bug(
        7,
        "what-goes-on-is-not-told",
        "a write that goes on is on record, and nobody who comes back is told",
    ),
    bug(7, "an-end-forgets-what-runs", "a session is ended whose write goes on, and no operator is told"),
    bug(
        7,
        "a-write-of-an-ended-session-is-nobodys",
        "a session is ended in the middle of a write, and no operator is told",
    ),
    bug(
        7,
        "only-the-first-connection-waits",
        "a client's second connection is served while those of its dead predecessor are being closed",
    ),
    bug(7, "the-wait-outlives-the-restart", "a session is told to wait for a restart that is over"),
    bug(7, "refused-and-told-to-go-on", "a session is refused and told to go on"),
    bug(8, "refused-without-an-incident", "a refused drain leaves no incident"),
    bug(8, "interrupted-without-an-incident", "an operation that was interrupted leaves no incident"),
    bug(8, "failed-without-an-incident", "a restart that failed leaves no incident"),
    bug(8, "reopened-before-the-incident-is-durable", "the gate opens before the incident is durable"),
    bug(8, "every-report-is-a-new-incident", "the same failure twice is two incidents"),
    bug(8, "what-recurs-stays-resolved", "a failure that recurs doesn't reopen its incident"),
    bug(9, "every-gate-is-closed", "a drain closes the gates outside its scope too"),
    bug(9, "every-tool-is-gone", "after a restart tools that are there are refused as gone"),
    bug(9, "refused-at-an-open-gate", "a session that owes a server an answer is refused at an open gate"),
    bug(10, "read-before-its-sync", "a reply rests on a revision that isn't synced"),
    bug(10, "uncertain-is-done", "a commit that may have happened is taken for one that has"),
    bug(10, "uncertain-is-rejected", "a commit that may have happened is taken for one that hasn't"),
    bug(
        10,
        "an-old-server-is-not-on-record",
        "a component can't be started beside its old server, and its record says otherwise",
    ),
    bug(10, "ended-operations-are-forgotten", "an operation is forgotten as soon as it has ended"),
    bug(10, "stopped-before-that-is-durable", "servers are stopped before the phase is durable"),
];

/// What came of the hunt for one planted bug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunt {
    /// Its name.
    pub bug: String,
    /// The bullet that it breaks.
    pub bullet: u8,
    /// The first seed that caught it; none: it has survived.
    pub caught_by_seed: Option<u64>,
    /// The rule that caught it.
    pub caught_as: Option<String>,
    /// How many steps of that seed it took.
    pub steps: u64,
    /// How many seeds were tried.
    pub seeds: u64,
}

#[cfg(feature = "planted")]
pub use hunt::{hunt, with_planted};

#[cfg(feature = "planted")]
mod hunt {
    use super::{Bug, Hunt};
    use crate::play::run_seed;
    use tidegate_core::planted::plant;

    /// Runs something with a wrong decision planted on this thread.
    pub fn with_planted<T>(bug: Option<&'static str>, run: impl FnOnce() -> T) -> T {
        plant(bug);
        let ran = run();
        plant(None);
        ran
    }

    /// Plants a bug and runs seeds until one catches it.
    #[must_use]
    pub fn hunt(bug: &Bug, seeds: u64) -> Hunt {
        let mut hunt = Hunt {
            bug: bug.name.to_owned(),
            bullet: bug.bullet,
            caught_by_seed: None,
            caught_as: None,
            steps: 0,
            seeds: 0,
        };
        while hunt.caught_by_seed.is_none() && hunt.seeds < seeds {
            let seed = hunt.seeds;
            let outcome = with_planted(Some(bug.name), || run_seed(seed));
            hunt.seeds += 1;
            if outcome.broken.is_some() {
                (hunt.caught_by_seed, hunt.caught_as, hunt.steps) =
                    (Some(seed), outcome.broken, outcome.steps);
            }
        }
        hunt
    }
}
