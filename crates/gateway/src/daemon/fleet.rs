//! The servers of a per-session component: which there are, and what whoever comes during a restart finds.
//!
//! It starts and stops nothing: a server's life is its actor's, and an operation's. One lock covers the gate and the
//! servers behind it, so that no session slips in between a closing gate and the work that is counted.

use super::actor;
use super::component::{Handle, Msg};
use super::context::Context;
use super::seat::Seat;
use super::serve::{GATE_CAPACITY, relay};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_core::{ComponentName, DrainId, OperationId, SessionId};
use tidegate_drain::{AlreadyClosed, Gate};
use tidegate_relay::Relay;
use tokio::sync::oneshot;

/// The most sessions that have a server of one component, each a process of its own: a machine with more of them needs
/// a shared component, or somebody who looks.
pub(super) const MAX_SERVERS: usize = 128;

struct Member {
    handle: Handle,
    /// How often somebody was given the handle.
    seatings: u64,
}

struct Members {
    /// What a new one is told.
    hands_off: bool,
    operation: Option<OperationId>,
    servers: BTreeMap<SessionId, Member>,
}

/// All servers of one per-session component.
pub(super) struct Fleet {
    ctx: Arc<Context>,
    hold: Duration,
    /// Closed and opened with every server's: what a new one's is.
    gate: Gate,
    members: Mutex<Members>,
    /// The version that the last verified server stated.
    version: Mutex<Option<String>>,
}

impl Fleet {
    pub(super) fn new(ctx: Arc<Context>, name: ComponentName, hold: Duration) -> Self {
        let members = Members { hands_off: true, operation: None, servers: BTreeMap::new() };
        let gate = Gate::new(name, GATE_CAPACITY);
        Self { ctx, hold, gate, members: Mutex::new(members), version: Mutex::default() }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) fn handles(&self) -> Vec<Handle> {
        self.members().servers.values().map(|member| member.handle.clone()).collect()
    }

    /// The server of a session, or the place of one: it starts with the client's first word.
    ///
    /// # Errors
    /// What to do when there are too many.
    pub(super) fn seat(&self, session: &SessionId) -> Result<Handle, String> {
        let mut members = self.members();
        if let Some(member) = members.servers.get_mut(session) {
            member.seatings += 1;
            return Ok(member.handle.clone());
        }
        let name = self.gate.component();
        if members.servers.len() >= MAX_SERVERS {
            return Err(format!(
                "{MAX_SERVERS} sessions have a server of {name} each, and no more are started; close some, or end them with \
                 `tidegate sessions end NAME`"
            ));
        }
        let config = self.ctx.settings.get(name).ok_or_else(|| format!("there is no component {name}"))?;
        let gate = Gate::new(name.clone(), GATE_CAPACITY);
        let seat = Arc::new(Seat::of(name, session));
        self.ctx.registry.watch(seat.record.clone(), gate.clone());
        let relay = Relay::new(gate.clone(), relay(self.hold, &config));
        let handle = actor::start(self.ctx.clone(), seat, config, relay);
        if let Some(drain) = self.gate.closed_by() {
            let _ = gate.close(drain); // a new gate is open
            handle.tell_first(Msg::Closed { operation: members.operation.clone() });
        }
        if !members.hands_off {
            let (done, _) = oneshot::channel();
            handle.tell_first(Msg::Hands { off: false, done });
        }
        let member = Member { handle: handle.clone(), seatings: 1 };
        members.servers.insert(session.clone(), member);
        Ok(handle)
    }

    /// Closes every gate for `drain`, and those of whoever comes later.
    pub(super) fn close(&self, drain: &DrainId) -> Result<(), AlreadyClosed> {
        let members = self.members();
        self.gate.close(drain.clone())?;
        for Member { handle, .. } in members.servers.values() {
            let _ = handle.gate.close(drain.clone()); // closed with this one, and never otherwise
        }
        Ok(())
    }

    /// Opens every gate that `drain` has closed; says whether it had.
    pub(super) fn reopen(&self, drain: &DrainId) -> bool {
        let mut members = self.members();
        if self.gate.reopen(drain).is_err() {
            return false;
        }
        members.operation = None;
        for Member { handle, .. } in members.servers.values() {
            let _ = handle.gate.reopen(drain); // opened with this one, and never otherwise
        }
        true
    }

    /// Whoever comes later starts nothing by himself, or may.
    pub(super) fn hands(&self, off: bool) {
        self.members().hands_off = off;
    }

    /// Whoever comes later waits for this operation.
    pub(super) fn belongs_to(&self, operation: Option<OperationId>) {
        self.members().operation = operation;
    }

    /// Remembers the version that a server has stated; gives the one before.
    pub(super) fn version_is(&self, version: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.version.lock().unwrap_or_else(PoisonError::into_inner), version)
    }

    /// Whether the session has a place here.
    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.members().servers.contains_key(session)
    }

    /// Its session is over: its server ends as soon as nothing is in flight.
    pub(super) async fn over(&self, session: &SessionId) {
        let handle = self.members().servers.get(session).map(|member| member.handle.clone());
        if let Some(handle) = handle {
            handle.tell(Msg::Over).await;
        }
    }

    /// Takes the places away of those that have no server and no client any more.
    pub(super) async fn prune(&self) {
        let all: Vec<(SessionId, u64)> =
            self.members().servers.iter().map(|(session, m)| (session.clone(), m.seatings)).collect();
        for (session, seatings) in all {
            let handle = self.members().servers.get(&session).map(|member| member.handle.clone());
            let Some(handle) = handle else { continue };
            if !handle.ask(|seen| Msg::Look { seen }).await.is_some_and(|seen| seen.is_idle) {
                continue;
            }
            let mut members = self.members();
            let unused = |member: &Member| member.seatings == seatings && member.handle.is_shared_by(2);
            if members.servers.get(&session).is_some_and(unused) {
                members.servers.remove(&session);
                self.ctx.registry.forget(&handle.seat.record);
            }
        }
    }
}
