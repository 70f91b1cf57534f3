//! What a run has reached: a schedule that never gets somewhere proves nothing about it.

use super::{Outcome, Seen, Truth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_checkpoints::Checkpoint;
use tidegate_governor::{Operation, Phase};
use tidegate_incidents::{Incident, IncidentKind};
use tidegate_leases::{Event, Lease};

/// How often was reached what can be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Phases of operations, by name.
    pub phases: BTreeMap<String, u64>,
    /// Kinds of refusals that clients read.
    pub refusals: BTreeMap<String, u64>,
    /// Kinds of next actions, in refusals and in checkpoints.
    pub next_actions: BTreeMap<String, u64>,
    /// Kinds of incidents.
    pub incidents: BTreeMap<String, u64>,
    /// What the tests of single bullets have to have seen at least once.
    pub marks: BTreeMap<String, u64>,
}

/// Everything that the crates can reach, by the four kinds. What later issues bring isn't in it.
const PHASES: [Phase; 13] = [
    Phase::Requested,
    Phase::Approved,
    Phase::Draining,
    Phase::Checkpointing,
    Phase::Stopping,
    Phase::Starting,
    Phase::Verifying,
    Phase::Completed,
    Phase::Denied,
    Phase::Expired,
    Phase::Cancelled,
    Phase::Refused,
    Phase::Failed,
];
const REFUSALS: [&str; 4] = ["draining", "outcome_unknown", "unavailable", "tool_changed"];
const NEXT_ACTIONS: [&str; 9] = [
    "Continue",
    "RetryCall",
    "VerifyThenRetry",
    "WaitForRestart",
    "ReacquireLease",
    "RefreshTools",
    "StateReset",
    "RequestApproval",
    "ContactOperator",
];
const INCIDENTS: [IncidentKind; 9] = [
    IncidentKind::DrainRefused,
    IncidentKind::RestartFailed,
    IncidentKind::OutcomeUnknown,
    IncidentKind::LeaseOrphaned,
    IncidentKind::ComponentCrashed,
    IncidentKind::OperationInterrupted,
    IncidentKind::BreakGlass,
    IncidentKind::UnsafeAfterSignal,
    IncidentKind::TreeSurvived,
];

fn mark_of(event: Event) -> &'static str {
    match event {
        Event::Granted => "lease granted",
        Event::Adopted => "lease adopted",
        Event::CarriedOver => "lease carried over",
        Event::Expired => "lease expired",
        Event::Orphaned => "lease orphaned",
        Event::Released => "lease released",
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

impl Coverage {
    pub(crate) fn mark(&mut self, name: &str) {
        add(&mut self.marks, name);
    }

    pub(crate) fn phase(&mut self, operation: &Operation) {
        add(&mut self.phases, &operation.phase.to_string());
    }

    pub(crate) fn incident(&mut self, incident: &Incident) {
        add(&mut self.incidents, incident.kind.as_str());
    }

    pub(crate) fn actions(&mut self, checkpoint: &Checkpoint) {
        for pending in &checkpoint.pending {
            add(&mut self.next_actions, pending.action.kind());
        }
    }

    pub(crate) fn lease(&mut self, lease: &Lease) {
        for entry in &lease.history {
            self.mark(mark_of(entry.event));
        }
    }

    pub(crate) fn count(&mut self, seen: &Seen, truth: &Truth) {
        let draining = |call| {
            let component = truth.calls.get(call).and_then(|it| truth.components.get(&it.component));
            component.is_some_and(|it| it.closed_in.is_some())
        };
        match seen {
            Seen::Delivered { outcome: Outcome::Refused(refused), .. } => {
                add(&mut self.refusals, &refused.kind);
                add(&mut self.next_actions, &refused.action);
            }
            Seen::Delivered { call, .. } if draining(call) => self.mark("answered during a drain"),
            Seen::Sent { call, .. } if draining(call) => self.mark("called during a drain"),
            Seen::Resumed { action, .. } => add(&mut self.next_actions, action),
            Seen::Stopping { governed: true, .. } => self.mark("server stopped for an operation"),
            Seen::Approving { caller, .. } if !truth.policy.is_approver(caller) => {
                self.mark("approval by one who may not");
            }
            Seen::Approving { .. } => self.mark("approval by one who may"),
            Seen::Kept { .. } => self.mark("fact kept"),
            Seen::DaemonDied => self.mark("daemon died"),
            Seen::Restored => self.mark("store restored"),
            Seen::Mark(what) => self.mark(what),
            Seen::CancelReceived { .. } => self.mark("call cancelled"),
            _ => {}
        }
    }

    /// Adds what another run has reached.
    pub(crate) fn merge(&mut self, other: Self) {
        let pairs = [
            (&mut self.phases, other.phases),
            (&mut self.refusals, other.refusals),
            (&mut self.next_actions, other.next_actions),
            (&mut self.incidents, other.incidents),
            (&mut self.marks, other.marks),
        ];
        for (into, from) in pairs {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        }
    }

    /// What could have been reached and was not.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut look = |what: &str, counts: &BTreeMap<String, u64>, names: Vec<String>| {
            let absent = names.into_iter().filter(|name| !counts.contains_key(name));
            missing.extend(absent.map(|name| format!("{what} {name}")));
        };
        look("phase", &self.phases, PHASES.iter().map(ToString::to_string).collect());
        look("refusal", &self.refusals, REFUSALS.map(str::to_owned).to_vec());
        look("next action", &self.next_actions, NEXT_ACTIONS.map(str::to_owned).to_vec());
        look("incident", &self.incidents, INCIDENTS.iter().map(|kind| kind.as_str().to_owned()).collect());
        missing
    }
}
