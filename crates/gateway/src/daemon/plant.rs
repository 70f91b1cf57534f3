//! The governor's hands: gates, servers and sessions of this daemon. Does what it is told, and reports.

use super::acquaintance::reset_note;
use super::actor;
use super::component::{Msg, Seen};
use super::context::{Context, TokioTimer, grumble};
use super::fleet::Fleet;
use super::seat::Seat;
use super::serve::{GATE_CAPACITY, relay};
use super::settings::effective;
use super::site::Site;
use super::stage::{self, Staged};
use super::start::NotStarted;
use crate::config::{ComponentConfig, Config};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_checkpoints::{Draft, Served, survey};
use tidegate_core::{
    BoxFuture, ComponentName, Deadline, DrainId, Generation, IncidentId, OperationId, SessionId,
};
use tidegate_drain::{Drainer, Gate, Holder, Verdict};
use tidegate_governor::{
    Actuator, Change, CloseError, Component, ComponentError, ComponentState, LaunchIdentity, RecordIdentity,
    Resumed, StartError, StopError, Verified, VerifyError, list_operations,
};
use tidegate_relay::{Relay, Sharing};
use tokio::task::JoinSet;

/// All components of this daemon.
pub(super) struct Plant {
    ctx: Arc<Context>,
    config: Config,
    sites: BTreeMap<ComponentName, Site>,
    /// Servers between their start and their verification, by the names of their records.
    staged: Mutex<BTreeMap<ComponentName, Staged>>,
}

impl Plant {
    pub(super) fn new(ctx: Arc<Context>, config: Config) -> Self {
        let hold = config.policy.hold;
        let site = |component: &ComponentConfig| match component.sharing {
            Sharing::Shared => {
                let gate = Gate::new(component.name.clone(), GATE_CAPACITY);
                let seat = Arc::new(Seat::shared(&component.name));
                ctx.registry.watch(component.name.clone(), gate.clone());
                let relay = Relay::new(gate, relay(hold, component));
                Site::Shared(actor::start(ctx.clone(), seat, component.clone(), relay))
            }
            Sharing::PerSession => Site::PerSession(Fleet::new(ctx.clone(), component.name.clone(), hold)),
        };
        let sites = config.components.iter().map(|c| (c.name.clone(), site(c))).collect();
        Self { ctx, config, sites, staged: Mutex::default() }
    }

    pub(super) fn site(&self, name: &ComponentName) -> Option<&Site> {
        self.sites.get(name)
    }

    pub(super) fn sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.values()
    }

    fn fleets(&self) -> impl Iterator<Item = &Fleet> {
        self.sites.values().filter_map(Site::fleet)
    }

    /// Sessions whose own servers an earlier daemon has left running have their places again: what is left is settled.
    pub(super) fn remember(&self, left: &[Component]) {
        for record in left.iter().filter(|record| record.process.is_some()) {
            let Seat { component, session, .. } = Seat::on_record(record);
            let fleet = self.sites.get(&component).and_then(Site::fleet);
            if let (Some(fleet), Some(session)) = (fleet, session) {
                grumble("a session's server can't be looked after", fleet.seat(&session));
            }
        }
    }

    /// A session has ended for good, and with it the servers that were its own.
    pub(super) async fn over(&self, session: &SessionId) {
        for fleet in self.fleets() {
            fleet.over(session).await;
        }
    }

    /// Takes away what sessions that are over have left.
    pub(super) async fn prune(&self) {
        if self.fleets().next().is_none() {
            return;
        }
        for fleet in self.fleets() {
            fleet.prune().await;
        }
        let left = grumble("the components can't be read", self.ctx.components.list().await);
        for record in left.into_iter().flatten().filter(|record| record.process.is_none()) {
            let Seat { component, session: Some(session), .. } = Seat::on_record(&record) else { continue };
            let has_place = self.sites.get(&component).and_then(Site::fleet).is_some_and(|f| f.has(&session));
            let known = grumble("a session can't be read", self.ctx.checkpoints.get(&session).await);
            if !has_place && known.is_some_and(|known| known.is_none_or(|it| it.ended.is_some())) {
                let forgotten = self.ctx.components.forget(&record.name).await;
                grumble("a session's server could not be forgotten", forgotten);
            }
        }
    }

    /// Lets components start and restart by themselves, as far as no operation has them.
    pub(super) async fn hands_on(&self) {
        for site in self.sites().filter(|site| site.gate().is_open()) {
            let own = self.ctx.components.set_per_session(site.name(), site.fleet().is_some()).await;
            grumble("a component could not be recorded", own);
            if let Some(fleet) = site.fleet() {
                grumble("a component could not be recorded", self.open(fleet.gate().component()).await);
            }
            self.hands(site, false).await;
        }
    }

    /// A per-session component serves as soon as it may: its servers come with their sessions.
    async fn open(&self, name: &ComponentName) -> Result<(), ComponentError> {
        let components = &self.ctx.components;
        let mut record = components.get(name).await?;
        if record.generation == Generation::default() {
            record = components.begin_generation(name).await?;
        }
        components.set_state(name, record.generation, ComponentState::Ready, None).await.map(drop)
    }

    /// Keeps components from starting anything by themselves.
    pub(super) async fn hands_off(&self) {
        for site in self.sites() {
            self.hands(site, true).await;
        }
    }

    async fn hands(&self, site: &Site, off: bool) {
        site.hands(off);
        for handle in site.handles() {
            handle.ask(|done| Msg::Hands { off, done }).await;
        }
    }

    /// The operation behind a drain, for those who are held.
    async fn operation_of(&self, drain: &DrainId) -> Option<OperationId> {
        let operations = grumble("operations can't be read", list_operations(&*self.ctx.store).await)?;
        operations.into_iter().find(|o| o.drain.as_ref().is_some_and(|d| d.id == *drain)).map(|o| o.id)
    }

    fn in_scope<'a>(&'a self, scope: &'a [ComponentName]) -> impl Iterator<Item = &'a Site> {
        scope.iter().filter_map(|name| self.sites.get(name))
    }

    /// The components that serve now, with their generations.
    pub(super) async fn ready(&self) -> BTreeMap<ComponentName, Generation> {
        let mut ready = BTreeMap::new();
        for site in self.sites().filter(|site| site.gate().is_open()) {
            let record = grumble("a component could not be read", self.ctx.components.get(site.name()).await);
            let Some(record) = record.filter(|record| record.state == ComponentState::Ready) else {
                continue;
            };
            let mut serves = true;
            for handle in site.handles() {
                let seen = handle.ask(|seen| Msg::Look { seen }).await;
                // A session's own server comes with its client.
                let is_up = |seen: Seen| !seen.unavailable && (site.fleet().is_some() || seen.pid.is_some());
                serves &= seen.is_some_and(is_up);
            }
            if serves {
                ready.insert(record.name, record.generation);
            }
        }
        ready
    }

    fn staged(&self) -> MutexGuard<'_, BTreeMap<ComponentName, Staged>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `force`: whatever may be running in it.
    async fn stop_all_of(&self, name: &ComponentName, force: bool) -> Result<(), String> {
        let Some(site) = self.sites.get(name) else { return Ok(()) };
        let mut stopping = JoinSet::new();
        for handle in site.handles() {
            let (ctx, staged) = (self.ctx.clone(), self.staged().remove(&handle.seat.record));
            stopping.spawn(async move {
                let stopped = stage::stop(&ctx, &handle, staged, force).await;
                stopped.map_err(|message| handle.seat.says(&message))
            });
        }
        let stopped = stopping.join_all().await;
        if site.fleet().is_some() {
            let probe = self.staged().remove(name);
            stage::stop_probe(&self.ctx, name, probe, force).await?;
        }
        stopped.into_iter().collect()
    }

    /// Starts every server of a component that somebody waits for; where nobody does, one that is only tried.
    async fn start_all_of(
        &self,
        name: &ComponentName,
        generation: Generation,
        launch: &LaunchIdentity,
        identity: &dyn RecordIdentity,
    ) -> Result<(), NotStarted> {
        let site = self.sites.get(name).ok_or_else(|| NotStarted::because("there is no such component"))?;
        self.configure(name, launch).await.map_err(NotStarted::because)?;
        let mut starting = JoinSet::new();
        for handle in site.fleet().into_iter().flat_map(Fleet::handles) {
            let Some(wanted) = handle.ask(|seen| Msg::Look { seen }).await.and_then(|seen| seen.wanted)
            else {
                continue;
            };
            let (ctx, launch) = (self.ctx.clone(), launch.clone());
            starting.spawn(async move {
                let started = stage::start_own(&ctx, &handle.seat, &launch, wanted).await;
                (handle.seat, started)
            });
        }
        if starting.is_empty() {
            let staged = stage::start(&self.ctx, launch, generation, identity, None).await?;
            self.staged().insert(name.clone(), staged);
            return Ok(());
        }
        let mut failed = None;
        while let Some(Ok((seat, started))) = starting.join_next().await {
            match started {
                Ok(staged) => drop(self.staged().insert(seat.record.clone(), staged)),
                Err(error) => failed = failed.or(Some(error.of(&seat))),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn verify_all_of(&self, name: &ComponentName) -> Result<Verified, NotStarted> {
        let site = self.sites.get(name).ok_or_else(|| NotStarted::because("there is no such component"))?;
        let mut shaking = JoinSet::new();
        for handle in site.handles() {
            let Some(staged) = self.staged().remove(&handle.seat.record) else { continue };
            let ctx = self.ctx.clone();
            shaking.spawn(async move {
                let verified = stage::verify(&ctx, &handle, staged).await;
                (handle.seat, verified)
            });
        }
        let probe = site.fleet().and_then(|_| self.staged().remove(name));
        if let Some(staged) = probe {
            let (ctx, seat) = (self.ctx.clone(), Arc::new(Seat::shared(name)));
            shaking.spawn(async move {
                let verified = stage::probe(&ctx, &seat.component, staged).await;
                (seat, verified)
            });
        }
        let mut verified = Err(NotStarted::because("it is not running"));
        let mut failed = None;
        while let Some(Ok((seat, shaken))) = shaking.join_next().await {
            match shaken {
                Ok(shown) => verified = Ok(shown),
                Err((staged, error)) => {
                    // Kept, so that the stop that follows ends it.
                    self.staged().extend(staged.map(|staged| (seat.record.clone(), staged)));
                    failed = failed.or(Some(error.of(&seat)));
                }
            }
        }
        let mut verified = failed.map_or(verified, Err)?;
        if let Some(fleet) = site.fleet() {
            let before = fleet.version_is(verified.version.clone());
            verified.previous_version = verified.previous_version.or(before);
        }
        Ok(verified)
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
        let Some(config) = self.ctx.settings.adopt(name, launch).await? else { return Ok(()) };
        for handle in self.sites.get(name).map(Site::handles).unwrap_or_default() {
            let relay = Box::new(relay(self.config.policy.hold, &config));
            handle.tell(Msg::Configured { config: Box::new(config.clone()), relay }).await;
        }
        Ok(())
    }

    /// Tells the sessions of a component that its new generation has forgotten what they had set up. In the protocol's own
    /// way, never inside a result; the same is in their checkpoints.
    async fn tell_sessions(&self, component: &ComponentName) {
        let (Some(site), Some(reset)) = (self.sites.get(component), self.ctx.reset(component)) else {
            return;
        };
        for handle in site.handles() {
            handle.tell(Msg::Tell { line: reset_note(&reset), to: None }).await;
        }
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
            let mut closed: Vec<&Site> = Vec::new();
            for site in self.in_scope(scope) {
                let fresh = site.gate().closed_by().as_ref() != Some(drain);
                if let Err(error) = site.close(drain) {
                    for site in closed {
                        let _ = site.reopen(drain); // closed by this drain a moment ago
                    }
                    return Err(CloseError { component: error.component, by: error.by });
                }
                if fresh {
                    closed.push(site);
                }
            }
            let operation = self.operation_of(drain).await;
            for site in self.in_scope(scope) {
                site.belongs_to(operation.clone());
                self.hands(site, true).await;
                for handle in site.handles() {
                    handle.tell(Msg::Closed { operation: operation.clone() }).await;
                }
            }
            Ok(())
        })
    }

    fn reopen<'a>(&'a self, scope: &'a [ComponentName], drain: &'a DrainId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for site in self.in_scope(scope) {
                if site.reopen(drain) {
                    for handle in site.handles() {
                        handle.tell(Msg::Reopened).await;
                    }
                    self.hands(site, false).await;
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
            let servers = self.in_scope(scope).flat_map(Site::handles);
            let gates: Vec<Gate> = servers.map(|handle| handle.gate).collect();
            let timer = TokioTimer(self.ctx.clock);
            Drainer { gates: &gates, deadline, clock: &self.ctx.clock, timer: &timer }.run(progress).await
        })
    }

    fn settle_left<'a>(
        &'a self,
        scope: &'a [ComponentName],
        deadline: Deadline,
    ) -> BoxFuture<'a, BTreeMap<ComponentName, String>> {
        Box::pin(async move {
            let mut settling = JoinSet::new();
            for handle in self.in_scope(scope).flat_map(Site::handles) {
                let (ctx, limit) = (self.ctx.clone(), deadline.remaining(&self.ctx.now()));
                settling.spawn(async move {
                    let settled = stage::settle_left(&ctx, &handle, limit).await;
                    settled.map_err(|message| (handle.name.clone(), handle.seat.says(&message)))
                });
            }
            let mut left: BTreeMap<ComponentName, String> = BTreeMap::new();
            for (name, said) in settling.join_all().await.into_iter().filter_map(Result::err) {
                left.entry(name).and_modify(|it| *it += &format!("; {said}")).or_insert(said);
            }
            left
        })
    }

    fn session_facts<'a>(&'a self, scope: &'a [ComponentName]) -> BoxFuture<'a, Vec<Draft>> {
        Box::pin(async move {
            let mut served = Vec::new();
            for site in self.in_scope(scope) {
                served.extend(site.look().await.into_iter().map(|(handle, seen)| Served {
                    component: handle.name,
                    generation: seen.generation,
                    sessions: seen.sessions,
                    calls: seen.calls,
                }));
            }
            let acquainted = self.ctx.acquainted(scope).await;
            survey(scope, served, acquainted, |name| self.ctx.reset(name))
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
            let started = self.start_all_of(component, generation, launch, identity).await;
            started.map_err(|NotStarted { message, stderr }| StartError {
                component: component.clone(),
                message,
                stderr,
            })
        })
    }

    fn verify<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<Verified, VerifyError>> {
        Box::pin(async move {
            let verified = self.verify_all_of(component).await;
            verified.map_err(|NotStarted { message, stderr }| VerifyError {
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
            let Some(site) = self.sites.get(component) else { return };
            let said = grumble("an incident could not be read", self.ctx.incidents.get(incident).await);
            let message =
                said.map_or_else(|| format!("{component} could not be restarted"), |incident| incident.title);
            for handle in site.handles() {
                let message = message.clone();
                handle.tell(Msg::Unavailable { incident: Some(incident.clone()), message }).await;
            }
        })
    }
}
