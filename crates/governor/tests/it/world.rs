//! A world in memory: servers, gates and calls in flight, with a script of what goes wrong and a diary.
//!
//! It checks, at each thing it is asked to do, what must be durable by then, and that no server ever runs twice.

use crate::support::{AllAlive, Counter, HandClock, SlowStore, finish, pause};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tidegate_checkpoints::Draft;
use tidegate_core::{
    BootId, BoxFuture, Clock, ComponentName, Deadline, DrainId, Generation, IncidentId, OperationId,
    ProcessIdentity, SessionId, WorkClass,
};
use tidegate_drain::{Holder, Verdict};
use tidegate_governor::{
    Actuator, Ask, Caller, CloseError, Component, Governor, LaunchIdentity, Operation, Parts, Phase, Policy,
    RecordIdentity, Resumed, StartError, StopError, Verified, VerifyError,
};
use tidegate_incidents::Incident;
use tidegate_leases::NoSessions;
use tidegate_store::{Key, MemoryStore, Store, Txn, View};

/// How a drain ends.
#[derive(Clone)]
pub(crate) enum Drains {
    Drained(Vec<Holder>),
    Refused(Vec<Holder>),
    Never,
}

pub(crate) struct State {
    pub(crate) diary: Vec<String>,
    pub(crate) running: BTreeMap<ComponentName, (Generation, ProcessIdentity)>,
    pub(crate) highest: BTreeMap<ComponentName, Generation>,
    pub(crate) gates: BTreeMap<ComponentName, DrainId>,
    pub(crate) unavailable: BTreeMap<ComponentName, IncidentId>,
    pub(crate) launches: BTreeMap<ComponentName, LaunchIdentity>,
    pub(crate) drains: Drains,
    /// How many more starts fail.
    pub(crate) bad_starts: BTreeMap<ComponentName, u32>,
    /// How many more verifications fail.
    pub(crate) bad_verifies: BTreeMap<ComponentName, u32>,
    /// What verifications show.
    pub(crate) shows: Verified,
    /// What earlier servers have left.
    pub(crate) left: BTreeMap<ComponentName, String>,
    /// Servers that can't be proved dead.
    pub(crate) undying: BTreeSet<ComponentName>,
    pub(crate) stops: usize,
    pub(crate) starts: usize,
    pub(crate) started_as: Vec<LaunchIdentity>,
}

pub(crate) struct World {
    pub(crate) store: SlowStore,
    pub(crate) clock: Arc<HandClock>,
    entropy: Arc<Counter>,
    pub(crate) policy: Policy,
    state: Arc<Mutex<State>>,
}

pub(crate) fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn holder(tool: &str, class: WorkClass, age_ms: u64) -> Holder {
    Holder {
        session: name("local/s1"),
        component: name("files"),
        tool: tool.into(),
        class,
        age_ms,
        detached: false,
        abandoned: false,
    }
}

pub(crate) fn launch(command: &str) -> LaunchIdentity {
    LaunchIdentity {
        command: command.to_owned(),
        args: vec!["server.js".to_owned()],
        cwd: None,
        env: BTreeMap::new(),
        executable: format!("/usr/bin/{command}"),
        executable_sha256: "5e".repeat(32),
        settings: String::new(),
    }
}

fn stamped(clock: &HandClock, line: &str) -> String {
    let now = clock.now().boot_ms;
    format!("t={}.{:03}s  {line}", now / 1_000, now % 1_000)
}

impl World {
    /// A world in which these components run in their first generation.
    pub(crate) fn of(components: &[&str]) -> Self {
        let policy = Policy {
            operators: ["ops", "ops2"].map(name).into(),
            principals: ["reviewer", "worker"].map(name).into(),
            ..Policy::default()
        };
        let state = State {
            diary: Vec::new(),
            running: BTreeMap::new(),
            highest: BTreeMap::new(),
            gates: BTreeMap::new(),
            unavailable: BTreeMap::new(),
            launches: components.iter().map(|&c| (name(c), launch("node"))).collect(),
            drains: Drains::Drained(Vec::new()),
            bad_starts: BTreeMap::new(),
            bad_verifies: BTreeMap::new(),
            shows: Verified { tools: 3, ..Verified::default() },
            left: BTreeMap::new(),
            undying: BTreeSet::new(),
            stops: 0,
            starts: 0,
            started_as: Vec::new(),
        };
        let world = Self {
            store: SlowStore::new(MemoryStore::new()),
            clock: Arc::default(),
            entropy: Arc::default(),
            policy,
            state: Arc::new(Mutex::new(state)),
        };
        world.clock.advance(1_000);
        finish(world.boot(components));
        world
    }

    async fn boot(&self, components: &[&str]) {
        let governor = self.governor();
        for &component in components {
            let component: ComponentName = name(component);
            let generation = governor.components().begin_generation(&component).await.unwrap().generation;
            let recorder = governor.components().recorder(&component, generation);
            self.start(&component, generation, &launch("node"), &recorder).await.unwrap();
            let ready = tidegate_governor::ComponentState::Ready;
            governor.components().set_state(&component, generation, ready, None).await.unwrap();
        }
        let mut state = self.state();
        (state.stops, state.starts) = (0, 0);
        state.diary.clear();
    }

    /// A governor as a new process would make it.
    pub(crate) fn governor(&self) -> Governor {
        Governor::new(self.parts()).unwrap()
    }

    pub(crate) fn parts(&self) -> Parts {
        Parts {
            store: Arc::new(self.store.clone()),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            probe: Arc::new(AllAlive),
            sessions: Arc::new(NoSessions),
            policy: self.policy.clone(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// An operator's restart of all components, approved.
    pub(crate) fn approved(&self, id: &str) -> OperationId {
        let scope: Vec<ComponentName> = self.state().launches.keys().cloned().collect();
        let ask = Ask::restart(name(id), scope, "it is stale");
        let caller = Caller::operator(name("ops"));
        let operation = finish(self.governor().request(&caller, &ask, self)).unwrap();
        assert_eq!(operation.phase, Phase::Approved);
        operation.id
    }

    /// What a decision sees now.
    pub(crate) fn view(&self) -> View {
        let listing = finish(self.store.inner.list("")).unwrap();
        View::new(listing.epoch, listing.revision, listing.records)
    }

    /// Restarts with these ids that were asked for and cancelled, one after the other, as one commit.
    pub(crate) fn cancelled(&self, ids: impl Iterator<Item = OperationId>) {
        let ask = Ask::restart(name("first"), vec![name("files")], "again");
        finish(self.governor().request(&Caller::local(), &ask, self)).unwrap();
        let first = finish(self.governor().cancel(&Caller::local(), &ask.id)).unwrap();
        let view = self.view();
        let txn = ids.fold(Txn::new().delete(&view, &Operation::key(&first.id)), |txn, id| {
            self.clock.advance(10);
            let key = Operation::key(&id);
            txn.put(&view, &key, &Operation { id, ended_at: Some(self.clock.now().wall), ..first.clone() })
        });
        finish(self.store.inner.commit(txn)).unwrap();
    }

    pub(crate) fn operation(&self, id: &OperationId) -> Operation {
        finish(self.governor().get(id)).unwrap()
    }

    pub(crate) fn component(&self, component: &str) -> Component {
        finish(self.governor().components().get(&name(component))).unwrap()
    }

    pub(crate) fn open_incidents(&self) -> Vec<Incident> {
        let incidents = finish(tidegate_incidents::list(&self.store.inner)).unwrap();
        incidents.into_iter().filter(Incident::is_open).collect()
    }

    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let listing = finish(self.store.inner.list(prefix)).unwrap();
        listing.records.iter().map(|record| record.key.to_string()).collect()
    }

    pub(crate) fn say(&self, line: impl AsRef<str>) {
        let line = stamped(&self.clock, line.as_ref());
        self.state().diary.push(line);
    }

    /// What to call with each commit, so that the phases it makes durable are in the diary.
    pub(crate) fn diary_of_phases(&self) -> impl Fn(&Txn) + Send + use<> {
        let (clock, state) = (self.clock.clone(), self.state.clone());
        move |txn| {
            let written = |(key, value): (&Key, &Option<Arc<[u8]>>)| {
                let operation = key.as_str().strip_prefix("operation/")?;
                let record: Operation = serde_json::from_slice(value.as_ref()?).unwrap();
                let with: BTreeSet<&str> =
                    txn.writes.keys().filter_map(|key| key.as_str().split('/').next()).collect();
                let with: Vec<&str> = with.into_iter().filter(|kind| *kind != "operation").collect();
                let with =
                    if with.is_empty() { String::new() } else { format!(" (with {})", with.join(", ")) };
                let reopened = if record.reopened_at.is_some() { ", over" } else { "" };
                Some(format!("{operation} is {}{reopened}{with}", record.phase))
            };
            let lines = txn.writes.iter().filter_map(written).map(|line| stamped(&clock, &line));
            state.lock().unwrap().diary.extend(lines);
        }
    }

    /// The operation under way, else the newest.
    async fn durable(&self) -> Option<Operation> {
        let listing = self.store.inner.list("operation/").await.unwrap();
        let operations = listing.records.iter().map(|record| serde_json::from_slice(&record.value).unwrap());
        let acts = |o: &Operation| (o.phase.is_running() && o.phase != Phase::Approved) || o.is_to_reopen();
        operations.max_by_key(|operation| (acts(operation), operation.requested_at))
    }

    async fn durable_phase(&self) -> Option<Phase> {
        self.durable().await.map(|operation| operation.phase)
    }

    /// The component's record; none when the store can't be read.
    async fn durable_component(&self, component: &ComponentName) -> Option<Component> {
        let record = self.store.inner.get(&Component::key(component)).await.ok()?.unwrap();
        Some(serde_json::from_slice(&record.value).unwrap())
    }
}

impl Actuator for World {
    fn launch<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Option<LaunchIdentity>> {
        Box::pin(async move {
            pause().await;
            self.state().launches.get(component).cloned()
        })
    }

    fn close<'a>(
        &'a self,
        scope: &'a [ComponentName],
        drain: &'a DrainId,
    ) -> BoxFuture<'a, Result<(), CloseError>> {
        Box::pin(async move {
            pause().await;
            let phase = self.durable_phase().await.unwrap();
            assert!(phase == Phase::Draining || phase.is_past_return(), "closed while {phase}");
            for component in scope {
                if let Some(by) = self.state().gates.get(component).filter(|by| *by != drain) {
                    return Err(CloseError { component: component.clone(), by: by.clone() });
                }
            }
            self.state().gates.extend(scope.iter().map(|c| (c.clone(), drain.clone())));
            self.say(format!("{phase}: gates closed"));
            pause().await;
            Ok(())
        })
    }

    fn reopen<'a>(&'a self, scope: &'a [ComponentName], drain: &'a DrainId) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            pause().await;
            let operation = self.durable().await.unwrap();
            assert!(operation.phase.is_end(), "reopened while {}", operation.phase);
            let needs_incident = matches!(operation.phase, Phase::Failed | Phase::Refused);
            assert_eq!(operation.incident.is_some(), needs_incident, "{}", operation.phase);
            if let Some(incident) = &operation.incident {
                let record = self.store.inner.get(&tidegate_incidents::key(incident)).await.unwrap();
                assert!(record.is_some(), "the gate opens before its incident is durable");
            }
            self.state().gates.retain(|component, by| by != drain || !scope.contains(component));
            self.say(format!("{}: gates open", operation.phase));
            pause().await;
        })
    }

    fn await_drain<'a>(
        &'a self,
        _: &'a [ComponentName],
        _: &'a DrainId,
        deadline: Deadline,
        progress: &'a (dyn Fn(&[Holder]) + Send + Sync),
    ) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            pause().await;
            let drains = self.state().drains.clone();
            let verdict = match drains {
                Drains::Drained(read_only) => {
                    self.clock.advance(700);
                    Verdict::Drained { read_only }
                }
                Drains::Refused(holders) => {
                    progress(&holders);
                    for holder in &holders {
                        self.say(format!("waiting for {holder}"));
                    }
                    pause().await;
                    self.clock.advance(deadline.remaining(&self.clock.now()).as_millis().try_into().unwrap());
                    Verdict::Refused { holders }
                }
                Drains::Never => std::future::pending().await,
            };
            pause().await;
            verdict
        })
    }

    fn settle_left<'a>(
        &'a self,
        scope: &'a [ComponentName],
        _deadline: Deadline,
    ) -> BoxFuture<'a, BTreeMap<ComponentName, String>> {
        let left = self.state().left.clone();
        Box::pin(async move { left.into_iter().filter(|(name, _)| scope.contains(name)).collect() })
    }

    fn session_facts<'a>(&'a self, scope: &'a [ComponentName]) -> BoxFuture<'a, Vec<Draft>> {
        Box::pin(async move {
            pause().await;
            // A governor that was given up may still ask: it changes nothing.
            let phase = self.durable_phase().await.unwrap();
            assert!(phase == Phase::Checkpointing || phase.is_end(), "gathered while {phase}");
            let mut draft = Draft::new(name::<SessionId>("local/s1"));
            draft.covers = scope.iter().cloned().collect();
            vec![draft]
        })
    }

    fn stop<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<(), StopError>> {
        Box::pin(async move {
            pause().await;
            assert_eq!(self.durable_phase().await, Some(Phase::Stopping));
            let checkpoint = self.store.inner.get(&tidegate_checkpoints::key(&name("local/s1"))).await;
            assert!(checkpoint.unwrap().is_some(), "a server is stopped before the checkpoint is durable");
            if self.state().undying.contains(component) {
                let message = "pid 99 of its tree is still there".to_owned();
                self.say(format!("{component}: {message}"));
                return Err(StopError { component: component.clone(), message });
            }
            let stopped = self.state().running.remove(component);
            if let Some((generation, _)) = stopped {
                self.clock.advance(200);
                self.state().stops += 1;
                self.say(format!("{component}: generation {generation} stopped, its death is proved"));
            }
            pause().await;
            Ok(())
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
            pause().await;
            let fail = |message: &str| StartError {
                component: component.clone(),
                message: message.to_owned(),
                stderr: "Error: cannot find module".to_owned(),
            };
            if let Some(record) = self.durable_component(component).await {
                assert_eq!(record.generation, generation, "durable first");
            }
            let before = self.state().highest.insert(component.clone(), generation);
            assert!(before.is_none_or(|before| before < generation), "{component}: {before:?} {generation}");
            assert!(!self.state().running.contains_key(component), "{component} runs twice");
            let bad = self.state().bad_starts.get_mut(component).is_some_and(|left| {
                let bad = *left > 0;
                *left = left.saturating_sub(1);
                bad
            });
            if bad {
                self.say(format!("{component}: generation {generation} exits at once"));
                return Err(fail("it exited with status 1"));
            }
            let process = ProcessIdentity {
                boot: BootId(7),
                pid_ns: 1,
                pid: 100 + u32::try_from(generation.0).unwrap(),
                start_ticks: generation.0,
                nonce: format!("{component}-{generation}"),
            };
            if let Err(error) = identity.record(&process).await {
                return Err(fail(&error.to_string()));
            }
            if let Some(record) = self.durable_component(component).await {
                assert_eq!(record.process.as_ref(), Some(&process), "durable before the program runs");
            }
            self.clock.advance(300);
            self.state().running.insert(component.clone(), (generation, process.clone()));
            self.state().starts += 1;
            self.state().started_as.push(launch.clone());
            self.say(format!("{component}: generation {generation} started"));
            pause().await;
            Ok(())
        })
    }

    fn verify<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<Verified, VerifyError>> {
        Box::pin(async move {
            pause().await;
            assert_eq!(self.durable_phase().await, Some(Phase::Verifying));
            assert!(self.state().running.contains_key(component));
            let bad = self.state().bad_verifies.get_mut(component).is_some_and(|left| {
                let bad = *left > 0;
                *left = left.saturating_sub(1);
                bad
            });
            if bad {
                self.say(format!("{component}: no answer to initialize"));
                return Err(VerifyError {
                    component: component.clone(),
                    message: "no answer to initialize".to_owned(),
                    stderr: String::new(),
                });
            }
            let shown = self.state().shows.clone();
            self.say(format!("{component}: verified, {} tools", shown.tools));
            Ok(shown)
        })
    }

    fn resumed<'a>(&'a self, resumed: &'a Resumed) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            pause().await;
            self.state().unavailable.remove(&resumed.component);
            self.say(format!("{}: sessions go on at generation {}", resumed.component, resumed.generation));
        })
    }

    fn unavailable<'a>(
        &'a self,
        component: &'a ComponentName,
        incident: &'a IncidentId,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            pause().await;
            self.state().unavailable.insert(component.clone(), incident.clone());
            self.say(format!("{component}: unavailable"));
        })
    }
}
