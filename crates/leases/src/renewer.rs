//! The thread that renews a lease. It drives the schedule, keeps the holder's freshness, and ends with its owner.

use crate::schedule::{Schedule, Step, next};
use crate::{Acquired, Freshness, LeaseError, Leases};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The longest the thread waits without looking at the clock: its timer stands still while the machine is suspended,
/// the boot-time clock doesn't.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Renews one lease until it is dropped, the lease is lost or the owner is dead.
///
/// It doesn't give the lease back: a holder that is done releases it.
#[derive(Debug)]
pub struct Renewer {
    shared: Arc<Shared>,
    freshness: Freshness,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    ended: Option<LeaseError>,
}

impl Renewer {
    /// Starts renewing a lease that was just got.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start(leases: Leases, acquired: &Acquired) -> io::Result<Self> {
        let (shared, freshness) = (Arc::new(Shared::default()), acquired.freshness());
        let thread = {
            let (shared, freshness, acquired) = (Arc::clone(&shared), freshness.clone(), acquired.clone());
            Builder::new().name("lease-renewer".to_owned()).spawn(move || {
                let error = drive(&leases, &acquired, &freshness, &shared);
                if let Some(error) = error {
                    freshness.lost();
                    shared.lock().ended = Some(error);
                    shared.changed.notify_all();
                }
            })?
        };
        Ok(Self { shared, freshness, thread: Some(thread) })
    }

    /// The holder's freshness, which the renewals extend.
    #[must_use]
    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// Why it gave up, where it has.
    #[must_use]
    pub fn ended(&self) -> Option<LeaseError> {
        self.shared.lock().ended.clone()
    }

    /// Waits until it gives up, at most `limit`.
    #[must_use]
    pub fn wait_ended(&self, limit: Duration) -> Option<LeaseError> {
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, limit, |s| s.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.ended.clone()
    }
}

impl Drop for Renewer {
    /// Stops the thread and waits for a renewal that is under way.
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `limit`; says whether it is time to stop.
    fn wait(&self, limit: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |s| !s.stop);
        waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }
}

/// Renews until told to stop (`None`) or until there is nothing left to renew.
fn drive(leases: &Leases, acquired: &Acquired, freshness: &Freshness, shared: &Shared) -> Option<LeaseError> {
    let renewal = acquired.renewal();
    let mut schedule = Schedule::new(acquired.ttl, acquired.lasts(), &acquired.sent);
    loop {
        let now = leases.clock().now();
        match next(&schedule, leases.owner_liveness(&acquired.owner), &now) {
            Step::Stop => return Some(LeaseError::OwnerGone { key: acquired.key.clone() }),
            Step::Wait { until_ms } => {
                let left = Duration::from_millis(until_ms.saturating_sub(now.boot_ms));
                if shared.wait(left.min(LOOK_EVERY)) {
                    return None;
                }
            }
            Step::Renew => match pollster::block_on(leases.renew(&renewal)) {
                Ok(expires) => {
                    // The end of its `max_ttl` may cut a renewal short.
                    freshness.renewed(&now, acquired.ttl.min(expires.remaining(&now)));
                    schedule = Schedule::new(acquired.ttl, acquired.ttl, &now);
                }
                Err(error) if error.is_lost() => return Some(error),
                Err(_) => schedule = schedule.failed(&leases.clock().now()),
            },
        }
    }
}
