//! The daemon: owns the servers, the state directory and the socket. `serve` runs it to its end.

mod acquaintance;
mod actor;
mod component;
mod connection;
mod context;
pub(crate) mod credentials;
pub(crate) mod documents;
mod fleet;
mod handlers;
mod housekeeping;
mod liveness;
mod operations;
mod outbox;
mod plant;
mod records;
mod reload;
mod revive;
pub(crate) mod seat;
mod serve;
mod sessions;
mod settings;
mod site;
mod socket;
mod stage;
mod start;

use context::Context;
use credentials::Credentials;
use plant::Plant;
use sessions::Registry;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_core::SessionId;
use tidegate_governor::Governor;
use tidegate_host::ProcProbe;
use tidegate_store::{DirLock, LockError};
use tokio::sync::Notify;

pub(crate) use serve::{Ended, policy, serve};

/// The name of the lock that a daemon holds for life.
const DAEMON_LOCK: &str = "daemon";

/// Everything that connections and operations share.
struct Daemon {
    ctx: Arc<Context>,
    credentials: Credentials,
    governor: Governor,
    plant: Arc<Plant>,
    registry: Arc<Registry>,
    probe: ProcProbe,
    /// Told when another daemon is to take this one's place.
    taken_over: Notify,
    /// Sessions that have said something since the housekeeping last looked: activity renews leases.
    active: Mutex<BTreeSet<SessionId>>,
}

impl Daemon {
    fn active(&self, session: &SessionId) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if !active.contains(session) {
            active.insert(session.clone());
        }
    }

    fn take_active(&self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The runtime of every command: one thread, because what waits is pipes and sockets.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Takes the daemon's lock of a state directory: whoever has it is alone.
pub(crate) fn hold(dir: &Path) -> Result<DirLock, LockError> {
    tidegate_store::hold(dir, DAEMON_LOCK)
}
