//! Which sessions have to do with a component, connected or not, and what its new generation means to them.

use super::context::Context;
use crate::story::ComponentPlan;
use tidegate_checkpoints::{Checkpoint, Draft};
use tidegate_core::{ComponentName, Generation, NextAction, SessionId};

impl ComponentPlan {
    /// What sessions are to do when the server's process is another one.
    pub(super) fn reset(&self) -> Option<NextAction> {
        self.in_process.then(|| NextAction::StateReset { component: self.name.clone() })
    }
}

/// Whether the session has yet to look what became of a call.
pub(super) fn has_to_verify(checkpoint: &Checkpoint) -> bool {
    checkpoint.pending.iter().any(|p| matches!(p.action, NextAction::VerifyThenRetry { answer: None, .. }))
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
        let concerned =
            |c: &Checkpoint| c.ended.is_none() && scope.iter().any(|name| c.generations.contains_key(name));
        sessions.unwrap_or_default().into_iter().filter(concerned).collect()
    }

    /// A new generation serves that no operation has started: sessions that knew an older one have lost what it kept.
    pub(super) async fn renewed(&self, plan: &ComponentPlan, generation: Generation) {
        let Some(reset) = plan.reset() else { return };
        let sessions = self.acquainted(std::slice::from_ref(&plan.name)).await;
        let older = |c: &Checkpoint| c.generations.get(&plan.name).is_some_and(|known| *known < generation);
        let drafts: Vec<Draft> = sessions
            .into_iter()
            .filter(older)
            .map(|c| {
                let knew = c.generations.get(&plan.name).copied().unwrap_or_default();
                let mut draft = Draft::new(c.session);
                draft.generations.insert(plan.name.clone(), generation);
                // Who came before the first start has lost nothing.
                draft.actions.add.extend((knew > Generation::default()).then(|| reset.clone()));
                draft
            })
            .collect();
        if !drafts.is_empty() {
            let told = self.checkpoints.checkpoint(&drafts).await;
            self.grumble("sessions could not be told what they lost", told);
        }
    }
}
