//! Restart operations: request, approval, drain, checkpoint, stop, start, verify, resume.
//!
//! A restart is an [`Operation`]: somebody asks, somebody else approves exactly that, and then it is carried out in
//! phases, each durable before it is acted on. Killed at any instant, the operation is found in the store by the next
//! process and completed or undone, never both and never neither. This is the one crate that composes leases, drains,
//! checkpoints and incidents: what a step writes of each is one commit.
//!
//! - Who may do what: [`Caller`], [`Policy`], [`may_approve`], [`may_deny`], [`may_cancel`].
//! - The decisions, on plain data: [`decide_request`], [`decide_approve`], [`decide_deny`], [`decide_cancel`],
//!   [`decide_expire`], [`decide_step`]; what the durable operation asks for next: [`effect_of`].
//! - The shell: [`Governor`]. The hands that it moves are an [`Actuator`]: a gateway's, or a simulator's.
//! - The component's record, by which two servers never run side by side: [`Component`], [`Components`].
//! - Restarts of servers that ended by themselves: [`Supervision`].
//!
//! `examples/restart.rs` is a whole restart with a server that exists in memory only.
//!
//! ```
//! use tidegate_governor::{AskDigest, LaunchIdentity, Launches};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An approval is for exactly this: what is started, as what, and why.
//! let mut launches = Launches::new();
//! launches.insert("files".parse()?, LaunchIdentity {
//!     command: "files-server".into(),
//!     args: vec!["/srv".into()],
//!     cwd: None,
//!     env: Default::default(),
//!     executable: "/usr/local/bin/files-server".into(),
//!     executable_sha256: "9f86d081".into(),
//!     settings: String::new(),
//! });
//! let approved = AskDigest::of(&launches, "its cache is stale");
//!
//! // The file was replaced after the approval: that approval is void.
//! for launch in launches.values_mut() {
//!     launch.executable_sha256 = "60303ae2".into();
//! }
//! assert_ne!(AskDigest::of(&launches, "its cache is stale"), approved);
//! # Ok(())
//! # }
//! ```

mod actuator;
mod authority;
mod caller;
mod change;
mod component;
mod components;
mod compose;
mod drive;
mod effect;
mod error;
mod governor;
mod heritage;
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
mod upkeep;

pub use actuator::{
    Actuator, CloseError, RecordIdentity, Resumed, StartError, StopError, Verified, VerifyError,
};
pub use authority::{approvals_needed, may_approve, may_cancel, may_deny};
pub use caller::{Caller, CallerKind};
pub use change::{Change, Changes, Replacement, Upgrade};
pub use component::{
    Component, ComponentError, ComponentState, component_scope, decide_begin_generation, decide_belongs,
    decide_clear_unsafe, decide_forget, decide_mark_unsafe, decide_per_session, decide_record_identity,
    decide_state, decide_stopped,
};
pub use components::Components;
pub use compose::{decide_step, step_scope};
pub use drive::MAX_SAID_BYTES;
pub use effect::{Effect, Event, effect_of};
pub use error::{GovernorError, RETRY_AFTER_MS};
pub use governor::{Governor, Parts, list_operations};
pub use heritage::{OldServer, settle_old_server};
pub use incident::of_orphan;
pub use json::holder_json;
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
pub use step::MAX_STARTS;
pub use supervision::{
    FAILURES_BEFORE_PROBING, FIRST_DELAY_MS, HEALTHY_AFTER_MS, MAX_DELAY_MS, Next, PROBE_EVERY_MS,
    Supervision, decide_crash_restart,
};
pub use upkeep::Upkeep;
