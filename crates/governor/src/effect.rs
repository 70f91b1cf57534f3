//! What happens to an operation, and what it asks for. An effect follows from the durable operation alone, so that it
//! can be repeated by whoever finds the operation; nothing here decides what comes next.

use crate::{LaunchIdentity, Launches, Operation, Phase, Resumed, Verified};
use std::collections::BTreeMap;
use tidegate_checkpoints::Draft;
use tidegate_core::{ComponentName, Deadline, DrainId, Generation, IncidentId};
use tidegate_drain::Verdict;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// This is what the components would be started as now; the drain would have this id.
    Identified {
        /// What would be started.
        current: Launches,
        /// What is started now, where the operation changes that.
        previous: Launches,
        /// A fresh id.
        drain: DrainId,
    },
    /// A gate could not be closed.
    NotClosed(String),
    /// The drain was decided.
    Drained(Verdict),
    /// Earlier servers of these have left something that isn't proved gone, and why.
    Blocked(BTreeMap<ComponentName, String>),
    /// The facts of the sessions in scope.
    Gathered(Vec<Draft>),
    /// What came of stopping: `Ok` is proof of death.
    Stopped(BTreeMap<ComponentName, Result<(), String>>),
    /// What came of starting.
    Started(BTreeMap<ComponentName, Result<(), String>>),
    /// What came of verifying.
    Verified(BTreeMap<ComponentName, Result<Verified, String>>),
    /// The gates are open again.
    Reopened,
    /// Whoever drove the operation is gone, and nobody knows how far the last step got.
    Interrupted,
    /// Somebody else may have changed it.
    Changed,
}

/// What to do next. It follows from the durable operation alone ([`effect_of`]), so that it can be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing: the operation waits, or is over.
    None,
    /// Find out what the components would be started as now.
    Identify,
    /// Close the gates and wait.
    Drain {
        /// The drain.
        drain: DrainId,
        /// Its recorded deadline.
        deadline: Deadline,
    },
    /// Gather the sessions' facts.
    Gather,
    /// Stop these, each with proof of death.
    Stop(Vec<ComponentName>),
    /// Start these.
    Start(Vec<(ComponentName, Generation, LaunchIdentity)>),
    /// Verify these.
    Verify(Vec<ComponentName>),
    /// Hand over, then open the gates.
    Reopen {
        /// The drain that holds them closed.
        drain: DrainId,
        /// The components that serve again.
        resumed: Vec<Resumed>,
        /// Those that don't, and why.
        unavailable: Vec<(ComponentName, IncidentId)>,
    },
}

impl Event {
    /// Whether the step that follows may settle leases, so that their owners have to be looked at.
    #[must_use]
    pub fn may_settle_leases(&self) -> bool {
        matches!(self, Self::Gathered(_) | Self::Stopped(_) | Self::Verified(_))
    }
}

/// What the durable operation asks for.
#[must_use]
pub fn effect_of(operation: &Operation) -> Effect {
    let drain = operation.drain.as_ref();
    match (operation.phase, drain) {
        (Phase::Approved, _) => Effect::Identify,
        (Phase::Draining, Some(drain)) => Effect::Drain { drain: drain.id.clone(), deadline: drain.deadline },
        (Phase::Checkpointing, _) => Effect::Gather,
        (Phase::Stopping, _) => Effect::Stop(operation.pending.iter().cloned().collect()),
        (Phase::Starting, _) => Effect::Start(to_start(operation)),
        (Phase::Verifying, _) => {
            let running = |name: &&ComponentName| !operation.failing.contains_key(*name);
            Effect::Verify(operation.pending.iter().filter(running).cloned().collect())
        }
        (_, Some(drain)) if operation.is_to_reopen() => Effect::Reopen {
            drain: drain.id.clone(),
            resumed: resumed(operation),
            unavailable: unavailable(operation),
        },
        _ => Effect::None,
    }
}

fn to_start(operation: &Operation) -> Vec<(ComponentName, Generation, LaunchIdentity)> {
    let parts = |name: &ComponentName| {
        let generation = operation.generations.get(name)?.after?;
        let launch = operation.upgrade.launch(&operation.launches, name)?;
        Some((name.clone(), generation, launch.clone()))
    };
    operation.pending.iter().filter_map(parts).collect()
}

fn resumed(operation: &Operation) -> Vec<Resumed> {
    let parts = |(name, verified): (&ComponentName, &Verified)| {
        Some(Resumed {
            operation: operation.id.clone(),
            component: name.clone(),
            generation: operation.generations.get(name)?.after?,
            verified: verified.clone(),
        })
    };
    operation.verified.iter().filter_map(parts).collect()
}

fn unavailable(operation: &Operation) -> Vec<(ComponentName, IncidentId)> {
    let incident = |name: &ComponentName| Some((name.clone(), operation.incident.clone()?));
    operation.failures.keys().filter_map(incident).collect()
}
