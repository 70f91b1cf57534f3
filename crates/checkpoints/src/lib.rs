//! Durable session records: what a session was told, and its one next action when it comes back.

mod attach;
mod bounds;
mod change;
mod draft;
mod error;
mod fact;
mod name;
mod pending;
mod record;
mod resume;
mod shell;

pub use attach::{
    Attach, Attached, MAX_ENDED, MAX_SESSIONS, MAX_STEALS, MAX_STREAMS, clients, decide_attach, decide_detach,
    decide_end,
};
pub use draft::{Actions, Draft, MAX_CALLS, MAX_TOOL_BYTES, decide_actions, decide_checkpoint};
pub use error::CheckpointError;
pub use fact::{
    Fact, MAX_FACT_BYTES, MAX_LEASES, MAX_LOG_LEVELS, MAX_NOTE_BYTES, MAX_NOTES, MAX_SUBSCRIPTIONS,
    decide_facts,
};
pub use name::{Known, MAX_SUFFIX, NameRefusal, Resolution, Wanted, may_resume, resolve_name};
pub use pending::{Clear, Leaves, MAX_PENDING, MAX_TOOL_NAMES, PendingAction, next_action, precedence};
pub use record::{
    CallFact, CallState, Checkpoint, Ended, Note, PREFIX, Steal, StreamFact, Subscription, key, prefix_of,
    scope, scope_of_principal,
};
pub use resume::{RESUME_VERSION, Resume};
pub use shell::{Checkpoints, get, list, resume};
pub use tidegate_core::NextAction;
