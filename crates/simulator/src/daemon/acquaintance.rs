//! Which sessions have to do with a component, connected or not, and what its new generation means to them.

use super::context::Context;
use crate::story::ComponentPlan;
use tidegate_checkpoints::{Checkpoint, Draft, renewed};
use tidegate_core::{ComponentName, Generation, NextAction, SessionId};

impl ComponentPlan {
    /// What sessions are to do when the server's process is another one.
    pub(super) fn reset(&self) -> Option<NextAction> {
        self.in_process.then(|| NextAction::StateReset { component: self.name.clone() })
    }
}

impl Context {
    /// Records that a session has to do with a component from now on.
    pub(super) async fn acquaint(&self, session: &SessionId, component: &ComponentName) {
        let known =
            self.grumble("a session could not be read", self.checkpoints.get(session).await).flatten();
        if known.is_some_and(|c| c.generations.contains_key(component)) {
            return;
        }
        let record = self.components.get(component).await;
        let Some(record) = self.grumble("a component could not be read", record) else { return };
        let mut draft = Draft::new(session.clone());
        draft.generations.insert(component.clone(), record.generation);
        let recorded = self.checkpoints.checkpoint(&[draft]).await;
        self.grumble("a session's component could not be recorded", recorded);
    }

    /// The sessions that have to do with any of these components.
    pub(super) async fn acquainted(&self, scope: &[ComponentName]) -> Vec<Checkpoint> {
        let sessions = self.grumble("the sessions can't be read", self.checkpoints.list().await);
        sessions.unwrap_or_default().into_iter().filter(|it| it.has_to_do_with(scope)).collect()
    }

    /// A new generation serves that no operation has started: sessions that knew an older one have lost what it kept.
    pub(super) async fn renewed(&self, plan: &ComponentPlan, generation: Generation) {
        let Some(reset) = plan.reset() else { return };
        let sessions = self.acquainted(std::slice::from_ref(&plan.name)).await;
        let drafts = renewed(sessions, &plan.name, generation, &reset);
        if !drafts.is_empty() {
            let told = self.checkpoints.checkpoint(&drafts).await;
            self.grumble("sessions could not be told what they lost", told);
        }
    }
}
