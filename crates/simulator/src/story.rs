//! What the world of one seed is like: its components, its people, how much goes wrong. Drawn once, before anything
//! happens; it decides nothing afterwards.

use crate::chance::{generator, happens};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tidegate_core::ComponentName;
use tidegate_governor::Policy;

/// Every so many seeds nothing goes wrong but one restart, and the same seed runs without it for comparison.
pub(crate) const CALM_EVERY: u64 = 8;

/// Makes a name of a constant.
pub(crate) fn name<T: FromStr<Err: fmt::Debug>>(text: &str) -> T {
    #[allow(clippy::expect_used)] // Names in this crate are constants, or constants with numbers.
    text.parse().expect("a constant name is valid")
}

/// How much goes wrong, in thousandths of the occasions for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Commits that get a fault.
    pub(crate) commit_per_mille: u32,
    /// The longest usual latency of a commit; without faults, every commit's.
    pub(crate) store_latency_ms: u64,
    /// Kills of the daemon at a moment of their own.
    pub(crate) kills: u32,
    /// New phases of an operation in which the daemon is killed soon.
    pub(crate) kill_per_phase: u32,
    /// Calls whose server dies, stalls, or does something else that it should not.
    pub(crate) bad_calls: u32,
    /// Starts and verifications that fail.
    pub(crate) bad_starts: u32,
    /// Servers that don't want to end.
    pub(crate) stubborn: u32,
    /// Jumps of the wall clock.
    pub(crate) wall_jumps: u32,
}

/// What a restart does to the state that a server keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComponentPlan {
    pub(crate) name: ComponentName,
    /// Its state is lost with its process.
    pub(crate) in_process: bool,
    /// The operator lets idempotent calls be written again.
    pub(crate) replay: bool,
    /// After what time Tidegate gives a call up.
    pub(crate) call_timeout: Option<Duration>,
}

/// How a session behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One call after the other, does what it is told, gives back what it took.
    Steady,
    /// Many calls at once, and keeps its leases.
    Greedy,
    /// Cancels, leaves, comes back, never gives anything back.
    Forgetful,
    /// Attaches, takes a lease, and is not heard of for long.
    Silent,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionPlan {
    pub(crate) name: String,
    pub(crate) manner: Manner,
    pub(crate) components: Vec<ComponentName>,
    /// It asks for restarts, and tries to approve them itself.
    pub(crate) asks: bool,
    /// How many things it does.
    pub(crate) deeds: u32,
}

/// The world of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    pub(crate) calm: bool,
    /// Without the restart: the other half of a comparison.
    pub(crate) undisturbed: bool,
    pub(crate) components: Vec<ComponentPlan>,
    pub(crate) sessions: Vec<SessionPlan>,
    pub(crate) policy: Policy,
    pub(crate) hold: Duration,
    pub(crate) faults: Faults,
    /// Until when things go wrong.
    pub(crate) chaos_ms: u64,
}

impl Story {
    pub(crate) fn of(seed: u64, undisturbed: bool) -> Self {
        let mut rng = generator(seed, "story");
        let calm = seed.is_multiple_of(CALM_EVERY);
        let mut names = vec!["files", "mail", "index"];
        names.truncate(if calm { 3 } else { rng.usize(2..=3) });
        let components: Vec<ComponentPlan> =
            names.into_iter().map(|it| component(&mut rng, it, calm)).collect();
        let sessions = (1..=rng.u32(3..=5)).map(|number| session(&mut rng, number, &components)).collect();
        let approvals = if happens(&mut rng, 200) { 2 } else { 1 };
        let approvers = if rng.bool() {
            vec!["operator".to_owned()]
        } else {
            vec!["operator".to_owned(), "reviewer".to_owned()]
        };
        let policy = Policy {
            approvals,
            approvers,
            operator_approvals: u32::from(happens(&mut rng, 150)),
            drain_deadline: Duration::from_millis(rng.u64(1_500..6_000)),
            request_ttl: Duration::from_millis(rng.u64(8_000..20_000)),
            operators: ["ann", "ben"].map(name).into(),
            principals: ["reviewer", "worker"].map(name).into(),
        };
        let policy = if calm { Policy { operator_approvals: 0, ..policy } } else { policy };
        Self {
            seed,
            calm,
            undisturbed,
            components,
            sessions,
            policy,
            hold: Duration::from_millis(rng.u64(1_000..8_000)),
            faults: if calm { Faults::none() } else { Faults::drawn(&mut rng) },
            chaos_ms: rng.u64(8_000..20_000),
        }
    }
}

fn component(rng: &mut fastrand::Rng, it: &str, calm: bool) -> ComponentPlan {
    let timeout_ms = rng.u64(1_000..8_000);
    let call_timeout = (happens(rng, 300) && !calm).then(|| Duration::from_millis(timeout_ms));
    ComponentPlan { name: name(it), in_process: rng.bool(), replay: rng.bool(), call_timeout }
}

fn session(rng: &mut fastrand::Rng, number: u32, components: &[ComponentPlan]) -> SessionPlan {
    let manner = match rng.u32(..8) {
        0..3 => Manner::Steady,
        3..5 => Manner::Greedy,
        5..7 => Manner::Forgetful,
        _ => Manner::Silent,
    };
    let mut to: Vec<ComponentName> = components.iter().map(|c| c.name.clone()).collect();
    rng.shuffle(&mut to);
    to.truncate(rng.usize(1..=to.len()));
    to.sort();
    SessionPlan {
        name: format!("s{number}"),
        manner,
        components: to,
        asks: number <= 2,
        deeds: rng.u32(5..16),
    }
}

impl Faults {
    const fn none() -> Self {
        Self {
            commit_per_mille: 0,
            store_latency_ms: 1,
            kills: 0,
            kill_per_phase: 0,
            bad_calls: 0,
            bad_starts: 0,
            stubborn: 0,
            wall_jumps: 0,
        }
    }

    fn drawn(rng: &mut fastrand::Rng) -> Self {
        let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
        Self {
            commit_per_mille: some(60),
            store_latency_ms: u64::from(some(4)),
            kills: some(3),
            kill_per_phase: some(250),
            bad_calls: some(250),
            bad_starts: some(300),
            stubborn: some(300),
            wall_jumps: some(4),
        }
    }
}
