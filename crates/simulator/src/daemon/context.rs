//! What every room of the daemon works with: the store's shells and the world it runs in.

use super::estate::Estate;
use super::registry::Registry;
use crate::executor::Group;
use crate::observe::Seen;
use crate::world::World;
use std::fmt::Display;
use std::sync::Arc;
use tidegate_checkpoints::{Actions, Checkpoints};
use tidegate_core::{
    ComponentName, Entropy as _, Generation, IncidentId, LateAnswer, Now, OpenCall, SessionId,
};
use tidegate_governor::{ComponentState, Components, LaunchIdentity, Replacement, Upkeep};
use tidegate_incidents::{Incidents, Report};
use tidegate_leases::Leases;
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
    pub(super) upkeep: Upkeep,
    pub(super) registry: Arc<Registry>,
    /// What keepers of earlier daemons have left.
    pub(super) estate: Estate,
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

    /// What the component would be started as now: as configured, or by the command that an upgrade has put in its place.
    pub(super) async fn launch(&self, component: &ComponentName) -> Option<LaunchIdentity> {
        let record = self.grumble("a component could not be read", self.components.get(component).await)?;
        let launch = self.world.launch(component)?;
        Some(match &record.replaced {
            Some(replacement) => replaced(launch, replacement),
            None => launch,
        })
    }

    pub(super) fn nonce(&self) -> String {
        self.world.ids.id("gen")
    }

    /// Reports an incident; when even that fails, it is said, so that it is said somewhere.
    pub(super) async fn report(&self, report: &Report) -> Option<IncidentId> {
        let reported = self.incidents.report(report).await;
        self.grumble("an incident could not be recorded", reported).map(|reported| reported.id)
    }

    /// Records that something of a generation is still there, so that nothing is started.
    pub(super) async fn unavailable(
        &self,
        component: &ComponentName,
        generation: Generation,
        incident: Option<&IncidentId>,
    ) {
        let state = ComponentState::Unavailable;
        let recorded = self.components.set_state(component, generation, state, incident).await;
        if self.grumble("a component could not be recorded", recorded).is_none() {
            self.world.see(Seen::StateNotRecorded { component: component.clone() });
        }
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
    pub(super) async fn lost(&self, call: &OpenCall) {
        self.registry.set_unsure(&call.session, true);
        let recorded = self.upkeep.unknown(call).await;
        self.recorded(call, "a call of unknown outcome could not be recorded", recorded);
    }

    /// Records that the client of a call is gone and its server isn't.
    pub(super) async fn detached(&self, call: &OpenCall) {
        let recorded = self.upkeep.detached(call).await;
        self.recorded(call, "a call without a client could not be recorded", recorded);
    }

    /// Records how a call was answered that nobody waits for any more.
    pub(super) async fn answered_late(&self, call: &OpenCall, answer: LateAnswer) {
        let recorded = self.upkeep.answered_late(call, answer).await;
        self.recorded(call, "a late answer could not be recorded", recorded);
    }

    fn recorded<T, E: Display>(&self, call: &OpenCall, what: &str, recorded: Result<T, E>) {
        if self.grumble(what, recorded).is_none() {
            self.world.see(Seen::NotRecorded { sessions: vec![call.session.clone()] });
        }
    }
}

/// What a component is started as by another command.
pub(super) fn replaced(launch: LaunchIdentity, replacement: &Replacement) -> LaunchIdentity {
    let configured = [launch.command.clone()];
    let command = replacement.over(&configured).first().cloned().unwrap_or_default();
    LaunchIdentity { command, ..launch }
}

/// The dedup key of what a component does by itself.
pub(super) fn of_component(component: &ComponentName) -> String {
    component.to_string()
}
