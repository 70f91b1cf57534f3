//! A component as operations know it: one gate, and the servers behind it, of which a shared one has exactly one.

use super::component::{Handle, Msg, Seen};
use super::fleet::Fleet;
use tidegate_core::{CallState, ComponentName, DrainId, OpenCall, OperationId, SessionId};
use tidegate_drain::{AlreadyClosed, Gate};

/// The servers of one component.
pub(super) enum Site {
    /// One for all sessions.
    Shared(Handle),
    /// One for each.
    PerSession(Fleet),
}

impl Site {
    pub(super) fn name(&self) -> &ComponentName {
        self.gate().component()
    }

    /// The component's gate; behind it each session's own server has another one, closed and opened with it.
    pub(super) fn gate(&self) -> &Gate {
        match self {
            Self::Shared(handle) => &handle.gate,
            Self::PerSession(fleet) => fleet.gate(),
        }
    }

    /// Every server there is a place for now.
    pub(super) fn handles(&self) -> Vec<Handle> {
        match self {
            Self::Shared(handle) => vec![handle.clone()],
            Self::PerSession(fleet) => fleet.handles(),
        }
    }

    /// What each of its servers shows of itself.
    pub(super) async fn look(&self) -> Vec<(Handle, Seen)> {
        let mut looks = Vec::new();
        for handle in self.handles() {
            let seen: Option<Seen> = handle.ask(|seen| Msg::Look { seen }).await;
            looks.extend(seen.map(|seen| (handle, seen)));
        }
        looks
    }

    /// What a session has in flight here.
    pub(super) async fn calls_of(&self, session: &SessionId) -> Vec<(OpenCall, CallState)> {
        let calls = self.look().await.into_iter().flat_map(|(_, seen)| seen.calls);
        calls.filter(|(call, _)| call.session == *session).collect()
    }

    /// Where a session's calls go.
    ///
    /// # Errors
    /// What to do when there is no room for another server.
    pub(super) fn seat(&self, session: &SessionId) -> Result<Handle, String> {
        match self {
            Self::Shared(handle) => Ok(handle.clone()),
            Self::PerSession(fleet) => fleet.seat(session),
        }
    }

    /// The servers that sessions have for themselves.
    pub(super) fn fleet(&self) -> Option<&Fleet> {
        match self {
            Self::Shared(_) => None,
            Self::PerSession(fleet) => Some(fleet),
        }
    }

    /// Closes all gates for `drain`.
    pub(super) fn close(&self, drain: &DrainId) -> Result<(), AlreadyClosed> {
        match self {
            Self::Shared(handle) => handle.gate.close(drain.clone()).map(drop),
            Self::PerSession(fleet) => fleet.close(drain),
        }
    }

    /// Opens the gates that `drain` has closed; says whether it had.
    pub(super) fn reopen(&self, drain: &DrainId) -> bool {
        match self {
            Self::Shared(handle) => handle.gate.reopen(drain).is_ok(),
            Self::PerSession(fleet) => fleet.reopen(drain),
        }
    }

    /// What a session that comes later finds: whether its server may start by itself.
    pub(super) fn hands(&self, off: bool) {
        if let Self::PerSession(fleet) = self {
            fleet.hands(off);
        }
    }

    /// What a session that comes later finds: the operation that it waits for.
    pub(super) fn belongs_to(&self, operation: Option<OperationId>) {
        if let Self::PerSession(fleet) = self {
            fleet.belongs_to(operation);
        }
    }
}
