//! What every room of the daemon works with: the store's shells, the clocks, and the hands that start processes.

use super::records::Records;
use super::seat::Seat;
use super::sessions::Registry;
use super::settings::Settings;
use super::start::Launcher;
use crate::keeper::Estate;
use crate::log::{self, About, Level};
use crate::process::Spawner;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tidegate_checkpoints::{Actions, Checkpoints};
use tidegate_core::{
    BoxFuture, Clock, ComponentName, Generation, IncidentId, LateAnswer, Now, OpenCall, SessionId, Timer,
};
use tidegate_governor::{ComponentState, Components, Upkeep};
use tidegate_host::{OsEntropy, SystemClock};
use tidegate_incidents::{Incidents, Report};
use tidegate_leases::Leases;

/// Shared by all actors and connections.
pub(super) struct Context {
    pub(super) store: Arc<Records>,
    pub(super) clock: SystemClock,
    pub(super) components: Components,
    pub(super) checkpoints: Checkpoints,
    pub(super) incidents: Incidents,
    pub(super) leases: Leases,
    pub(super) upkeep: Upkeep,
    pub(super) registry: Arc<Registry>,
    pub(super) spawner: Spawner,
    pub(super) launcher: Launcher,
    pub(super) settings: Settings,
    /// What keepers of earlier daemons have left.
    pub(super) estate: Estate,
    /// How long a successor waits for the tree of a daemon that died.
    pub(super) drain_deadline: Duration,
}

impl Context {
    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    pub(super) fn nonce(&self) -> String {
        use tidegate_core::Entropy as _;
        OsEntropy.id("gen")
    }

    /// Reports an incident; when even that fails, it is said on stderr, so that it is said somewhere.
    pub(super) async fn report(&self, report: &Report) -> Option<IncidentId> {
        match self.incidents.report(report).await {
            Ok(reported) => {
                let told = format!("incident {} ({}): {}", reported.id, report.kind, report.title);
                say_of(&[("incident", &reported.id)], &told);
                Some(reported.id)
            }
            Err(error) => {
                say(&format!("an incident could not be recorded ({error}): {}", report.title));
                None
            }
        }
    }

    /// Records that something of a generation is still there, so that nothing is started: until its end is proved there is no
    /// server, whatever was recorded when it was one.
    pub(super) async fn unavailable(
        &self,
        seat: &Seat,
        generation: Generation,
        incident: Option<&IncidentId>,
    ) {
        let state = ComponentState::Unavailable;
        let recorded = self.components.set_state(&seat.record, generation, state, incident).await;
        grumble("a component could not be recorded", recorded);
    }

    /// Changes the pending actions of sessions.
    pub(super) async fn act(&self, sessions: impl IntoIterator<Item = SessionId>, actions: &Actions) {
        let changes = sessions.into_iter().map(|session| (session, actions.clone())).collect();
        if let Err(error) = self.checkpoints.change_actions(&changes).await {
            say(&format!("sessions could not be told what to do: {error}"));
        }
    }

    /// Records that the outcome of a call will never be known: durable before its session is answered.
    pub(super) async fn lost(&self, call: &OpenCall) {
        self.registry.set_unsure(&call.session, true);
        say_of(
            &[("component", &call.component), ("session", &call.session)],
            &format!("{}: the outcome of {} of {} is unknown", call.component, call.tool, call.session),
        );
        let recorded = self.upkeep.unknown(call).await;
        grumble("a call of unknown outcome could not be recorded", recorded);
    }

    /// Records that the client of a call is gone and its server isn't: durable before the client counts as gone.
    pub(super) async fn detached(&self, call: &OpenCall) {
        say_of(
            &[("component", &call.component), ("session", &call.session)],
            &format!("{}: {} of {} goes on without its client", call.component, call.tool, call.session),
        );
        let recorded = self.upkeep.detached(call).await;
        grumble("a call without a client could not be recorded", recorded);
    }

    /// Records how a call was answered that nobody waits for any more.
    pub(super) async fn answered_late(&self, call: &OpenCall, answer: LateAnswer) {
        say_of(
            &[("component", &call.component), ("session", &call.session)],
            &format!("{}: {} of {} was answered without its client", call.component, call.tool, call.session),
        );
        let recorded = self.upkeep.answered_late(call, answer).await;
        grumble("a late answer could not be recorded", recorded);
    }
}

/// A line of the daemon's log: what happened, once, in words that `status` and the documents use.
pub(super) fn say(message: &str) {
    say_of(&[], message);
}

/// As [`say`], with what it is about.
pub(super) fn say_of(about: About<'_>, message: &str) {
    log::line(Level::Info, about, message);
}

/// Says what failed and goes on: for what is tried again, or told elsewhere.
pub(super) fn grumble<T, E: Display>(what: &str, result: Result<T, E>) -> Option<T> {
    result.map_err(|error| log::line(Level::Warning, &[], &format!("{what}: {error}"))).ok()
}

/// Tokio's timer, on the boot-time clock.
#[derive(Clone)]
pub(super) struct TokioTimer(pub(super) SystemClock);

impl Timer for TokioTimer {
    fn sleep_until(&self, boot_ms: u64) -> BoxFuture<'static, ()> {
        let left = boot_ms.saturating_sub(self.0.now().boot_ms);
        Box::pin(tokio::time::sleep(Duration::from_millis(left)))
    }
}

/// The dedup key of what a component does by itself.
pub(super) fn of_component(component: &ComponentName) -> String {
    component.to_string()
}
