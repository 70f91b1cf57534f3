//! The canonical work state of an incident, for people and models.

use crate::Incident;

/// Four lines: `STATE`, `WHO_IS_NEXT`, `NEXT_ACTION`, `NEXT_PROMPT`.
#[must_use]
pub fn render_work_state(incident: &Incident) -> String {
    let flapping = if incident.flapping { ", flapping" } else { "" };
    format!(
        "STATE: {}{flapping} ({}, count {})\nWHO_IS_NEXT: {}\nNEXT_ACTION: {}\nNEXT_PROMPT: {}\n",
        incident.state,
        incident.kind,
        incident.count,
        incident.who_is_next,
        incident.next_action.kind(),
        incident.next_prompt.replace('\n', " "),
    )
}
