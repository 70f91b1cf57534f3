//! Several fake sessions, an operator and Tidegate itself, reporting to one store.

use std::sync::Arc;
use tidegate_core::{IncidentId, Now};
use tidegate_incidents::{Actor, IncidentKind, Incidents, Report, Severity};
use tidegate_scenario::{CountingIds, ManualClock};
use tidegate_store::{MemoryStore, Store, View};

/// One store, a clock set by hand, ids that count.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<CountingIds>,
    pub(crate) incidents: Incidents,
}

impl World {
    pub(crate) fn new() -> Self {
        let (store, clock, ids) = (MemoryStore::new(), Arc::default(), Arc::default());
        let incidents = shell(&store, &clock, &ids);
        Self { store, clock, ids, incidents }
    }

    /// What a fresh process sees of the same store.
    pub(crate) fn fresh_process(&self) -> Incidents {
        shell(&self.store, &self.clock, &self.ids)
    }

    pub(crate) fn now(&self) -> Now {
        tidegate_core::Clock::now(&*self.clock)
    }

    /// What a decision sees now.
    pub(crate) fn view(&self) -> View {
        let listing = wait(self.store.list("incident")).unwrap();
        View::new(listing.epoch, listing.revision, listing.records)
    }

    /// Everything that is stored, as text.
    pub(crate) fn raw(&self) -> String {
        let records = wait(self.store.list("")).unwrap().records;
        records.iter().map(|r| format!("{} {}\n", r.key, String::from_utf8_lossy(&r.value))).collect()
    }
}

fn shell(store: &MemoryStore, clock: &Arc<ManualClock>, ids: &Arc<CountingIds>) -> Incidents {
    Incidents::new(Arc::new(store.clone()), clock.clone(), ids.clone())
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

/// `ops` is an operator, `gate` is Tidegate, everybody else a session of `local`.
pub(crate) fn actor(name: &str) -> Actor {
    match name {
        "gate" => Actor::Tidegate,
        "ops" => Actor::Operator(name.parse().unwrap()),
        name => Actor::Session(format!("local/{name}").parse().unwrap()),
    }
}

pub(crate) fn id(id: &str) -> IncidentId {
    id.parse().unwrap()
}

pub(crate) fn crashed(component: &str) -> Report {
    let title = format!("{component} ended with status 1");
    Report::new(IncidentKind::ComponentCrashed, component, Severity::Warning, title)
}
