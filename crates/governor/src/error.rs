//! Why the governor said no, or could not answer. Each says what to do next, in words and as a next action.

use crate::Phase;
use tidegate_core::{ComponentName, DrainId, NextAction, OperationId, PrincipalName};
use tidegate_store::{ReadError, StoreError};

/// How long a caller waits before it asks again about a component that another operation owns: a restart in which
/// nothing goes wrong takes a few seconds.
pub const RETRY_AFTER_MS: u64 = 5_000;

/// A request, an approval or a step that was refused or could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GovernorError {
    /// No component was named.
    #[error("name at least one component to restart")]
    NoComponent,
    /// Too many were.
    #[error("one operation restarts at most {limit} components, not {given}; split it")]
    TooManyComponents {
        /// How many were named.
        given: usize,
        /// The bound.
        limit: usize,
    },
    /// There is no such component.
    #[error("there is no component {component}; `tidegate status` lists them")]
    UnknownComponent {
        /// What was named.
        component: ComponentName,
    },
    /// The reason is missing or too long.
    #[error(
        "a restart needs a reason, for whoever approves it: at most {limit} bytes, and not only spaces; this one has {bytes} bytes"
    )]
    Reason {
        /// Its length.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// Cutting unsafe calls is part of breaking the glass.
    #[error("--abandon-unsafe cuts calls that may be changing something; it goes with --break-glass only")]
    AbandonNeedsBreakGlass,
    /// There is no such operation.
    #[error("there is no operation {operation}; `tidegate restart list` lists them")]
    UnknownOperation {
        /// What was named.
        operation: OperationId,
    },
    /// The id has been used for something else.
    #[error("operation {operation} was asked for with another {what}; use a new id for a new request")]
    OtherContent {
        /// The id.
        operation: OperationId,
        /// What differs.
        what: &'static str,
    },
    /// Too many requests wait.
    #[error(
        "{limit} requests are waiting for approval already; approve, deny or cancel some (`tidegate restart list`)"
    )]
    TooManyRequests {
        /// The bound.
        limit: usize,
    },
    /// Nobody could ever approve it.
    #[error(
        "the policy asks for {needed} approval(s) of a request by {requester} and only {possible} other principal(s) could give one; an operator has to change [policy] or request the restart"
    )]
    NotEnoughApprovers {
        /// Who asked.
        requester: PrincipalName,
        /// How many it would need.
        needed: u32,
        /// How many there can be.
        possible: usize,
    },
    /// The glass is for operators.
    #[error(
        "only an operator may break the glass, and {principal} is none; give an operator's token, or request the restart without --break-glass"
    )]
    BreakGlass {
        /// Who tried.
        principal: PrincipalName,
    },
    /// A signal can only end the daemon, and only a signal does.
    #[error("only a signal ends the daemon, and ends it only as a whole; request a restart instead")]
    NotASignal,
    /// Somebody without a credential tried to approve or deny.
    #[error(
        "to {verb} operation {operation} takes a credential, and none was given: every caller without one is the principal `local`, whatever its session is called; give a token of an approver"
    )]
    NoCredential {
        /// The operation.
        operation: OperationId,
        /// What was tried.
        verb: &'static str,
    },
    /// A principal that the policy doesn't list.
    #[error(
        "{principal} may not {verb} operation {operation}: policy.approvers doesn't list it; an approver has to"
    )]
    NotAnApprover {
        /// The operation.
        operation: OperationId,
        /// Who tried.
        principal: PrincipalName,
        /// What was tried.
        verb: &'static str,
    },
    /// The requester approves, from whatever connection.
    #[error("{principal} asked for operation {operation} and can't approve it: somebody else has to")]
    OwnRequest {
        /// The operation.
        operation: OperationId,
        /// Who tried.
        principal: PrincipalName,
    },
    /// Neither the requester nor an operator.
    #[error(
        "{principal} may not cancel operation {operation}: only {requester}, who asked for it, or an operator may"
    )]
    NotYours {
        /// The operation.
        operation: OperationId,
        /// Who tried.
        principal: PrincipalName,
        /// Who could.
        requester: PrincipalName,
    },
    /// What would be started is not what was asked for.
    #[error(
        "what operation {operation} asked for has changed since ({what}), so its approvals are void; request the restart again"
    )]
    Changed {
        /// The operation.
        operation: OperationId,
        /// What has.
        what: String,
    },
    /// It waited too long.
    #[error("operation {operation} has expired; request the restart again")]
    Expired {
        /// The operation.
        operation: OperationId,
    },
    /// It doesn't wait for approvals any more.
    #[error("operation {operation} is {phase}: there is nothing left to {verb}")]
    NotWaiting {
        /// The operation.
        operation: OperationId,
        /// Where it is.
        phase: Phase,
        /// What was tried.
        verb: &'static str,
    },
    /// Servers are being stopped already.
    #[error(
        "operation {operation} is {phase}: servers are being stopped or started already, so it can only be carried forward"
    )]
    TooLate {
        /// The operation.
        operation: OperationId,
        /// Where it is.
        phase: Phase,
    },
    /// Another operation owns a component.
    #[error(
        "{component} belongs to operation {by} until that one has ended; wait for it (`tidegate restart wait {by}`), then try again"
    )]
    Overlap {
        /// The component.
        component: ComponentName,
        /// The one that was first.
        by: OperationId,
    },
    /// A component drains for somebody else, outside of any operation.
    #[error("the drain {drain} of {by} holds a gate closed")]
    Draining {
        /// That drain.
        drain: DrainId,
        /// Whose it is.
        by: PrincipalName,
    },
    /// A gate that has to be closed is held by another drain; nothing is carried on behind an open gate.
    #[error(transparent)]
    Gate(#[from] crate::CloseError),
    /// It is being carried out by another task of this process.
    #[error("operation {operation} is being carried out already")]
    AlreadyDriven {
        /// The operation.
        operation: OperationId,
    },
    /// Somebody else has moved the operation on.
    #[error("operation {operation} was taken over by another governor, which carries it on")]
    Superseded {
        /// The operation.
        operation: OperationId,
    },
    /// The store failed. What the operation had reached is durable; `recover` carries on from there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A lease could not be settled.
    #[error(transparent)]
    Leases(#[from] tidegate_leases::LeaseError),
    /// A drain's record could not be written.
    #[error(transparent)]
    Drain(#[from] tidegate_drain::DrainError),
    /// A checkpoint could not be written.
    #[error(transparent)]
    Checkpoints(#[from] tidegate_checkpoints::CheckpointError),
    /// An incident could not be reported.
    #[error(transparent)]
    Incidents(#[from] tidegate_incidents::IncidentError),
}

impl From<ReadError> for GovernorError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

impl GovernorError {
    /// Whether the answer is no: a rule said so. Otherwise the question was wrong, or could not be answered.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !matches!(
            self,
            Self::NoComponent
                | Self::TooManyComponents { .. }
                | Self::UnknownComponent { .. }
                | Self::Reason { .. }
                | Self::UnknownOperation { .. }
                | Self::Store(_)
                | Self::Gate(_)
                | Self::Leases(_)
                | Self::Drain(_)
                | Self::Checkpoints(_)
                | Self::Incidents(_)
        )
    }

    /// The operation it is about.
    #[must_use]
    pub fn operation(&self) -> Option<&OperationId> {
        match self {
            Self::UnknownOperation { operation }
            | Self::OtherContent { operation, .. }
            | Self::NoCredential { operation, .. }
            | Self::NotAnApprover { operation, .. }
            | Self::OwnRequest { operation, .. }
            | Self::NotYours { operation, .. }
            | Self::Changed { operation, .. }
            | Self::Expired { operation }
            | Self::NotWaiting { operation, .. }
            | Self::TooLate { operation, .. }
            | Self::AlreadyDriven { operation }
            | Self::Superseded { operation }
            | Self::Overlap { by: operation, .. } => Some(operation),
            _ => None,
        }
    }

    /// The component it is about.
    #[must_use]
    pub fn component(&self) -> Option<&ComponentName> {
        match self {
            Self::UnknownComponent { component } | Self::Overlap { component, .. } => Some(component),
            _ => None,
        }
    }

    /// What the caller does next.
    #[must_use]
    pub fn next_action(&self) -> NextAction {
        match self {
            Self::Overlap { component, by } => NextAction::WaitForRestart {
                component: component.clone(),
                operation: Some(by.clone()),
                retry_after_ms: RETRY_AFTER_MS,
            },
            Self::OwnRequest { operation, .. }
            | Self::NoCredential { operation, .. }
            | Self::NotAnApprover { operation, .. } => {
                NextAction::RequestApproval { operation: operation.clone() }
            }
            _ => NextAction::ContactOperator { incident: None },
        }
    }

    /// The object of the public contract for a refused call, of kind `restart_refused`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let waits = matches!(self, Self::Overlap { .. } | Self::TooManyRequests { .. });
        serde_json::json!({
            "kind": "restart_refused",
            "retryable": waits,
            "retry_after_ms": waits.then_some(RETRY_AFTER_MS),
            "component": self.component(),
            "generation": null,
            "operation": self.operation(),
            "reason": self.to_string(),
            "next_action": self.next_action().to_json(),
        })
    }
}
