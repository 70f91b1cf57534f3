//! Durable incidents: deduplicated, redacted, acknowledged and resolved, each with its next action.

mod decide;
mod error;
mod kind;
mod record;
mod redact;
mod render;
mod report;
mod shell;

pub use decide::{
    FLAP_QUIET, FLAP_REOPENINGS, FLAP_WINDOW, MAX_HISTORY, MAX_INCIDENTS, MAX_RECENT_REPORTS, Outcome, Reported,
    decide_acknowledge, decide_recovered, decide_report, decide_resolve, decide_settle,
};
pub use error::IncidentError;
pub use kind::{IncidentKind, IncidentState, Severity, WhoIsNext};
pub use record::{
    Actor, HistoryEntry, Incident, KEY_PREFIX, OUTBOX_PREFIX, Outbox, PREFIX, Step, key, outbox_key, scope,
};
pub use redact::{redact, redact_field};
pub use render::render_work_state;
pub use report::{
    MAX_DEDUP_BYTES, MAX_EVIDENCE, MAX_EVIDENCE_BYTES, MAX_EVIDENCE_NAME_BYTES, MAX_INPUT_BYTES, MAX_PROMPT_BYTES,
    MAX_TITLE_BYTES, Report,
};
pub use shell::{Incidents, fresh_id, list};
