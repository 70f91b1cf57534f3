//! Restart operations: request, approval, drain, checkpoint, stop, start, verify, resume.

mod actuator;
mod authority;
mod caller;
mod component;
mod components;
mod compose;
mod drive;
mod error;
mod governor;
mod incident;
mod join;
mod json;
mod launch;
mod lock;
mod operation;
mod phase;
mod policy;
mod request;
mod ruling;
mod stamp;
mod step;
mod supervision;

pub use actuator::{
    Actuator, CloseError, RecordIdentity, Resumed, StartError, StopError, Verified, VerifyError,
};
pub use authority::{approvals_needed, may_approve, may_cancel, may_deny};
pub use caller::{Caller, CallerKind};
pub use component::{
    Component, ComponentError, ComponentState, component_scope, decide_begin_generation, decide_clear_unsafe,
    decide_mark_unsafe, decide_record_identity, decide_state, decide_stopped,
};
pub use components::Components;
pub use compose::{decide_step, step_scope};
pub use drive::MAX_SAID_BYTES;
pub use error::{GovernorError, RETRY_AFTER_MS};
pub use governor::{Governor, Parts, list_operations};
pub use json::{DOCUMENT_VERSION, holder_json, operation_document, operations_document};
pub use launch::{AskDigest, LaunchIdentity, Launches};
pub use operation::{
    Approval, Drain, Generations, Intent, MAX_HOLDERS, MAX_REASON_BYTES, MAX_SCOPE, Operation,
};
pub use phase::Phase;
pub use policy::{Policy, PolicyError, PolicyWarning};
pub use request::{Ask, MAX_ENDED, MAX_REQUESTED, decide_request, request_scope};
pub use ruling::{
    Approved, Counted, decide_approve, decide_cancel, decide_deny, decide_expire, find, ruling_scope,
};
pub use stamp::Stamp;
pub use step::{Effect, Event, MAX_STARTS, effect_of};
pub use supervision::{
    FAILURES_BEFORE_PROBING, FIRST_DELAY_MS, HEALTHY_AFTER_MS, MAX_DELAY_MS, Next, PROBE_EVERY_MS,
    Supervision, decide_crash_restart,
};
