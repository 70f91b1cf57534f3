//! What is admitted, and how it is named while it is in flight. Never decides anything.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, SessionId, WorkClass};

/// One piece of work, as whoever asks for admission describes it.
///
/// Shared (`Arc<WorkInfo>`) between the caller and the gate, so that admission copies a pointer and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkInfo {
    /// Who asked.
    pub session: SessionId,
    /// Which server it goes to.
    pub component: ComponentName,
    /// The tool, or the method where it isn't a tool call.
    pub tool: Arc<str>,
    /// What may be done with it when its outcome is unknown.
    pub class: WorkClass,
}

/// Admitted work that hasn't ended: what a drain waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Who asked.
    pub session: SessionId,
    /// Which server it went to.
    pub component: ComponentName,
    /// The tool, or the method.
    pub tool: Arc<str>,
    /// Its class.
    pub class: WorkClass,
    /// Time since it was admitted, in milliseconds.
    pub age_ms: u64,
    /// Nobody waits for its answer any more, and it may still be executing.
    pub detached: bool,
    /// Whoever ran it dropped its permit without saying how it ended.
    #[serde(default)]
    pub abandoned: bool,
}

impl Holder {
    /// Whether a restart must not happen while this holder is there: it may be changing something.
    #[must_use]
    pub fn blocks(&self) -> bool {
        if is_planted("detached-work-does-not-hold") {
            return self.class.is_unsafe() && !self.detached;
        }
        self.class.is_unsafe() || self.detached
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { session, component, tool, class, age_ms, .. } = self;
        write!(f, "{session} {component}/{tool} {class} {}.{:03}s", age_ms / 1_000, age_ms % 1_000)?;
        if self.detached {
            f.write_str(" detached")?;
        }
        if self.abandoned {
            f.write_str(" abandoned")?;
        }
        Ok(())
    }
}
