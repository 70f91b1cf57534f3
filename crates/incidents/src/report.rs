//! A report of something that went wrong, and what may be stored of it: redacted first, bounded then.

use crate::redact::{redact, redact_field};
use crate::{IncidentKind, Severity, WhoIsNext};
use std::collections::BTreeMap;
use tidegate_core::{ComponentName, IncidentId, NextAction, OperationId, SessionId};

/// The longest dedup key, in bytes. With its prefix and kind it has to make a store key.
pub const MAX_DEDUP_BYTES: usize = 512;

/// The longest title or note, in bytes: one line.
pub const MAX_TITLE_BYTES: usize = 240;

/// The longest prompt, in bytes: something a model reads whole.
pub const MAX_PROMPT_BYTES: usize = 2_000;

/// The most pieces of evidence of one incident.
pub const MAX_EVIDENCE: usize = 32;

/// The longest name of a piece of evidence, in bytes.
pub const MAX_EVIDENCE_NAME_BYTES: usize = 64;

/// The longest piece of evidence, in bytes: the last lines of a server's stderr.
pub const MAX_EVIDENCE_BYTES: usize = 4 * 1024;

/// How much of a text is looked at at all. Far more than is ever kept, and little enough to be looked at at once.
pub const MAX_INPUT_BYTES: usize = 64 * 1024;

/// What somebody saw. Nothing in it need be clean: it is redacted and bounded before it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What happened.
    pub kind: IncidentKind,
    /// What makes two reports of this kind the same incident: a component, an operation, a lease.
    pub dedup: String,
    /// How bad it is.
    pub severity: Severity,
    /// One line that says it.
    pub title: String,
    /// The component it is about.
    pub scope: Option<ComponentName>,
    /// The restart operation it is about.
    pub operation: Option<OperationId>,
    /// The session it happened to.
    pub session: Option<SessionId>,
    /// What was seen.
    pub evidence: BTreeMap<String, String>,
    /// Whose turn it is.
    pub who_is_next: WhoIsNext,
    /// What they are to do. `ContactOperator` without an incident gets the id of this one.
    pub next_action: NextAction,
    /// The same in words, where the action's own are not enough.
    pub next_prompt: Option<String>,
}

impl Report {
    /// A report with an operator next, and nothing else said yet.
    #[must_use]
    pub fn new(
        kind: IncidentKind,
        dedup: impl Into<String>,
        severity: Severity,
        title: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            dedup: dedup.into(),
            severity,
            title: title.into(),
            scope: None,
            operation: None,
            session: None,
            evidence: BTreeMap::new(),
            who_is_next: WhoIsNext::Operator,
            next_action: NextAction::ContactOperator { incident: None },
            next_prompt: None,
        }
    }

    /// Adds a piece of evidence.
    #[must_use]
    pub fn evidence(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.evidence.insert(name.into(), value.into());
        self
    }

    /// What may be stored of it.
    pub(crate) fn clean(&self) -> Self {
        let evidence = self.evidence.iter().take(MAX_EVIDENCE).map(|(name, value)| {
            let value = redact_field(name, head(value));
            (line(name, MAX_EVIDENCE_NAME_BYTES), cut(&value, MAX_EVIDENCE_BYTES))
        });
        Self {
            kind: self.kind,
            dedup: line(&self.dedup, MAX_DEDUP_BYTES),
            severity: self.severity,
            title: line(&self.title, MAX_TITLE_BYTES),
            scope: self.scope.clone(),
            operation: self.operation.clone(),
            session: self.session.clone(),
            evidence: evidence.collect(),
            who_is_next: self.who_is_next,
            next_action: self.next_action.clone(),
            next_prompt: self.next_prompt.as_deref().map(|p| cut(&redact(head(p)), MAX_PROMPT_BYTES)),
        }
    }

    /// What the one who is next is to do, once the incident has an id.
    pub(crate) fn action_for(&self, id: &IncidentId) -> NextAction {
        match &self.next_action {
            NextAction::ContactOperator { incident: None } => {
                NextAction::ContactOperator { incident: Some(id.clone()) }
            }
            action => action.clone(),
        }
    }
}

/// One redacted line of at most `limit` bytes.
pub(crate) fn line(text: &str, limit: usize) -> String {
    let text = redact(head(text)).replace(char::is_control, " ");
    cut(&text, limit)
}

fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_INPUT_BYTES)]
}

/// `text`, or as much of its beginning as fits into `limit` bytes together with a mark that something is missing.
fn cut(text: &str, limit: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}
