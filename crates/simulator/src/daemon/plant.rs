//! The governor's hands: gates, servers and sessions of this daemon. Does what it is told, and reports.

use super::component::{Handle, Msg, Seen as Look};
use super::context::{Context, replaced};
use super::revive::{handshake, spawn};
use crate::observe::Seen;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_checkpoints::{Draft, Served, survey};
use tidegate_core::{
    BoxFuture, CallState, ComponentName, Deadline, DrainId, Generation, IncidentId, NextAction, OpenCall,
    OperationId, ProcessIdentity, SessionId, Timer as _, planted::is_planted,
};
use tidegate_drain::{Drainer, Gate, Holder, Verdict};
use tidegate_governor::{
    Actuator, Change, CloseError, LaunchIdentity, RecordIdentity, Resumed, StartError, StopError, Verified,
    VerifyError, list_operations,
};

/// A server between its start and its verification, and which generation it is.
type Started = (Generation, ProcessIdentity);

/// All components of this daemon.
pub(super) struct Plant {
    ctx: Arc<Context>,
    components: BTreeMap<ComponentName, Handle>,
    started: Mutex<BTreeMap<ComponentName, Started>>,
}

impl Plant {
    pub(super) fn new(ctx: Arc<Context>, handles: Vec<Handle>) -> Self {
        let components = handles.into_iter().map(|handle| (handle.name.clone(), handle)).collect();
        Self { ctx, components, started: Mutex::default() }
    }

    pub(super) fn component(&self, name: &ComponentName) -> Option<&Handle> {
        self.components.get(name)
    }

    /// What a session has in flight.
    pub(super) async fn calls_of(&self, session: &SessionId) -> Vec<(OpenCall, CallState)> {
        let mut calls = Vec::new();
        for handle in self.components.values() {
            let seen: Option<Look> = handle.ask(|seen| Msg::Look { seen }).await;
            calls.extend(seen.into_iter().flat_map(|seen| seen.calls));
        }
        calls.retain(|(call, _)| call.session == *session);
        calls
    }

    /// Lets components start and restart by themselves, as far as no operation has them.
    pub(super) async fn hands_on(&self) {
        for handle in self.components.values().filter(|handle| handle.gate.is_open()) {
            handle.ask(|done| Msg::Hands { off: false, done }).await;
        }
    }

    /// Keeps components from starting anything by themselves.
    pub(super) async fn hands_off(&self) {
        for handle in self.components.values() {
            handle.ask(|done| Msg::Hands { off: true, done }).await;
        }
    }

    /// Planted: a timer that doesn't know whose drain it belongs to.
    fn reopen_late(&self, gates: Vec<Gate>, deadline: Deadline) {
        let alarm = self.ctx.world.clock.sleep_until(deadline.at_ms);
        self.ctx.world.executor.spawn(self.ctx.group, async move {
            alarm.await;
            for gate in gates {
                let _ = gate.closed_by().map(|by| gate.reopen(&by)); // whoever it is
            }
        });
    }

    /// The operation behind a drain, for those who are held.
    async fn operation_of(&self, drain: &DrainId) -> Option<OperationId> {
        let operations = list_operations(&*self.ctx.store).await;
        let operations = self.ctx.grumble("operations can't be read", operations)?;
        operations.into_iter().find(|o| o.drain.as_ref().is_some_and(|d| d.id == *drain)).map(|o| o.id)
    }

    fn reset(&self, component: &ComponentName) -> Option<NextAction> {
        let plan = self.ctx.world.story.components.iter().find(|plan| plan.name == *component)?;
        plan.reset()
    }

    fn in_scope<'a>(&'a self, scope: &'a [ComponentName]) -> impl Iterator<Item = &'a Handle> {
        scope.iter().filter_map(|name| self.components.get(name))
    }

    fn started(&self) -> MutexGuard<'_, BTreeMap<ComponentName, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `abandon`: whatever may be running in it.
    async fn stop_all_of(&self, name: &ComponentName, abandon: bool) -> Result<(), String> {
        if is_planted("every-server-is-stopped") {
            for handle in self.components.values().filter(|handle| handle.name != *name) {
                handle.ask(|proof| Msg::Stop { governed: true, proof }).await;
            }
        }
        let Some(handle) = self.components.get(name) else { return Ok(()) };
        handle.ask(|done| Msg::Hands { off: true, done }).await;
        let started = self.started().remove(name);
        if let Some((_, server)) = started {
            self.ctx.world.stop_server(server.pid, true).await?;
        }
        let proof = handle.ask(|proof| Msg::Stop { governed: true, proof }).await;
        proof.unwrap_or_else(|| Err("the daemon is ending".to_owned()))?;
        // What is on record and none of the two: started by an earlier daemon, or by a start that was given up.
        let record = self.ctx.components.get(name).await.map_err(|error| error.to_string())?;
        match record.process {
            Some(process) => {
                let careful = record.unsafe_possible && !abandon;
                self.ctx.prove_old_server_gone(&process, careful, true).await
            }
            None => Ok(()),
        }
    }

    async fn shake(&self, name: &ComponentName) -> Result<Verified, String> {
        let started = self.started().remove(name);
        let (generation, server) = started.ok_or_else(|| "it is not running".to_owned())?;
        let handle = self.components.get(name).ok_or_else(|| "there is no such component".to_owned())?;
        match handshake(&self.ctx, name, generation, server.pid).await {
            Ok(facts) => {
                let verified = handle.ask(|verified| Msg::Ready { server, facts, verified }).await;
                verified.ok_or_else(|| "the daemon is ending".to_owned())
            }
            Err(error) => {
                // Kept, so that the stop that follows ends it.
                self.started().insert(name.clone(), (generation, server));
                Err(error)
            }
        }
    }
}

/// The components whose gates a drain closes: those of its scope.
fn scopes(components: &BTreeMap<ComponentName, Handle>, scope: &[ComponentName]) -> Vec<ComponentName> {
    if is_planted("only-the-first-gate-is-closed") {
        return scope.iter().take(1).cloned().collect();
    }
    if is_planted("every-gate-is-closed") {
        return components.keys().cloned().collect();
    }
    scope.to_vec()
}

impl Actuator for Plant {
    fn launch<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Option<LaunchIdentity>> {
        Box::pin(async move { self.ctx.launch(component).await })
    }

    fn launch_as<'a>(
        &'a self,
        component: &'a ComponentName,
        change: &'a Change,
    ) -> BoxFuture<'a, Option<LaunchIdentity>> {
        Box::pin(async move {
            let configured = self.ctx.world.launch(component)?;
            Some(match change {
                Change::Command(replacement) => replaced(configured, replacement),
                _ => configured,
            })
        })
    }

    fn close<'a>(
        &'a self,
        scope: &'a [ComponentName],
        drain: &'a DrainId,
    ) -> BoxFuture<'a, Result<(), CloseError>> {
        Box::pin(async move {
            let mut closed: Vec<&Handle> = Vec::new();
            let names = scopes(&self.components, scope);
            for handle in names.iter().filter_map(|name| self.components.get(name)) {
                let fresh = handle.gate.closed_by().as_ref() != Some(drain);
                if let Err(error) = handle.gate.close(drain.clone()) {
                    for handle in closed {
                        let _ = handle.gate.reopen(drain); // closed by this drain a moment ago
                        self.ctx.world.see(Seen::GateUnclosed { component: handle.name.clone() });
                    }
                    return Err(CloseError { component: error.component, by: error.by });
                }
                if fresh {
                    self.ctx.world.say(&handle.name, format!("gate closed by {drain}"));
                    self.ctx
                        .world
                        .see(Seen::GateClosed { component: handle.name.clone(), drain: drain.clone() });
                    closed.push(handle);
                }
            }
            let operation = self.operation_of(drain).await;
            for handle in self.in_scope(scope) {
                handle.ask(|done| Msg::Hands { off: true, done }).await;
                handle.tell(Msg::Closed { operation: operation.clone() });
            }
            Ok(())
        })
    }

    fn reopen<'a>(&'a self, scope: &'a [ComponentName], drain: &'a DrainId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for handle in self.in_scope(scope) {
                if handle.gate.reopen(drain).is_ok() {
                    self.ctx.world.say(&handle.name, "gate open");
                    self.ctx
                        .world
                        .see(Seen::GateOpened { component: handle.name.clone(), drain: drain.clone() });
                    handle.tell(Msg::Reopened);
                    handle.ask(|done| Msg::Hands { off: false, done }).await;
                }
            }
        })
    }

    fn await_drain<'a>(
        &'a self,
        scope: &'a [ComponentName],
        _drain: &'a DrainId,
        deadline: Deadline,
        progress: &'a (dyn Fn(&[Holder]) + Send + Sync),
    ) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let gates: Vec<Gate> = self.in_scope(scope).map(|handle| handle.gate.clone()).collect();
            let clock = &*self.ctx.world.clock;
            if is_planted("a-late-timer-reopens") {
                self.reopen_late(gates.clone(), deadline);
            }
            Drainer { gates: &gates, deadline, clock, timer: clock }.run(progress).await
        })
    }

    fn session_facts<'a>(&'a self, scope: &'a [ComponentName]) -> BoxFuture<'a, Vec<Draft>> {
        Box::pin(async move {
            let mut served = Vec::new();
            for handle in self.in_scope(scope) {
                let seen: Option<Look> = handle.ask(|seen| Msg::Look { seen }).await;
                served.extend(seen.map(|seen| Served {
                    component: handle.name.clone(),
                    generation: seen.generation,
                    sessions: seen.sessions,
                    calls: seen.calls,
                }));
            }
            let acquainted = self.ctx.acquainted(scope).await;
            survey(scope, served, acquainted, |name| self.reset(name))
        })
    }

    fn stop<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<(), StopError>> {
        Box::pin(async move {
            let stopped = self.stop_all_of(component, false).await;
            stopped.map_err(|message| StopError { component: component.clone(), message })
        })
    }

    fn abandon<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<(), StopError>> {
        Box::pin(async move {
            let stopped = self.stop_all_of(component, true).await;
            stopped.map_err(|message| StopError { component: component.clone(), message })
        })
    }

    fn start<'a>(
        &'a self,
        component: &'a ComponentName,
        generation: Generation,
        launch: &'a LaunchIdentity,
        identity: &'a dyn RecordIdentity,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(async move {
            let stderr = String::new();
            let server = spawn(&self.ctx, component, generation, launch, identity)
                .await
                .map_err(|message| StartError { component: component.clone(), message, stderr })?;
            self.started().insert(component.clone(), (generation, server));
            Ok(())
        })
    }

    fn verify<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<Verified, VerifyError>> {
        Box::pin(async move {
            let stderr = String::new();
            let shaken = self.shake(component).await;
            shaken.map_err(|message| VerifyError { component: component.clone(), message, stderr })
        })
    }

    fn resumed<'a>(&'a self, resumed: &'a Resumed) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let name = &resumed.component;
            let (Some(handle), Some(reset)) = (self.components.get(name), self.reset(name)) else { return };
            let note = serde_json::json!({
                "jsonrpc": "2.0", "method": "notifications/message",
                "params": { "level": "warning", "logger": "tidegate", "data": reset.prompt() },
            });
            handle.tell(Msg::Tell { line: note.to_string().into_bytes() });
        })
    }

    fn unavailable<'a>(
        &'a self,
        component: &'a ComponentName,
        incident: &'a IncidentId,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(handle) = self.components.get(component) else { return };
            let message = format!("{component} could not be restarted");
            handle.tell(Msg::Unavailable { incident: Some(incident.clone()), message });
        })
    }
}
