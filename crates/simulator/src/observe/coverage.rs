//! What a run has reached: a schedule that never gets somewhere proves nothing about it.

use super::{Outcome, Seen, Truth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_checkpoints::Checkpoint;
use tidegate_governor::{Operation, Phase};
use tidegate_incidents::{Incident, IncidentKind};
use tidegate_leases::{Event, Lease};
use tidegate_relay::RefusalKind;

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

const PHASES: [Phase; 14] = [
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
    Phase::RolledBack,
    Phase::Failed,
];
const REFUSALS: [RefusalKind; 6] = [
    RefusalKind::Draining,
    RefusalKind::OutcomeUnknown,
    RefusalKind::RestartRefused,
    RefusalKind::LeaseRequired,
    RefusalKind::Unavailable,
    RefusalKind::ToolChanged,
];
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
/// What is counted beside the four kinds, and has to be reached like them.
const MARKS: [&str; 31] = [
    "answered during a drain",
    "approval by one who may",
    "approval by one who may not",
    "call cancelled",
    "called during a drain",
    "child left behind",
    "client back at once",
    "compared with an undisturbed run",
    "daemon died",
    "daemon stopped",
    "disk full",
    "keeper killed",
    "late answer found",
    "kept from starting by an old server",
    "lease adopted",
    "lease carried over",
    "lease expired",
    "lease granted",
    "lease orphaned",
    "lease released",
    "machine slept",
    "refused an old fence",
    "released late",
    "second daemon refused",
    "server kept by its keeper",
    "session ended",
    "session ended in the middle of a write",
    "store restored",
    "tried to release another's lease",
    "worked under a fence",
    "worked under a lease",
];

/// What these worlds can't come to, and why.
pub const UNREACHABLE: &[(&str, &str)] = &[
    (
        "refusal restart_refused",
        "the gateway's API answers with it; here its callers get the governor's own words",
    ),
    ("incident start_failed", "nothing reports it: a start that fails is part of a restart or of a crash"),
    ("incident verify_failed", "nothing reports it: as start_failed"),
    ("incident lease_expired", "nothing reports it: an expiry is in the lease's history"),
    (
        "incident unclean_stop",
        "nothing reports it: what a daemon's death leaves open is operation_interrupted",
    ),
    ("incident store_failed", "nothing reports it: a store that fails can't keep the report either"),
    ("incident too_many_incidents", "there are 512 before it, and a world has a dozen"),
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
            Seen::Delivered { call, outcome: Outcome::Refused(refused), .. } => {
                let fence = truth.calls.get(call).and_then(|it| it.lease.as_ref()?.fence);
                if refused.kind == "lease_required" && fence.is_some() {
                    self.mark("refused an old fence");
                }
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
            Seen::Received { call, .. } => {
                if let Some(lease) = truth.calls.get(call).and_then(|it| it.lease.as_ref()) {
                    self.mark(if lease.fence.is_some() {
                        "worked under a fence"
                    } else {
                        "worked under a lease"
                    });
                }
            }
            Seen::Ended { session } => {
                self.mark("session ended");
                let mut its = truth.calls.values().filter(|it| it.session == *session);
                if its.any(|it| truth.is_running(it)) {
                    self.mark("session ended in the middle of a write");
                }
            }
            Seen::Survived { .. } => self.mark("kept from starting by an old server"),
            Seen::LateAnswer { .. } => self.mark("late answer found"),
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

    /// What could have been reached and was not; what can't be is in [`UNREACHABLE`].
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut look = |what: &str, counts: &BTreeMap<String, u64>, names: Vec<String>| {
            let absent = names.into_iter().filter(|name| !counts.contains_key(name));
            missing.extend(absent.map(|name| format!("{what} {name}")));
        };
        look("phase", &self.phases, PHASES.iter().map(ToString::to_string).collect());
        look("refusal", &self.refusals, REFUSALS.iter().map(|kind| kind.as_str().to_owned()).collect());
        look("next action", &self.next_actions, NEXT_ACTIONS.map(str::to_owned).to_vec());
        look(
            "incident",
            &self.incidents,
            IncidentKind::ALL.iter().map(|it| it.as_str().to_owned()).collect(),
        );
        look("mark", &self.marks, MARKS.map(str::to_owned).to_vec());
        missing.retain(|name| UNREACHABLE.iter().all(|(unreachable, _)| unreachable != name));
        missing
    }
}
