//! Operations as the JSON of the public contract. Names here are fixed; fields may be added.

use crate::{Operation, Phase};
use serde_json::{Map, Value, json};
use tidegate_core::{NextAction, Now};
use tidegate_drain::Holder;

impl Operation {
    /// The operation's object.
    #[must_use]
    pub fn to_json(&self, now: &Now) -> Value {
        let generations: Map<String, Value> = self
            .generations
            .iter()
            .map(|(name, g)| (name.to_string(), json!({ "before": g.before, "after": g.after })))
            .collect();
        let versions: Map<String, Value> = self
            .verified
            .iter()
            .map(|(name, v)| (name.to_string(), json!({ "before": v.previous_version, "after": v.version })))
            .collect();
        let commands: Map<String, Value> = self
            .upgrade
            .changes
            .keys()
            .filter_map(|name| Some((name, self.launches.get(name)?)))
            .map(|(name, l)| (name.to_string(), json!([[l.command.clone()].as_slice(), &l.args].concat())))
            .collect();
        json!({
            "id": self.id,
            "phase": self.phase,
            "scope": self.scope,
            "reason": self.reason,
            "requested_by": self.requested_by,
            "approvals": self.approvals,
            "holders": self.holders.iter().map(holder_json).collect::<Vec<_>>(),
            "incident": self.incident,
            "generations": generations,
            "intent": self.intent,
            "session": self.session.as_ref().map(|session| &session.name),
            "requested_at": self.requested_at,
            "approvals_needed": self.approvals_needed,
            "break_glass": self.break_glass,
            "abandoned": self.abandoned.iter().map(holder_json).collect::<Vec<_>>(),
            "digest": self.digest,
            "expires_in_ms": millis(self.expires.remaining(now), self.phase == Phase::Requested),
            "drain_ends_in_ms": self.drain.as_ref().and_then(|drain| {
                millis(drain.deadline.remaining(now), self.phase == Phase::Draining)
            }),
            "failures": self.what_failed(),
            "verified": self.verified,
            "versions": versions,
            "rejected": self.upgrade.rejected,
            "commands": commands,
            "ended_at": self.ended_at,
            "note": self.note,
            "next_action": self.next_action().to_json(),
        })
    }

    /// What whoever asked for it does now.
    #[must_use]
    pub fn next_action(&self) -> NextAction {
        match (self.phase, self.scope.first()) {
            (Phase::Requested, _) => NextAction::RequestApproval { operation: self.id.clone() },
            (phase, Some(component)) if phase.is_running() => NextAction::WaitForRestart {
                component: component.clone(),
                operation: Some(self.id.clone()),
                retry_after_ms: crate::RETRY_AFTER_MS,
            },
            (Phase::Refused | Phase::RolledBack | Phase::Failed, _) => {
                NextAction::ContactOperator { incident: self.incident.clone() }
            }
            _ => NextAction::Continue,
        }
    }
}

/// A holder's object: the session's name, for the person who reads it, and its principal beside it.
#[must_use]
pub fn holder_json(holder: &Holder) -> Value {
    json!({
        "session": holder.session.name,
        "principal": holder.session.principal,
        "component": holder.component,
        "tool": holder.tool,
        "class": holder.class,
        "age_ms": holder.age_ms,
        "detached": holder.detached,
        "abandoned": holder.abandoned,
    })
}

fn millis(left: std::time::Duration, counts: bool) -> Option<u64> {
    counts.then(|| u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}
