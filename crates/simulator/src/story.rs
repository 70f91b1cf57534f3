//! What the world of one seed is like: its components, its people, how much goes wrong. Drawn once, before anything
//! happens; it decides nothing afterwards. It can be stored, and made smaller.

use crate::chance::{generator, happens};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tidegate_core::ComponentName;
use tidegate_governor::Policy;

/// Every so many seeds nothing goes wrong but one restart, and the same seed runs without it for comparison.
pub(crate) const CALM_EVERY: u64 = 8;
/// Components whose mutating calls need a lease: few enough that the others see most of the work.
const LEASED_PER_MILLE: u32 = 150;
/// Clients that come back at once, in every other world: enough of both kinds.
const HASTY_PER_MILLE: u32 = 600;
/// Every operator and every agent there is a credential for, whether they come or not.
const OPERATORS: [&str; 2] = ["ann", "ben"];
const AGENTS: [&str; 2] = ["reviewer", "worker"];

/// Makes a name of a constant.
pub(crate) fn name<T: FromStr<Err: fmt::Debug>>(text: &str) -> T {
    #[allow(clippy::expect_used)] // Names in this crate are constants, or constants with numbers.
    text.parse().expect("a constant name is valid")
}

/// How much goes wrong, in thousandths of the occasions for it, or how often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Faults {
    /// Commits that get a fault.
    pub(crate) commit_per_mille: u32,
    /// The longest usual latency of a commit; without faults, every commit's.
    pub(crate) store_latency_ms: u64,
    /// Times in which there is no space left.
    pub(crate) full_disks: u32,
    /// Restores of the store from an older backup.
    pub(crate) restores: u32,
    /// Kills of the daemon at a moment of their own.
    pub(crate) kills: u32,
    /// New phases of an operation in which the daemon is killed soon.
    pub(crate) kill_per_phase: u32,
    /// Times in which the daemon is stopped, and somebody starts another one beside it.
    pub(crate) freezes: u32,
    /// Times in which the machine sleeps.
    pub(crate) suspends: u32,
    /// Calls whose server dies, stalls, or does something else that it should not.
    pub(crate) bad_calls: u32,
    /// Starts and verifications that fail.
    pub(crate) bad_starts: u32,
    /// Servers that don't want to end.
    pub(crate) stubborn: u32,
    /// Servers that leave a child behind.
    pub(crate) children: u32,
    /// Jumps of the wall clock.
    pub(crate) wall_jumps: u32,
    /// Kills of keepers.
    #[serde(default)]
    pub(crate) keeper_kills: u32,
    /// Sessions that an operator ends, whatever they are in the middle of.
    #[serde(default)]
    pub(crate) ended_sessions: u32,
    /// Clients that are back as soon as they were killed: before the daemon has noticed.
    #[serde(default)]
    pub(crate) hasty_clients: u32,
}

/// What a restart does to the state that a server keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComponentPlan {
    pub(crate) name: ComponentName,
    /// Its state is lost with its process.
    pub(crate) in_process: bool,
    /// The operator lets idempotent calls be written again.
    pub(crate) replay: bool,
    /// After what time Tidegate gives a call up.
    pub(crate) call_timeout_ms: Option<u64>,
    /// Its mutating calls name the lease that they need.
    #[serde(default)]
    pub(crate) leased: bool,
}

impl ComponentPlan {
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.call_timeout_ms.map(Duration::from_millis)
    }
}

/// How a session behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Manner {
    /// One call after the other, does what it is told, gives back what it took.
    Steady,
    /// Many calls at once, keeps its leases, and tries to release those of others.
    Greedy,
    /// Cancels, leaves, comes back, never gives anything back, or far too late.
    Forgetful,
    /// Attaches, takes a lease, and is not heard of for long.
    Silent,
    /// Comes under the name of another session, and approves as that one what it asked for as this one.
    Posing,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionPlan {
    /// Whose it is: no two have the same.
    pub(crate) name: String,
    /// What it wants to be called.
    pub(crate) session: String,
    pub(crate) manner: Manner,
    pub(crate) components: Vec<ComponentName>,
    /// It asks for restarts, and tries to approve them itself.
    pub(crate) asks: bool,
    /// How many things it does.
    pub(crate) deeds: u32,
}

/// Who may do what, and how long things take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
    pub(crate) approvals: u32,
    pub(crate) approvers: Vec<String>,
    pub(crate) operator_approvals: u32,
    pub(crate) drain_deadline_ms: u64,
    pub(crate) request_ttl_ms: u64,
    pub(crate) hold_ms: u64,
}

/// The world of one seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    pub(crate) seed: u64,
    pub(crate) calm: bool,
    /// Without the restart: the other half of a comparison.
    pub(crate) undisturbed: bool,
    /// The seed chooses who goes next; otherwise it is first come, first served.
    pub(crate) shuffled: bool,
    pub(crate) components: Vec<ComponentPlan>,
    pub(crate) sessions: Vec<SessionPlan>,
    /// The operators and agents that come.
    pub(crate) operators: Vec<String>,
    pub(crate) agents: Vec<String>,
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
    /// Until when things go wrong.
    pub(crate) chaos_ms: u64,
}

impl Story {
    /// The world of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut rng = generator(seed, "story");
        let calm = seed.is_multiple_of(CALM_EVERY);
        let mut names = vec!["files", "mail", "index"];
        names.truncate(if calm { 3 } else { rng.usize(2..=3) });
        let mut components: Vec<ComponentPlan> =
            names.into_iter().map(|it| component(&mut rng, it, calm)).collect();
        let mut sessions: Vec<SessionPlan> =
            (1..=rng.u32(3..=5)).map(|number| session(&mut rng, number, &components)).collect();
        if !calm && happens(&mut rng, 400) {
            sessions.push(SessionPlan {
                session: sessions[0].session.clone(),
                manner: Manner::Posing,
                asks: true,
                ..session(&mut rng, 9, &components)
            });
        }
        if !calm {
            // Drawn apart, so that what was drawn before stays what it was.
            let mut rng = generator(seed, "leased components");
            components
                .iter_mut()
                .for_each(|component| component.leased = happens(&mut rng, LEASED_PER_MILLE));
        }
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        Self {
            seed,
            calm,
            undisturbed: false,
            shuffled: !calm,
            components,
            sessions,
            operators: if calm { vec![OPERATORS[0].to_owned()] } else { names(OPERATORS) },
            agents: if calm { Vec::new() } else { names(AGENTS) },
            rules: Rules::drawn(&mut rng, calm),
            faults: if calm { Faults::none() } else { Faults::drawn(seed, &mut rng) },
            chaos_ms: rng.u64(8_000..20_000),
        }
    }

    /// The same world without its one restart, where it is a calm one.
    pub(crate) fn without_its_restart(&self) -> Self {
        Self { undisturbed: true, operators: Vec::new(), ..self.clone() }
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            approvals: self.rules.approvals,
            approvers: self.rules.approvers.clone(),
            operator_approvals: self.rules.operator_approvals,
            drain_deadline: Duration::from_millis(self.rules.drain_deadline_ms),
            request_ttl: Duration::from_millis(self.rules.request_ttl_ms),
            operators: OPERATORS.map(name).into(),
            principals: AGENTS.map(name).into(),
        }
    }

    pub(crate) fn hold(&self) -> Duration {
        Duration::from_millis(self.rules.hold_ms)
    }
}

fn component(rng: &mut fastrand::Rng, it: &str, calm: bool) -> ComponentPlan {
    let timeout_ms = rng.u64(1_000..8_000);
    let call_timeout_ms = (happens(rng, 300) && !calm).then_some(timeout_ms);
    let (in_process, replay) = (rng.bool(), rng.bool());
    ComponentPlan { name: name(it), in_process, replay, call_timeout_ms, leased: false }
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
        session: format!("s{number}"),
        manner,
        components: to,
        asks: number <= 2,
        deeds: rng.u32(5..16),
    }
}

impl Rules {
    fn drawn(rng: &mut fastrand::Rng, calm: bool) -> Self {
        let approvals = if happens(rng, 200) { 2 } else { 1 };
        let approvers: &[&str] = if rng.bool() { &["operator"] } else { &["operator", "reviewer"] };
        let operator_approvals = u32::from(happens(rng, 150) && !calm);
        Self {
            approvals,
            approvers: approvers.iter().map(|it| (*it).to_owned()).collect(),
            operator_approvals,
            drain_deadline_ms: rng.u64(1_500..6_000),
            request_ttl_ms: rng.u64(8_000..20_000),
            hold_ms: rng.u64(1_000..8_000),
        }
    }
}

impl Faults {
    fn none() -> Self {
        Self { store_latency_ms: 1, ..Self::default() }
    }

    fn drawn(seed: u64, rng: &mut fastrand::Rng) -> Self {
        let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
        let mut faults = Self {
            commit_per_mille: some(60),
            store_latency_ms: u64::from(some(4)),
            kills: some(3),
            kill_per_phase: some(250),
            bad_calls: some(250),
            bad_starts: some(300),
            stubborn: some(300),
            wall_jumps: some(4),
            children: some(300),
            ..Self::default()
        };
        let mut rarely = |one_in: u32| u32::from(rng.u32(..one_in) == 0);
        faults.full_disks = rarely(4);
        faults.restores = rarely(8);
        faults.freezes = rarely(4);
        faults.suspends = rarely(6);
        faults.keeper_kills = generator(seed, "keeper kills").u32(..3);
        faults.ended_sessions = generator(seed, "ended sessions").u32(..6).saturating_sub(3);
        faults.hasty_clients = generator(seed, "hasty clients").u32(..2) * HASTY_PER_MILLE;
        faults
    }
}
