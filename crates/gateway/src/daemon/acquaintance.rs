//! Which sessions have to do with a component, connected or not, and what its new generation means to them.
//!
//! A session's checkpoint names the generation of every component that it has ever been connected to. Whoever is named
//! there is in the scope of a restart, and loses what the server kept in its process.

use super::context::{Context, grumble};
use super::seat::Seat;
use crate::config::{ComponentConfig, ServerState};
use serde_json::json;
use std::collections::BTreeSet;
use tidegate_checkpoints::{Checkpoint, Draft, renewed};
use tidegate_core::{ComponentName, Generation, NextAction, SessionId};

/// Sessions of one commit: as many records as others don't have to wait for.
const BATCH: usize = 64;

impl ComponentConfig {
    /// What sessions are to do when the server's process is another one.
    pub(super) fn reset(&self) -> Option<NextAction> {
        let component = self.name.clone();
        (self.state == ServerState::InProcess).then_some(NextAction::StateReset { component })
    }
}

impl Context {
    /// What the sessions of a component are to do when its process is another one.
    pub(super) fn reset(&self, component: &ComponentName) -> Option<NextAction> {
        self.settings.get(component)?.reset()
    }

    /// Records that a session has to do with a component from now on.
    pub(super) async fn acquaint(&self, session: &SessionId, seat: &Seat) {
        let component = &seat.component;
        let known = grumble("a session could not be read", self.checkpoints.get(session).await).flatten();
        if known.is_some_and(|c| c.generations.contains_key(component)) {
            return;
        }
        let record = self.components.get(&seat.record).await;
        let Some(record) = grumble("a component could not be read", record) else { return };
        let mut draft = Draft::new(session.clone());
        draft.generations.insert(component.clone(), record.generation);
        grumble("a session's component could not be recorded", self.checkpoints.checkpoint(&[draft]).await);
    }

    /// The sessions that have not ended and have to do with any of these components.
    pub(super) async fn acquainted(&self, scope: &[ComponentName]) -> Vec<Checkpoint> {
        let sessions = grumble("the sessions can't be read", self.checkpoints.list().await);
        sessions.unwrap_or_default().into_iter().filter(|it| it.has_to_do_with(scope)).collect()
    }

    /// A new generation serves that no operation has started: sessions that knew an older one have lost what it kept.
    /// Answers who they are. Who came before the first start has lost nothing.
    pub(super) async fn renewed(
        &self,
        seat: &Seat,
        config: &ComponentConfig,
        generation: Generation,
    ) -> BTreeSet<SessionId> {
        let Some(reset) = config.reset() else { return BTreeSet::new() };
        let mut sessions = self.acquainted(std::slice::from_ref(&config.name)).await;
        sessions.retain(|it| seat.session.as_ref().is_none_or(|session| *session == it.session));
        let drafts = renewed(sessions, &config.name, generation, &reset);
        for batch in drafts.chunks(BATCH) {
            grumble("sessions could not be told what they lost", self.checkpoints.checkpoint(batch).await);
        }
        let losers = drafts.into_iter().filter(|draft| !draft.actions.add.is_empty());
        losers.map(|draft| draft.session).collect()
    }
}

/// The notification that tells a connected session so, in the protocol's own way and never inside a result.
pub(super) fn reset_note(reset: &NextAction) -> Vec<u8> {
    let note = json!({
        "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "warning", "logger": "tidegate", "data": reset.prompt() },
    });
    note.to_string().into_bytes()
}
