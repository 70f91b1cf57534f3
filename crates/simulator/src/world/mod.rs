//! The simulated machine: its clocks, its processes, its store, what is seen of it. It belongs to nobody: daemons and
//! clients die, it stays.

mod keeper;
mod program;
mod server;
mod store;
mod time;

pub(crate) use keeper::KeptCall;
pub(crate) use program::Executing;
pub(crate) use server::{BROKEN, Said};
pub(crate) use store::SimStore;
pub(crate) use time::UP_MS;

use crate::chance::{Ids, generator};
use crate::daemon::Daemon;
use crate::executor::Executor;
use crate::observe::Seen;
use crate::story::Story;
use keeper::Kept;
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_core::{Clock, ComponentName, Liveness, Now, Probe, ProcessIdentity};
use tidegate_governor::LaunchIdentity;
use tidegate_scenario::Timeline;
use time::{BOOT, SimClock};

/// The machine of one run.
pub(crate) struct World {
    pub(crate) executor: Executor,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) store: SimStore,
    pub(crate) ids: Arc<Ids>,
    pub(crate) story: Story,
    inner: Mutex<Inner>,
}

struct Inner {
    last_pid: u32,
    alive: BTreeSet<u32>,
    servers: BTreeMap<u32, Server>,
    /// What keepers leave in the state directory, by the nonces of their servers.
    kept: BTreeMap<String, Kept>,
    /// What each component would be started as.
    launches: BTreeMap<ComponentName, LaunchIdentity>,
    /// The daemon that accepts.
    daemon: Option<Arc<Daemon>>,
    /// The daemon that runs, whether it accepts or not.
    running: Option<Arc<Daemon>>,
    /// Somebody works on the store: no daemon is started.
    maintenance: bool,
    /// Things go wrong.
    chaos: bool,
    step: u64,
    news: Vec<Seen>,
    timeline: Timeline,
}

impl World {
    pub(crate) fn new(story: Story) -> Arc<Self> {
        let order = story.shuffled.then(|| generator(story.seed, "order"));
        let executor = Executor::new(order);
        let store = SimStore::new(&executor, story.seed, story.faults);
        let launches = story.components.iter().map(|c| (c.name.clone(), launch(&c.name, 1))).collect();
        let inner = Inner {
            last_pid: 100,
            alive: BTreeSet::new(),
            servers: BTreeMap::new(),
            kept: BTreeMap::new(),
            launches,
            daemon: None,
            running: None,
            maintenance: false,
            chaos: !story.calm,
            step: 0,
            news: Vec::new(),
            timeline: Timeline::default(),
        };
        let clock = Arc::new(SimClock::new(executor.clone()));
        let ids = Arc::new(Ids::new(story.seed));
        Arc::new(Self { executor, clock, store, ids, story, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// A generator for one purpose.
    pub(crate) fn generator(&self, purpose: &str) -> fastrand::Rng {
        generator(self.story.seed, purpose)
    }

    pub(crate) fn is_chaos(&self) -> bool {
        self.inner().chaos
    }

    /// From now on nothing goes wrong by itself; what stalled goes on.
    pub(crate) fn calm_down(&self) {
        self.inner().chaos = false;
        self.store.calm_down();
        self.say("world", "nothing goes wrong from here on");
    }

    /// Writes a line of the timeline.
    pub(crate) fn say(&self, actor: impl Display, text: impl Display) {
        let at_ms = self.executor.now_ms();
        self.inner().timeline.note(at_ms, format!("{actor}: {text}"));
    }

    pub(crate) fn timeline(&self) -> String {
        self.inner().timeline.to_string()
    }

    /// Tells the observer.
    pub(crate) fn see(&self, seen: Seen) {
        self.inner().news.push(seen);
    }

    pub(crate) fn take_news(&self) -> Vec<Seen> {
        std::mem::take(&mut self.inner().news)
    }

    /// The number of the step that is being made. What is decided in an earlier step was decided before.
    pub(crate) fn step(&self) -> u64 {
        self.inner().step
    }

    pub(crate) fn next_step(&self) {
        self.inner().step += 1;
    }

    /// A new process.
    pub(crate) fn born(&self, nonce: &str) -> ProcessIdentity {
        let mut inner = self.inner();
        inner.last_pid += 1;
        let pid = inner.last_pid;
        inner.alive.insert(pid);
        ProcessIdentity { boot: BOOT, pid_ns: 1, pid, start_ticks: u64::from(pid), nonce: nonce.to_owned() }
    }

    /// The end of a process that is no server.
    pub(crate) fn dies(&self, process: &ProcessIdentity) {
        self.inner().alive.remove(&process.pid);
    }

    pub(crate) fn is_alive(&self, pid: u32) -> bool {
        self.inner().alive.contains(&pid)
    }

    /// What the component would be started as now.
    pub(crate) fn launch(&self, component: &ComponentName) -> Option<LaunchIdentity> {
        self.inner().launches.get(component).cloned()
    }

    /// Somebody replaces the component's executable.
    pub(crate) fn replace_executable(&self, component: &ComponentName, version: u32) {
        self.say("world", format!("the executable of {component} is replaced (version {version})"));
        self.inner().launches.insert(component.clone(), launch(component, version));
    }

    /// The daemon, while there is one. Not to be kept across an await.
    pub(crate) fn daemon(&self) -> Option<Arc<Daemon>> {
        self.inner().daemon.clone()
    }

    pub(crate) fn daemon_is(&self, daemon: Option<Arc<Daemon>>) {
        let before = std::mem::replace(&mut self.inner().daemon, daemon);
        drop(before); // outside the lock: what it owned may wake others
    }

    /// The daemon that runs. Not to be kept across an await.
    pub(crate) fn running(&self) -> Option<Arc<Daemon>> {
        self.inner().running.clone()
    }

    /// From now on this one runs; answers the one before.
    pub(crate) fn running_is(&self, daemon: Option<Arc<Daemon>>) -> Option<Arc<Daemon>> {
        std::mem::replace(&mut self.inner().running, daemon)
    }

    /// Whether somebody works on the store.
    pub(crate) fn is_maintained(&self) -> bool {
        self.inner().maintenance
    }

    pub(crate) fn maintain(&self, begins: bool) {
        self.inner().maintenance = begins;
    }

    /// Ends everything that is left, so that nothing keeps anything else alive.
    pub(crate) fn close(&self) {
        self.daemon_is(None);
        drop(self.running_is(None));
        self.executor.kill_all();
        self.inner().servers.clear();
        self.store.close();
    }
}

impl Probe for World {
    fn liveness(&self, process: &ProcessIdentity) -> Liveness {
        if self.is_alive(process.pid) { Liveness::Alive } else { Liveness::Dead }
    }
}

fn launch(component: &ComponentName, version: u32) -> LaunchIdentity {
    LaunchIdentity {
        command: component.to_string(),
        args: Vec::new(),
        cwd: None,
        env: BTreeMap::new(),
        executable: format!("/opt/{component}"),
        executable_sha256: format!("{version:064x}"),
        settings: String::new(),
    }
}
