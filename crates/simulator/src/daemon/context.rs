//! What every room of the daemon works with: the store's shells and the world it runs in.

use crate::executor::Group;
use crate::observe::Seen;
use crate::world::World;
use std::fmt::Display;
use std::sync::Arc;
use tidegate_checkpoints::{Actions, CallFact, CallState, Checkpoints, Draft};
use tidegate_core::{ComponentName, Entropy as _, IncidentId, NextAction, Now, SessionId};
use tidegate_governor::Components;
use tidegate_incidents::{IncidentKind, Incidents, Report, Severity, WhoIsNext};
use tidegate_leases::Leases;
use tidegate_relay::LostCall;
use tidegate_store::Store;

pub(super) struct Context {
    pub(super) world: Arc<World>,
    /// The processes that die with this daemon.
    pub(super) group: Group,
    pub(super) store: Arc<dyn Store>,
    pub(super) components: Components,
    pub(super) checkpoints: Checkpoints,
    pub(super) incidents: Incidents,
    pub(super) leases: Leases,
}

impl Context {
    pub(super) fn now(&self) -> Now {
        self.world.now()
    }

    pub(super) fn say(&self, text: impl Display) {
        self.world.say("daemon", text);
    }

    /// Says what failed and goes on: for what is tried again, or told elsewhere.
    pub(super) fn grumble<T, E: Display>(&self, what: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.say(format!("{what}: {error}"))).ok()
    }

    pub(super) fn nonce(&self) -> String {
        self.world.ids.id("gen")
    }

    /// Reports an incident; when even that fails, it is said, so that it is said somewhere.
    pub(super) async fn report(&self, report: &Report) -> Option<IncidentId> {
        let reported = self.incidents.report(report).await;
        self.grumble("an incident could not be recorded", reported).map(|reported| reported.id)
    }

    /// Changes the pending actions of sessions.
    pub(super) async fn act(&self, sessions: impl IntoIterator<Item = SessionId>, actions: &Actions) {
        let changes = sessions.into_iter().map(|session| (session, actions.clone())).collect();
        let changed = self.checkpoints.change_actions(&changes).await;
        if self.grumble("sessions could not be told what to do", changed).is_none() {
            self.world.see(Seen::NotRecorded { sessions: changes.into_keys().collect() });
        }
    }

    /// Records that the outcome of a call will never be known: durable before its session is answered.
    pub(super) async fn lost(&self, call: &LostCall) {
        let mut report = Report::new(
            IncidentKind::OutcomeUnknown,
            format!("{}/{}", call.component, call.session),
            Severity::Warning,
            format!("the outcome of {} on {} is unknown", call.tool, call.component),
        )
        .evidence("class", call.class.to_string());
        report.scope = Some(call.component.clone());
        report.session = Some(call.session.clone());
        report.who_is_next = WhoIsNext::Session;
        report.next_action =
            NextAction::VerifyThenRetry { component: call.component.clone(), tool: call.tool.to_string() };
        self.report(&report).await;
        let mut draft = Draft::new(call.session.clone());
        draft.calls.push(CallFact {
            id: format!("{}-{}", call.generation, call.call),
            component: call.component.clone(),
            tool: call.tool.to_string(),
            class: call.class,
            state: CallState::Unknown,
        });
        let recorded = self.checkpoints.checkpoint(&[draft]).await;
        if self.grumble("a call of unknown outcome could not be recorded", recorded).is_none() {
            self.world.see(Seen::NotRecorded { sessions: vec![call.session.clone()] });
        }
    }
}

/// The dedup key of what a component does by itself.
pub(super) fn of_component(component: &ComponentName) -> String {
    component.to_string()
}
