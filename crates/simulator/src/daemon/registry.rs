//! The sessions that are connected now. What is durable of them is the checkpoints'; what is here dies with the daemon.

use super::component::{Handle, Msg};
use crate::channel::Sender;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_core::{Clock, ProcessIdentity, SessionId};
use tidegate_drain::Gate;
use tidegate_leases::{SessionFacts, Sessions};
use tidegate_relay::StreamId;

/// One open connection of a session.
pub(super) struct Connection {
    pub(super) session: SessionId,
    pub(super) client: ProcessIdentity,
    pub(super) component: Handle,
    pub(super) stream: StreamId,
    /// Goes when the connection is to be closed.
    pub(super) _open: Sender<()>,
}

/// All open connections, by their durable ids.
pub(super) struct Registry {
    connections: Mutex<BTreeMap<String, Connection>>,
    /// Those that are being closed: of what they leave not all is on record yet.
    leaving: Mutex<BTreeMap<String, Arc<Connection>>>,
    /// Sessions that have yet to look what became of a call.
    unsure: Mutex<BTreeSet<SessionId>>,
    gates: Vec<Gate>,
    clock: Arc<dyn Clock>,
}

impl Registry {
    pub(super) fn new(gates: Vec<Gate>, clock: Arc<dyn Clock>) -> Self {
        let (connections, leaving, unsure) = Default::default();
        Self { connections, leaving, unsure, gates, clock }
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

    fn unsure(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_unsure(&self, session: &SessionId, unsure: bool) {
        if unsure {
            self.unsure().insert(session.clone());
        } else {
            self.unsure().remove(session);
        }
    }

    /// Closes connections, and tells their shims not to come back. What they leave is on record when this returns, whoever
    /// else was closing them already.
    pub(super) async fn cut(&self, ids: &[String]) {
        let cut: Vec<(&String, Arc<Connection>)> = {
            let (mut connections, mut leaving) = (self.connections(), self.leaving());
            for id in ids {
                leaving.extend(connections.remove(id).map(|connection| (id.clone(), Arc::new(connection))));
            }
            ids.iter().filter_map(|id| Some((id, leaving.get(id)?.clone()))).collect()
        };
        for (id, connection) in cut {
            let Connection { component, session, stream, .. } = &*connection;
            let (of, session, stream) = (id.clone(), session.clone(), *stream);
            component.ask(|done| Msg::End { stream, id: of, session, done }).await;
            self.leaving().remove(id);
        }
    }

    /// The client of a connected session.
    pub(super) fn client(&self, session: &SessionId) -> Option<ProcessIdentity> {
        self.connections().values().find(|c| c.session == *session).map(|c| c.client.clone())
    }

    pub(super) fn is_attached(&self, session: &SessionId) -> bool {
        self.client(session).is_some()
    }

    /// Whether a session waits at a closed gate, or would.
    fn is_held_up(&self, session: &SessionId) -> bool {
        self.connections().values().any(|c| c.session == *session && !c.component.gate.is_open())
    }
}

impl Sessions for Registry {
    fn facts(&self, session: &SessionId) -> SessionFacts {
        let now = self.clock.now();
        let unsettled = |gate: &Gate| gate.holders(&now).iter().any(|h| h.session == *session && h.detached);
        SessionFacts {
            attached: self.is_attached(session),
            process: self.client(session),
            unsettled_calls: self.gates.iter().any(unsettled) || self.unsure().contains(session),
            held_up: self.is_held_up(session),
        }
    }
}
