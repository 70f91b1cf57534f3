//! The sessions that are connected now. What is durable of them is the checkpoints'; what is here dies with the daemon.

use super::component::{Handle, Msg};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_core::{Clock as _, ComponentName, ProcessIdentity, SessionId};
use tidegate_drain::Gate;
use tidegate_host::SystemClock;
use tidegate_leases::{SessionFacts, Sessions};
use tidegate_relay::StreamId;
use tokio::sync::Notify;

/// One open connection of a session.
pub(super) struct Connection {
    pub(super) session: SessionId,
    /// The client's process, where it is known.
    pub(super) client: Option<ProcessIdentity>,
    /// Where it leads; `None` is the control endpoint.
    pub(super) component: Option<(Handle, StreamId)>,
    /// Told when the connection is to be closed.
    pub(super) closing: Arc<Notify>,
}

/// All open connections, by their durable ids.
pub(super) struct Registry {
    connections: Mutex<BTreeMap<String, Connection>>,
    /// Those that are being closed: of what they leave not all is on record yet.
    leaving: Mutex<BTreeMap<String, Arc<Connection>>>,
    /// Sessions that have not been told yet that the outcome of a call of theirs is unknown.
    unsure: Mutex<BTreeSet<SessionId>>,
    /// Of every server there is a place for, by the name of its record.
    gates: Mutex<BTreeMap<ComponentName, Gate>>,
    clock: SystemClock,
}

impl Registry {
    pub(super) fn new(clock: SystemClock) -> Self {
        Self {
            connections: Mutex::default(),
            leaving: Mutex::default(),
            unsure: Mutex::default(),
            gates: Mutex::default(),
            clock,
        }
    }

    fn gates(&self) -> MutexGuard<'_, BTreeMap<ComponentName, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on what is in flight at this gate counts.
    pub(super) fn watch(&self, record: ComponentName, gate: Gate) {
        self.gates().insert(record, gate);
    }

    /// Nothing is in flight there, nor will be.
    pub(super) fn forget(&self, record: &ComponentName) {
        self.gates().remove(record);
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<String, Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Connection>>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn opened(&self, id: &str, connection: Connection) {
        self.connections().insert(id.to_owned(), connection);
    }

    pub(super) fn closed(&self, id: &str) {
        self.connections().remove(id);
    }

    /// Closes connections, and tells their shims not to come back. What they leave is on record when this returns, whoever
    /// else was closing them already.
    pub(super) async fn cut(&self, ids: &[String], message: &str) {
        let cut: Vec<(&String, Arc<Connection>)> = {
            let (mut connections, mut leaving) = (self.connections(), self.leaving());
            for id in ids {
                leaving.extend(connections.remove(id).map(|connection| (id.clone(), Arc::new(connection))));
            }
            ids.iter().filter_map(|id| Some((id, leaving.get(id)?.clone()))).collect()
        };
        for (id, connection) in cut {
            if let Some((handle, stream)) = &connection.component {
                // A component does one after the other: the second one is done when the first one is.
                let (stream, message) = (*stream, message.to_owned());
                handle.ask(|done| Msg::End { stream, message, done }).await;
            }
            connection.closing.notify_one();
            self.leaving().remove(id);
        }
    }

    /// How many connections a session has to components.
    pub(super) fn streams(&self, session: &SessionId) -> usize {
        self.connections().values().filter(|c| c.session == *session && c.component.is_some()).count()
    }

    /// The client of a connected session.
    pub(super) fn client(&self, session: &SessionId) -> Option<ProcessIdentity> {
        self.connections().values().find(|c| c.session == *session).and_then(|c| c.client.clone())
    }

    /// Whether a session waits at a closed gate, or would.
    fn is_held_up(&self, session: &SessionId) -> bool {
        let leads_to = |c: &Connection| c.component.as_ref().map(|(handle, _)| handle.gate.is_open());
        self.connections().values().filter(|c| c.session == *session).filter_map(leads_to).any(|open| !open)
    }

    fn unsure(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether a session has yet to find out what became of a call: nothing of it is reclaimed until then.
    pub(super) fn set_unsure(&self, session: &SessionId, unsure: bool) {
        if unsure {
            self.unsure().insert(session.clone());
        } else {
            self.unsure().remove(session);
        }
    }

    /// Whether a session has any connection.
    pub(super) fn is_attached(&self, session: &SessionId) -> bool {
        self.connections().values().any(|c| c.session == *session)
    }
}

impl Sessions for Registry {
    fn facts(&self, session: &SessionId) -> SessionFacts {
        let now = self.clock.now();
        let unsettled = |gate: &Gate| gate.holders(&now).iter().any(|h| h.session == *session && h.detached);
        SessionFacts {
            attached: self.is_attached(session),
            process: self.client(session),
            unsettled_calls: self.gates().values().any(unsettled) || self.unsure().contains(session),
            held_up: self.is_held_up(session),
        }
    }
}
