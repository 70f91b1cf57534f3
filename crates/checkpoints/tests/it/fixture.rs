//! Several fake clients with processes that can die, and Tidegate itself, on one store.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tidegate_checkpoints::{Attach, Attached, CallFact, CallState, CheckpointError, Checkpoints, Wanted};
use tidegate_core::{BootId, Clock, Liveness, Now, Probe, ProcessIdentity, SessionId, WorkClass};
use tidegate_scenario::{CountingIds, ManualClock};
use tidegate_store::{MemoryStore, Store, View};

/// Knows of each fake process whether it is dead.
#[derive(Default)]
pub(crate) struct FakeProbe(Mutex<BTreeSet<u32>>);

impl FakeProbe {
    pub(crate) fn dies(&self, pid: u32) {
        self.0.lock().unwrap().insert(pid);
    }
}

impl Probe for FakeProbe {
    fn liveness(&self, process: &ProcessIdentity) -> Liveness {
        if self.0.lock().unwrap().contains(&process.pid) { Liveness::Dead } else { Liveness::Alive }
    }
}

/// One store, a clock set by hand, ids that count, processes that die on command.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ids: Arc<CountingIds>,
    pub(crate) probe: Arc<FakeProbe>,
    pub(crate) sessions: Checkpoints,
}

impl World {
    pub(crate) fn new() -> Self {
        let (store, clock, ids, probe) =
            (MemoryStore::new(), Arc::default(), Arc::default(), Arc::<FakeProbe>::default());
        let sessions = shell(&store, &clock, &ids, &probe);
        Self { store, clock, ids, probe, sessions }
    }

    /// What a fresh process sees of the same store.
    pub(crate) fn fresh_process(&self) -> Checkpoints {
        shell(&self.store, &self.clock, &self.ids, &self.probe)
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// What a decision sees now.
    pub(crate) fn view(&self) -> View {
        let listing = wait(self.store.list("")).unwrap();
        View::new(listing.epoch, listing.revision, listing.records)
    }

    /// A connection of client `pid` to the session `name` of `local`.
    pub(crate) fn attach(&self, pid: u32, name: &str, stream: &str) -> Result<Attached, CheckpointError> {
        wait(self.sessions.attach(&connection(pid, name, stream)))
    }
}

fn shell(
    store: &MemoryStore,
    clock: &Arc<ManualClock>,
    ids: &Arc<CountingIds>,
    probe: &Arc<FakeProbe>,
) -> Checkpoints {
    Checkpoints::new(Arc::new(store.clone()), clock.clone(), ids.clone(), probe.clone())
}

pub(crate) fn connection(pid: u32, name: &str, stream: &str) -> Attach {
    let wanted = Wanted::own("local".parse().unwrap(), Some(name.parse().unwrap()), Some(process(pid)));
    Attach::new(wanted, stream, Some("files".parse().unwrap()))
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

pub(crate) fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { boot: BootId(1), pid_ns: 1, pid, start_ticks: u64::from(pid), nonce: String::new() }
}

pub(crate) fn session(name: &str) -> SessionId {
    format!("local/{name}").parse().unwrap()
}

pub(crate) fn call(id: &str, tool: &str, class: WorkClass, state: CallState) -> CallFact {
    CallFact { id: id.to_owned(), component: "files".parse().unwrap(), tool: tool.to_owned(), class, state }
}
