//! A world set by hand: a store in memory, a clock, clients that live, hide and die. The shell and the decisions in it
//! are the real ones.

use pollster::block_on;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_core::{BootId, Clock, Fence, Liveness, Now, Probe, ProcessIdentity, SessionId, WorkClass};
use tidegate_leases::{
    Acquire, Acquired, Adopt, By, LeaseError, LeaseKey, LeaseState, Leases, Owner, Release, Renew,
    SessionFacts, Sessions,
};
use tidegate_scenario::{CountingIds, ManualClock};
use tidegate_store::MemoryStore;

/// What everybody in the world knows about clients and their sessions.
#[derive(Debug, Default)]
pub(crate) struct People {
    processes: Mutex<BTreeMap<u32, Liveness>>,
    sessions: Mutex<BTreeMap<SessionId, SessionFacts>>,
}

impl People {
    /// A new process; its pid is its number.
    pub(crate) fn born(&self) -> ProcessIdentity {
        let mut processes = self.processes.lock().unwrap();
        let pid = 100 + u32::try_from(processes.len()).unwrap();
        processes.insert(pid, Liveness::Alive);
        ProcessIdentity {
            boot: BootId(1),
            pid_ns: 1,
            pid,
            start_ticks: u64::from(pid),
            nonce: format!("n{pid}"),
        }
    }

    pub(crate) fn is_now(&self, process: &ProcessIdentity, liveness: Liveness) {
        self.processes.lock().unwrap().insert(process.pid, liveness);
    }

    pub(crate) fn session(&self, session: &SessionId, change: impl FnOnce(&mut SessionFacts)) {
        change(self.sessions.lock().unwrap().entry(session.clone()).or_default());
    }
}

impl Probe for People {
    fn liveness(&self, process: &ProcessIdentity) -> Liveness {
        self.processes.lock().unwrap().get(&process.pid).copied().unwrap_or(Liveness::Unknown)
    }
}

impl Sessions for People {
    fn facts(&self, session: &SessionId) -> SessionFacts {
        self.sessions.lock().unwrap().get(session).cloned().unwrap_or_default()
    }
}

/// The world.
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) people: Arc<People>,
    pub(crate) store: MemoryStore,
    pub(crate) leases: Leases,
    nonces: Mutex<u64>,
}

/// One client of the world: its session and its process.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) owner: Owner,
}

impl World {
    pub(crate) fn new() -> Self {
        let (clock, people, store) = (Arc::new(ManualClock::default()), Arc::default(), MemoryStore::new());
        let leases = manager(&store, &clock, &people);
        Self { clock, people, store, leases, nonces: Mutex::new(0) }
    }

    /// A client with a process of its own.
    pub(crate) fn client(&self, name: &str) -> Client {
        Client { owner: Owner { session: session(name), process: Some(self.people.born()) } }
    }

    /// A client that is somewhere else: there is no process to look at.
    pub(crate) fn remote(&self, name: &str) -> Client {
        Client { owner: Owner { session: session(name), process: None } }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.advance_to(self.now().boot_ms + seconds * 1_000);
    }

    pub(crate) fn dies(&self, client: &Client) {
        self.people.is_now(client.owner.process.as_ref().unwrap(), Liveness::Dead);
    }

    pub(crate) fn hides(&self, client: &Client) {
        self.people.is_now(client.owner.process.as_ref().unwrap(), Liveness::Unknown);
    }

    /// A request for `repo/main`, for 30 s.
    pub(crate) fn request(&self, client: &Client, class: WorkClass) -> Acquire {
        let mut nonces = self.nonces.lock().unwrap();
        *nonces += 1;
        Acquire {
            key: key("repo/main"),
            owner: client.owner.clone(),
            class,
            ttl: Duration::from_secs(30),
            max_ttl: None,
            nonce: format!("nonce-{nonces}"),
        }
    }

    pub(crate) fn acquire(&self, client: &Client, class: WorkClass) -> Result<Acquired, LeaseError> {
        block_on(self.leases.acquire(self.request(client, class)))
    }

    pub(crate) fn renew(&self, client: &Client, fence: Fence) -> Result<(), LeaseError> {
        let renew = Renew { key: key("repo/main"), owner: client.owner.clone(), fence };
        block_on(self.leases.renew(&renew)).map(drop)
    }

    pub(crate) fn release(&self, client: &Client, fence: Fence) -> Result<(), LeaseError> {
        let by = By::Holder(client.owner.session.clone());
        block_on(self.leases.release(&Release { key: key("repo/main"), by, fence })).map(drop)
    }

    pub(crate) fn adopt(&self, fence: Fence, to: &Client) -> Result<Fence, LeaseError> {
        let adopt = Adopt {
            key: key("repo/main"),
            fence,
            by: "ops".parse().unwrap(),
            why: "nobody answers".to_owned(),
            to: to.owner.clone(),
            max_ttl: None,
            nonce: format!("adopt-{fence}"),
        };
        block_on(self.leases.adopt(&adopt)).map(|(fence, _)| fence)
    }

    /// Who has `repo/main`: `s1 held 1.3`, or nothing.
    pub(crate) fn shows(&self) -> String {
        block_on(self.leases.get(&key("repo/main"))).unwrap().map_or_else(String::new, |lease| {
            let state = serde_json::to_value(lease.state).unwrap();
            format!("{} {} {}", lease.owner.session.name, state.as_str().unwrap(), lease.fence)
        })
    }

    pub(crate) fn is_held(&self) -> bool {
        let lease = block_on(self.leases.get(&key("repo/main"))).unwrap();
        lease.is_some_and(|lease| lease.state == LeaseState::Held)
    }

    /// The history of `repo/main`, an event a line.
    pub(crate) fn history(&self) -> Vec<String> {
        let lease = block_on(self.leases.get(&key("repo/main"))).unwrap().unwrap();
        lease.history.iter().map(event).collect()
    }
}

/// A manager of the leases in `store`.
pub(crate) fn manager(store: &MemoryStore, clock: &Arc<ManualClock>, people: &Arc<People>) -> Leases {
    Leases::new(Arc::new(store.clone()), clock.clone(), Arc::new(CountingIds::default()), people.clone())
        .with_sessions(people.clone())
}

/// One event of a history: `s1 expired 1.3: its time had run out`.
pub(crate) fn event(entry: &tidegate_leases::HistoryEntry) -> String {
    let event = serde_json::to_value(entry.event).unwrap();
    let fence = entry.fence.map_or_else(String::new, |fence| format!(" {fence}"));
    let note = if entry.note.is_empty() { String::new() } else { format!(": {}", entry.note) };
    format!("{} {}{fence}{note}", entry.session.name, event.as_str().unwrap())
}

pub(crate) fn key(name: &str) -> LeaseKey {
    name.parse().unwrap()
}

pub(crate) fn session(name: &str) -> SessionId {
    format!("local/{name}").parse().unwrap()
}
