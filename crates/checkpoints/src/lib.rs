//! Durable session records: what a session was told, and its one next action when it comes back.
//!
//! A [`Checkpoint`] is a listed, bounded, versioned set of facts about one session: its connections, the generations it
//! knows, calls that weren't settled, leases, subscriptions, log levels, notes, and the actions it has yet to take. What
//! an operation here has acknowledged is synced, and [`resume`](fn@resume) needs nothing but the store. Never in it: the
//! server's own state, and anything that has to be made up from a conversation.
//!
//! # The next action
//!
//! A session gets exactly one, [`next_action`]: the first of its pending actions by [`precedence`], then by age. An action
//! about the same thing is queued once. News (an unknown outcome, a reset, changed tools) leaves the queue when the
//! session *has been told*: [`Checkpoints::resume`] only reads, and whoever handed its answer to the session then says
//! so with [`Checkpoints::told`]. A crash between the two tells it twice rather than never. A condition (a restart under
//! way, an approval that is missing, an open incident) stays until whoever ends it clears it ([`Leaves`], [`Clear`]).
//!
//! # Names
//!
//! [`resolve_name`] says which session a client gets: the same name after the client is dead is the same session; while
//! it lives a second client becomes `NAME.2`, with a notice, or steals the name, on record.
//!
//! Every rule is a `decide_…` function on a [`View`](tidegate_store::View) and a time; their writes can be joined with
//! those of other crates into one commit. [`Checkpoints`] is the shell that runs them on a store.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_checkpoints::{Attach, CallFact, CallState, Checkpoints, Draft, NextAction, Wanted};
//! use tidegate_core::WorkClass;
//! use tidegate_host::{OsEntropy, ProcProbe, SystemClock, parent_identity};
//! use tidegate_store::MemoryStore;
//!
//! # pollster::block_on(async {
//! let store = Arc::new(MemoryStore::new());
//! let sessions =
//!     Checkpoints::new(store.clone(), Arc::new(SystemClock::new()?), Arc::new(OsEntropy), Arc::new(ProcProbe::new()?));
//! let wanted = Wanted::own("local".parse()?, Some("refactoring".parse()?), Some(parent_identity("")?));
//! let attached = sessions.attach(&Attach::new(wanted, "stream-1", Some("files".parse()?))).await?;
//! sessions.note(&attached.session, "half of src/ is renamed").await?;
//!
//! // A drain ends, and the server was killed under a call.
//! let mut draft = Draft::new(attached.session.clone());
//! draft.calls.push(CallFact {
//!     id: "7".into(),
//!     component: "files".parse()?,
//!     tool: "write_file".into(),
//!     class: WorkClass::Mutating,
//!     state: CallState::Unknown,
//! });
//! sessions.checkpoint(&[draft]).await?;
//!
//! // Later, another process, with the store alone:
//! let resume = tidegate_checkpoints::resume(&*store, &attached.session).await?;
//! assert_eq!(resume.facts.notes[0].text, "half of src/ is renamed");
//! assert!(matches!(resume.next_action, NextAction::VerifyThenRetry { .. }));
//!
//! sessions.told(&resume).await?;
//! assert_eq!(sessions.resume(&attached.session).await?.next_action, NextAction::Continue);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

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
mod survey;

pub use attach::{
    Attach, Attached, MAX_ENDED, MAX_SESSIONS, MAX_STEALS, MAX_STREAMS, clients, decide_attach,
    decide_detach, decide_end,
};
pub use draft::{
    Actions, Draft, MAX_CALLS, MAX_TOOL_BYTES, decide_actions, decide_answered_late, decide_checkpoint,
};
pub use error::CheckpointError;
pub use fact::{
    Fact, MAX_FACT_BYTES, MAX_LEASES, MAX_LOG_LEVELS, MAX_NOTE_BYTES, MAX_NOTES, MAX_SUBSCRIPTIONS,
    decide_facts,
};
pub use name::{Known, MAX_SUFFIX, NameRefusal, Resolution, Wanted, may_resume, resolve_name};
pub use pending::{Clear, Leaves, MAX_PENDING, MAX_TOOL_NAMES, PendingAction, next_action, precedence};
pub use record::{
    CallFact, Checkpoint, Ended, Note, PREFIX, Steal, StreamFact, Subscription, key, prefix_of, scope,
    scope_of_principal,
};
pub use resume::{RESUME_VERSION, Resume};
pub use shell::{Checkpoints, get, list, resume};
pub use survey::{Served, renewed, survey};
pub use tidegate_core::{CallState, NextAction};

/// For a program without an async runtime: runs one of this crate's futures to its end.
pub use pollster::block_on;
/// The crates whose types a caller of this one needs, so that it's the only one to add.
#[doc(no_inline)]
pub use {tidegate_core as core, tidegate_host as host, tidegate_store as store};
