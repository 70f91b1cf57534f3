//! Durable incidents: deduplicated, redacted, acknowledged and resolved, each with its next action.
//!
//! An [`Incident`] is something that a person or an agent must look at. It is `open`, then `acknowledged`, then
//! `resolved`; what recurs after that is the same incident again, `open`, with its history. Two [`Report`]s of one
//! [`IncidentKind`] and one dedup key are one incident because both contend for one record, not because anybody
//! searched. What fails and recovers all the time is kept open and says that it is flapping. Secrets and home paths
//! are taken out ([`redact()`]) before anything is stored. With an incident an [`Outbox`] record is written, for whoever
//! delivers it to a tracker; delivering is not done here.
//!
//! Every rule is a `decide_…` function on a [`View`](tidegate_store::View) and a time; their writes can be joined with
//! those of other crates into one commit. [`Incidents`] is the shell that runs them on a store.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_host::{OsEntropy, SystemClock};
//! use tidegate_incidents::{Incidents, IncidentKind, Report, Severity, render_work_state};
//! use tidegate_store::MemoryStore;
//!
//! # pollster::block_on(async {
//! let incidents = Incidents::new(Arc::new(MemoryStore::new()), Arc::new(SystemClock::new()?), Arc::new(OsEntropy));
//! let report = Report::new(IncidentKind::ComponentCrashed, "files", Severity::Warning, "files ended with status 1")
//!     .evidence("stderr", "no access to /home/alice/data with token=abc");
//!
//! let first = incidents.report(&report).await?;
//! let second = incidents.report(&report).await?;
//! assert_eq!((second.id, second.count), (first.id.clone(), 2));
//!
//! let incident = incidents.get(&first.id).await?;
//! assert_eq!(incident.evidence["stderr"], "no access to ~/data with token=[redacted]");
//! assert!(render_work_state(&incident).starts_with("STATE: open"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod decide;
mod error;
mod kind;
mod record;
mod redact;
mod render;
mod report;
mod secret;
mod shell;

pub use decide::{
    FLAP_QUIET, FLAP_REOPENINGS, FLAP_WINDOW, MAX_HISTORY, MAX_INCIDENTS, MAX_RECENT_REPORTS, Outcome,
    Reported, decide_acknowledge, decide_recovered, decide_report, decide_resolve, decide_settle, find,
};
pub use error::IncidentError;
pub use kind::{IncidentKind, IncidentState, Severity, WhoIsNext};
pub use record::{
    Actor, HistoryEntry, Incident, KEY_PREFIX, OUTBOX_PREFIX, Outbox, PREFIX, Step, key, outbox_key, scope,
};
pub use redact::{redact, redact_field};
pub use render::render_work_state;
pub use report::{
    MAX_DEDUP_BYTES, MAX_EVIDENCE, MAX_EVIDENCE_BYTES, MAX_EVIDENCE_NAME_BYTES, MAX_INPUT_BYTES,
    MAX_PROMPT_BYTES, MAX_TITLE_BYTES, Report,
};
pub use shell::{Incidents, fresh_id, list};

/// For a program without an async runtime: runs one of this crate's futures to its end.
pub use pollster::block_on;
/// The crates whose types a caller of this one needs, so that it's the only one to add.
#[doc(no_inline)]
pub use {tidegate_core as core, tidegate_host as host, tidegate_store as store};
