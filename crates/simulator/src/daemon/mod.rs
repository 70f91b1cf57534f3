//! The daemon of one incarnation: the crates' own decisions and shells, composed as the gateway composes them. It dies at
//! any await, and its successor knows nothing but the store.

mod acquaintance;
mod actor;
mod component;
mod connection;
mod context;
mod control;
mod effects;
mod estate;
mod housekeeping;
mod life;
mod operations;
mod plant;
mod registry;
mod revive;

pub(crate) use component::{Mark, Outbox, ToShim};
pub(crate) use connection::{Hello, Reported};
pub(crate) use control::{Answer, Request, Wish};

use crate::channel::{Receiver, Sender, channel};
use crate::executor::Group;
use crate::observe::Seen;
use crate::story::ComponentPlan;
use crate::world::World;
use context::Context;
use estate::Estate;
use plant::Plant;
use registry::Registry;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_checkpoints::Checkpoints;
use tidegate_core::{Clock, ComponentName, Entropy, Probe, SessionId};
use tidegate_drain::Gate;
use tidegate_governor::{Caller, Components, Governor, Parts, Upkeep};
use tidegate_incidents::Incidents;
use tidegate_leases::Leases;
use tidegate_relay::{Classified, Classifier, LeaseRules, Relay, RelayConfig};
use tidegate_store::Store;

/// Calls in flight to one component: more than anybody here makes at a time.
const GATE_CAPACITY: usize = 64;

/// One daemon.
pub(crate) struct Daemon {
    ctx: Arc<Context>,
    governor: Governor,
    plant: Arc<Plant>,
    registry: Arc<Registry>,
    active: Mutex<BTreeSet<SessionId>>,
    /// Numbers its streams.
    streams: AtomicU64,
}

impl Daemon {
    /// Starts a daemon over whatever is in the store. It accepts a little later, and has recovered later still.
    pub(crate) fn start(world: &Arc<World>) -> Arc<Self> {
        let group = world.executor.group();
        let daemon = Arc::new(Self::build(world, group));
        world.say("daemon", format!("starts ({})", group.0));
        world.see(Seen::DaemonStarted);
        let booting = daemon.clone();
        world.executor.spawn(group, async move { booting.boot().await });
        daemon
    }

    #[allow(clippy::expect_used)] // The policies of stories can be served; `Policy::check` has its own tests.
    fn build(world: &Arc<World>, group: Group) -> Self {
        let store: Arc<dyn Store> = Arc::new(world.store.clone());
        let clock: Arc<dyn Clock> = world.clock.clone();
        let entropy: Arc<dyn Entropy> = world.ids.clone();
        let probe: Arc<dyn Probe> = world.clone();
        let plans = &world.story.components;
        let gates: Vec<Gate> = plans.iter().map(|c| Gate::new(c.name.clone(), GATE_CAPACITY)).collect();
        let registry = Arc::new(Registry::new(gates.clone(), clock.clone()));
        let governor = Governor::new(Parts {
            store: store.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            probe: probe.clone(),
            sessions: registry.clone(),
            policy: world.story.policy(),
        })
        .expect("a story's policy can be served");
        let leases = Leases::new(store.clone(), clock.clone(), entropy.clone(), probe.clone())
            .with_sessions(registry.clone());
        // Nobody could renew while there was no daemon, and nobody knows for how long that was.
        leases.begin_after(tidegate_leases::MAX_TTL);
        let ctx = Arc::new(Context {
            world: world.clone(),
            group,
            components: Components::new(store.clone(), entropy.clone()),
            checkpoints: Checkpoints::new(store.clone(), clock.clone(), entropy.clone(), probe),
            incidents: Incidents::new(store.clone(), clock.clone(), entropy.clone()),
            upkeep: Upkeep::new(store.clone(), clock, entropy),
            store,
            leases,
            registry: registry.clone(),
            estate: Estate::default(),
        });
        let handles = plans.iter().zip(gates).map(|(plan, gate)| {
            let relay = Relay::new(gate, relay_config(world, plan));
            actor::start(&ctx, plan.clone(), relay)
        });
        let plant = Arc::new(Plant::new(ctx.clone(), handles.collect::<Vec<_>>()));
        Self { ctx, governor, plant, registry, active: Mutex::default(), streams: AtomicU64::new(0) }
    }

    async fn boot(self: Arc<Self>) {
        let settled = self.ctx.upkeep.settle_left().await;
        self.ctx.grumble("what sessions have left could not be settled", settled);
        self.detach_all().await;
        self.expect_old_servers().await;
        self.ctx.world.daemon_is(Some(self.clone()));
        operations::recover(&self).await;
        self.plant.hands_on().await;
        housekeeping::run(&self).await;
    }

    /// No connection survives a daemon: what its predecessor recorded as connected isn't.
    async fn detach_all(&self) {
        let sessions = self.ctx.grumble("the sessions can't be read", self.ctx.checkpoints.list().await);
        for checkpoint in sessions.into_iter().flatten().filter(|c| c.ended.is_none()) {
            self.registry.set_unsure(&checkpoint.session, checkpoint.has_to_verify());
            if !checkpoint.is_attached() {
                continue;
            }
            let gone = self.ctx.checkpoints.detach(&checkpoint.session, None).await;
            self.ctx.grumble("a session can't be detached", gone);
        }
    }

    /// Servers of earlier daemons may still be working, and late answers may come of that.
    async fn expect_old_servers(&self) {
        let left = self.ctx.grumble("the components can't be read", self.ctx.components.list().await);
        for process in left.into_iter().flatten().filter_map(|component| component.process) {
            self.ctx.estate.expect(&process.nonce);
        }
    }

    /// Which of the run's daemons it is.
    pub(crate) fn incarnation(&self) -> Group {
        self.ctx.group
    }

    /// The signal that ends it: an operation over all components. Answers once it may exit.
    pub(crate) fn terminate(self: &Arc<Self>) -> Receiver<()> {
        let (done, ended) = channel();
        let daemon = self.clone();
        self.ctx.world.executor.spawn(self.ctx.group, async move {
            operations::shut_down(&daemon).await;
            done.send(());
        });
        ended
    }

    /// Killed, or at its end: nothing of it goes any further.
    pub(crate) fn dies(self: Arc<Self>, how: &str) {
        let (world, group) = (self.ctx.world.clone(), self.ctx.group);
        world.say("daemon", format!("{how} ({})", group.0));
        world.daemon_is(None);
        drop(self);
        world.executor.kill(group);
        world.store.crash();
        world.pipes_close(group);
        world.see(Seen::DaemonDied);
    }

    /// A connection to a component: lines go in through what is answered, everything else comes out to `shim`.
    pub(crate) fn connect(self: &Arc<Self>, hello: Hello, shim: Outbox) -> Sender<Vec<u8>> {
        let (to_daemon, lines) = channel();
        let daemon = self.clone();
        self.ctx.world.executor.spawn(self.ctx.group, async move {
            connection::serve(&daemon, hello, shim, lines).await;
        });
        to_daemon
    }

    /// A request of the API; no answer at all means that the daemon has died.
    pub(crate) fn ask(
        self: &Arc<Self>,
        caller: Caller,
        session: Option<SessionId>,
        request: Request,
    ) -> Receiver<Answer> {
        let (answer, answered) = channel();
        let daemon = self.clone();
        self.ctx.world.executor.spawn(self.ctx.group, async move {
            answer.send(control::handle(&daemon, &caller, session.as_ref(), request).await);
        });
        answered
    }

    fn active(&self, session: &SessionId) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone());
    }

    fn take_active(&self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn names(&self) -> Vec<ComponentName> {
        self.ctx.world.story.components.iter().map(|c| c.name.clone()).collect()
    }
}

#[allow(clippy::expect_used)] // The rule is a constant; `LeaseRules::new` has its own tests.
fn relay_config(world: &World, plan: &ComponentPlan) -> RelayConfig {
    let rules = ["read", "put", "write", "extra"].map(|tool| {
        let class = World::class_of(tool);
        (tool.to_owned(), Classified { class, replay: tool == "put" && plan.replay })
    });
    // The name of the lease is an argument of the call.
    let leases = plan.leased.then(|| ("write".to_owned(), "{/lease}".to_owned()));
    RelayConfig {
        leases: LeaseRules::new(leases).expect("a lease named by an argument is a rule"),
        hold: world.story.hold(),
        call_timeout: plan.call_timeout(),
        classifier: Classifier::new(rules, false),
        ..RelayConfig::default()
    }
}
