//! The governor's hands: gates, servers and sessions of this daemon. Does what it is told, and reports.

use super::acquaintance::reset_note;
use super::component::{Handle, Msg};
use super::context::{Context, TokioTimer, grumble};
use super::revive::prove_old_tree_gone;
use super::serve::relay;
use super::settings::effective;
use super::start::{self, NotStarted};
use crate::config::{ComponentConfig, Config};
use crate::process::{Server, end_old_tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_checkpoints::{Actions, CallFact, CallState, Draft};
use tidegate_core::{
    BoxFuture, ComponentName, Deadline, DrainId, Generation, IncidentId, NextAction, OperationId,
    ProcessIdentity, SessionId,
};
use tidegate_drain::{Drainer, Gate, Holder, Verdict};
use tidegate_governor::{
    Actuator, Change, CloseError, LaunchIdentity, RecordIdentity, Resumed, StartError, StopError, Verified,
    VerifyError, list_operations,
};

/// A server between its start and its verification, and which generation it is.
type Started = (Generation, Box<Server>);

/// All components of this daemon.
pub(super) struct Plant {
    ctx: Arc<Context>,
    config: Config,
    components: BTreeMap<ComponentName, Handle>,
    started: Mutex<BTreeMap<ComponentName, Started>>,
}

impl Plant {
    pub(super) fn new(ctx: Arc<Context>, config: Config, handles: impl IntoIterator<Item = Handle>) -> Self {
        let components = handles.into_iter().map(|handle| (handle.name.clone(), handle)).collect();
        Self { ctx, config, components, started: Mutex::default() }
    }

    pub(super) fn component(&self, name: &ComponentName) -> Option<&Handle> {
        self.components.get(name)
    }

    pub(super) fn components(&self) -> impl Iterator<Item = &Handle> {
        self.components.values()
    }

    /// Lets components start and restart by themselves, as far as no operation has them.
    pub(super) async fn hands_on(&self) {
        for handle in self.components() {
            if handle.gate.is_open() {
                handle.ask(|done| Msg::Hands { off: false, done }).await;
            }
        }
    }

    /// Keeps components from starting anything by themselves.
    pub(super) async fn hands_off(&self) {
        for handle in self.components() {
            handle.ask(|done| Msg::Hands { off: true, done }).await;
        }
    }

    /// The operation behind a drain, for those who are held.
    async fn operation_of(&self, drain: &DrainId) -> Option<OperationId> {
        let operations = grumble("operations can't be read", list_operations(&*self.ctx.store).await)?;
        operations.into_iter().find(|o| o.drain.as_ref().is_some_and(|d| d.id == *drain)).map(|o| o.id)
    }

    fn reset(&self, component: &ComponentName) -> Option<NextAction> {
        self.ctx.settings.get(component)?.reset()
    }

    fn in_scope<'a>(&'a self, scope: &'a [ComponentName]) -> impl Iterator<Item = &'a Handle> {
        scope.iter().filter_map(|name| self.components.get(name))
    }

    fn take_started(&self, name: &ComponentName) -> Option<Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    /// `force`: whatever may be running in it.
    async fn stop_all_of(&self, name: &ComponentName, force: bool) -> Result<(), String> {
        let Some(handle) = self.components.get(name) else { return Ok(()) };
        handle.ask(|done| Msg::Hands { off: true, done }).await;
        let grace = self.ctx.settings.get(name).map_or(crate::config::STOP_GRACE, |c| c.stop_grace);
        if let Some((_, server)) = self.take_started(name) {
            let stopped = server.handle.stop(grace).await;
            handle
                .tell(Msg::LastWords { stderr: server.handle.final_stderr(start::STDERR_LINES).await })
                .await;
            stopped.map_err(|error| error.to_string())?;
        }
        let stopped = handle.ask(|proof| Msg::Stop { proof }).await;
        let proved = stopped.unwrap_or_else(|| Err("the daemon is ending".to_owned()))?;
        // What is on record and neither of the two: started by an earlier daemon, or by a start that was given up.
        let record = self.ctx.components.get(name).await.map_err(|error| error.to_string())?;
        match &record.process {
            Some(process) if proved.as_ref() == Some(&process.nonce) => Ok(()),
            Some(process) if force => {
                let ended = end_old_tree(process).await.map(drop).map_err(|error| error.to_string());
                self.ctx.estate.settled(&process.nonce);
                ended
            }
            Some(process) => prove_old_tree_gone(&self.ctx, &record, process).await,
            None => Ok(()),
        }
    }

    /// What a component would be started as. A command that can't be found is still one: its start says what is missing.
    async fn identify(&self, config: &ComponentConfig) -> LaunchIdentity {
        self.ctx.launcher.identify(config).await.unwrap_or_else(|_| LaunchIdentity {
            command: config.command.first().cloned().unwrap_or_default(),
            args: config.command.iter().skip(1).cloned().collect(),
            cwd: config.cwd.as_ref().map(|dir| dir.display().to_string()),
            env: config.env.clone(),
            executable: String::new(),
            executable_sha256: String::new(),
            settings: super::settings::digest(config),
        })
    }

    /// From now on the component is configured as what is about to be started was approved.
    async fn configure(&self, name: &ComponentName, launch: &LaunchIdentity) -> Result<(), String> {
        if let Some(config) = self.ctx.settings.adopt(name, launch).await?
            && let Some(handle) = self.components.get(name)
        {
            let relay = relay(self.config.policy.hold, &config);
            handle.tell(Msg::Configured { config: Box::new(config), relay: Box::new(relay) }).await;
        }
        Ok(())
    }

    async fn shake(&self, name: &ComponentName) -> Result<Verified, NotStarted> {
        let gone = |message: &str| NotStarted { message: message.to_owned(), stderr: String::new() };
        let (generation, mut server) = self.take_started(name).ok_or_else(|| gone("it is not running"))?;
        let (Some(config), Some(handle)) = (self.ctx.settings.get(name), self.components.get(name)) else {
            return Err(gone("there is no such component"));
        };
        match start::handshake(&mut server, generation, config.start_timeout).await {
            Ok(facts) => {
                let facts = Box::new(facts);
                let verified = handle.ask(|verified| Msg::Ready { server, facts, verified }).await;
                verified.ok_or_else(|| gone("the daemon is ending"))
            }
            Err(error) => {
                // Kept, so that the stop that follows ends it.
                self.started
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(name.clone(), (generation, server));
                Err(error)
            }
        }
    }

    /// Tells the sessions of a component that its new generation has forgotten what they had set up. In the protocol's own
    /// way, never inside a result; the same is in their checkpoints.
    async fn tell_sessions(&self, component: &ComponentName) {
        let (Some(handle), Some(reset)) = (self.components.get(component), self.reset(component)) else {
            return;
        };
        handle.tell(Msg::Tell { line: reset_note(&reset), to: None }).await;
    }
}

impl Actuator for Plant {
    fn launch<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Option<LaunchIdentity>> {
        Box::pin(async move {
            let config = self.ctx.settings.get(component)?;
            let record = grumble("a component could not be read", self.ctx.components.get(component).await)?;
            Some(self.identify(&effective(&config, &record)).await)
        })
    }

    fn launch_as<'a>(
        &'a self,
        component: &'a ComponentName,
        change: &'a Change,
    ) -> BoxFuture<'a, Option<LaunchIdentity>> {
        Box::pin(async move {
            let config = match change {
                Change::Command(replacement) => {
                    let config = self.ctx.settings.get(component)?;
                    ComponentConfig { command: replacement.command.clone(), ..config }
                }
                Change::Configured => {
                    let file = grumble("the configuration can't be read", self.ctx.settings.on_file().await)?;
                    file.component(component)?.clone()
                }
                _ => return None,
            };
            Some(self.identify(&config).await)
        })
    }

    fn close<'a>(
        &'a self,
        scope: &'a [ComponentName],
        drain: &'a DrainId,
    ) -> BoxFuture<'a, Result<(), CloseError>> {
        Box::pin(async move {
            let mut closed: Vec<&Handle> = Vec::new();
            for handle in self.in_scope(scope) {
                let fresh = handle.gate.closed_by().as_ref() != Some(drain);
                if let Err(error) = handle.gate.close(drain.clone()) {
                    for handle in closed {
                        let _ = handle.gate.reopen(drain); // closed by this drain a moment ago
                    }
                    return Err(CloseError { component: error.component, by: error.by });
                }
                if fresh {
                    closed.push(handle);
                }
            }
            let operation = self.operation_of(drain).await;
            for handle in self.in_scope(scope) {
                handle.ask(|done| Msg::Hands { off: true, done }).await;
                handle.tell(Msg::Closed { operation: operation.clone() }).await;
            }
            Ok(())
        })
    }

    fn reopen<'a>(&'a self, scope: &'a [ComponentName], drain: &'a DrainId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for handle in self.in_scope(scope) {
                if handle.gate.reopen(drain).is_ok() {
                    handle.tell(Msg::Reopened).await;
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
            let timer = TokioTimer(self.ctx.clock);
            Drainer { gates: &gates, deadline, clock: &self.ctx.clock, timer: &timer }.run(progress).await
        })
    }

    fn session_facts<'a>(&'a self, scope: &'a [ComponentName]) -> BoxFuture<'a, Vec<Draft>> {
        Box::pin(async move {
            let covers: BTreeSet<ComponentName> = scope.iter().cloned().collect();
            let mut drafts: BTreeMap<SessionId, Draft> = BTreeMap::new();
            for handle in self.in_scope(scope) {
                let Some(seen) = handle.ask(|seen| Msg::Look { seen }).await else { continue };
                for session in &seen.sessions {
                    let draft = drafts.entry(session.clone()).or_insert_with(|| Draft::new(session.clone()));
                    draft.covers.clone_from(&covers);
                    draft.generations.insert(handle.name.clone(), seen.generation);
                    draft.actions.add.extend(self.reset(&handle.name));
                }
                for call in seen.calls {
                    let draft = drafts
                        .entry(call.session.clone())
                        .or_insert_with(|| Draft::new(call.session.clone()));
                    draft.covers.clone_from(&covers);
                    draft.calls.push(CallFact {
                        id: format!("{}:{}", call.stream, call.id),
                        component: handle.name.clone(),
                        tool: call.tool.to_string(),
                        class: call.class,
                        state: match call.state {
                            tidegate_relay::CallState::Queued => CallState::Queued,
                            tidegate_relay::CallState::Written => CallState::Written,
                            tidegate_relay::CallState::Detached => CallState::Detached,
                        },
                    });
                }
            }
            // Who isn't connected now comes back to another server as well.
            for known in self.ctx.acquainted(scope).await {
                let concerned = scope.iter().filter(|name| known.generations.contains_key(*name));
                let draft = Draft::new(known.session.clone());
                drafts.entry(known.session).or_insert_with(|| Draft {
                    actions: Actions::add(concerned.filter_map(|name| self.reset(name))),
                    covers: covers.clone(),
                    ..draft
                });
            }
            drafts.into_values().collect()
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
    ) -> BoxFuture<'a, Result<ProcessIdentity, StartError>> {
        Box::pin(async move {
            let not_started =
                |message| StartError { component: component.clone(), message, stderr: String::new() };
            self.configure(component, launch).await.map_err(not_started)?;
            let nonce = self.ctx.nonce();
            let server = start::spawn(&self.ctx.spawner, launch, &nonce, identity).await.map_err(
                |NotStarted { message, stderr }| StartError { component: component.clone(), message, stderr },
            )?;
            let process = server.handle.identity().clone();
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            started.insert(component.clone(), (generation, Box::new(server)));
            Ok(process)
        })
    }

    fn verify<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<Verified, VerifyError>> {
        Box::pin(async move {
            let shaken = self.shake(component).await;
            shaken.map_err(|NotStarted { message, stderr }| VerifyError {
                component: component.clone(),
                message,
                stderr,
            })
        })
    }

    fn resumed<'a>(&'a self, resumed: &'a Resumed) -> BoxFuture<'a, ()> {
        Box::pin(self.tell_sessions(&resumed.component))
    }

    fn unavailable<'a>(
        &'a self,
        component: &'a ComponentName,
        incident: &'a IncidentId,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(handle) = self.components.get(component) else { return };
            let said = grumble("an incident could not be read", self.ctx.incidents.get(incident).await);
            let message =
                said.map_or_else(|| format!("{component} could not be restarted"), |incident| incident.title);
            handle.tell(Msg::Unavailable { incident: Some(incident.clone()), message }).await;
        })
    }
}
