//! Fake sessions before real gates: a store, time that moves when told, and drains that are polled by hand.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tidegate_core::{BoxFuture, Clock, ComponentName, Now, Timer, WorkClass};
use tidegate_drain::{Begin, Drains, Gate, WorkInfo};
use tidegate_scenario::ManualClock;
use tidegate_store::{MemoryStore, Store, View};

/// Room for as much as any test here does at once.
const CAPACITY: usize = 64;

/// Alarms that ring when the clock has been moved past them.
pub(crate) struct ManualTimer {
    clock: Arc<ManualClock>,
    set: Arc<Mutex<BTreeSet<u64>>>,
}

impl Timer for ManualTimer {
    fn sleep_until(&self, boot_ms: u64) -> BoxFuture<'static, ()> {
        let clock = self.clock.clone();
        self.set.lock().unwrap().insert(boot_ms);
        Box::pin(poll_fn(
            move |_| {
                if clock.now().boot_ms >= boot_ms { Poll::Ready(()) } else { Poll::Pending }
            },
        ))
    }
}

/// One process with two components, `files` and `search`, and what outlives it.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    alarms: Arc<Mutex<BTreeSet<u64>>>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) drains: Arc<Drains>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(MemoryStore::new(), Arc::default())
    }

    fn on(store: MemoryStore, clock: Arc<ManualClock>) -> Self {
        let gates: Vec<Gate> = ["files", "search"].map(|name| Gate::new(component(name), CAPACITY)).into();
        let alarms = Arc::<Mutex<BTreeSet<u64>>>::default();
        let timer = ManualTimer { clock: clock.clone(), set: alarms.clone() };
        let drains = Drains::new(Arc::new(store.clone()), clock.clone(), Arc::new(timer), gates.clone());
        Self { store, clock, alarms, gates, drains: Arc::new(drains) }
    }

    /// The process dies, everything in its memory with it, and another one starts.
    pub(crate) fn crash(&mut self) {
        self.store.crash(|_| false);
        *self = Self::on(self.store.clone(), self.clock.clone());
    }

    pub(crate) fn gate(&self, name: &str) -> &Gate {
        self.gates.iter().find(|gate| gate.component().as_str() == name).unwrap()
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The next alarm that rings no later than `until_ms`.
    pub(crate) fn next_alarm(&self, until_ms: u64) -> Option<u64> {
        let mut alarms = self.alarms.lock().unwrap();
        alarms.first().copied().filter(|at| *at <= until_ms).inspect(|at| _ = alarms.remove(at))
    }

    /// What a decision sees now.
    pub(crate) fn view(&self) -> View {
        let listing = wait(self.store.list("drain/")).unwrap();
        View::new(listing.epoch, listing.revision, listing.records)
    }
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

/// Polls once; nobody is woken, the test polls again when something has happened.
pub(crate) fn poll_once<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

pub(crate) fn component(name: &str) -> ComponentName {
    name.parse().unwrap()
}

pub(crate) fn work(session: &str, component: &str, tool: &str, class: WorkClass) -> Arc<WorkInfo> {
    Arc::new(WorkInfo {
        session: format!("local/{session}").parse().unwrap(),
        component: component.parse().unwrap(),
        tool: tool.into(),
        class,
    })
}

pub(crate) fn begin(id: &str, by: &str, scope: &[&str], deadline_ms: u64) -> Begin {
    Begin {
        id: id.parse().unwrap(),
        operation: None,
        scope: scope.iter().map(|name| component(name)).collect(),
        requested_by: by.parse().unwrap(),
        deadline: Duration::from_millis(deadline_ms),
    }
}
