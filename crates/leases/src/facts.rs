//! What is known about holders when something is decided. Gathered by the shell, never by a decision.
//!
//! Evidence is kept by process identity and by session, not by lease: what was seen of one incarnation is never
//! applied to the next holder. Whatever isn't known counts as alive.

use crate::lease::load_all;
use crate::{Freeze, Owner};
use std::collections::{BTreeMap, HashMap};
use tidegate_core::planted::is_planted;
use tidegate_core::{Liveness, Probe, ProcessIdentity, SessionId};
use tidegate_store::{ReadError, View};

/// What is known of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// A client is connected to it.
    pub attached: bool,
    /// That client's process, where it is one on this host.
    pub process: Option<ProcessIdentity>,
    /// It has calls that are detached or whose outcome is unknown: something may still be acting in its name.
    pub unsettled_calls: bool,
    /// A restart holds it up. That time doesn't count: nothing runs out until the restart has been settled.
    pub held_up: bool,
}

/// Who can say what is known of a session. For leases without sessions, [`NoSessions`](crate::NoSessions).
pub trait Sessions: Send + Sync {
    /// What is known of it.
    fn facts(&self, session: &SessionId) -> SessionFacts;
}

/// Everything that is known at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    processes: HashMap<ProcessIdentity, Liveness>,
    sessions: BTreeMap<SessionId, SessionFacts>,
    freeze: Option<Freeze>,
}

impl Facts {
    /// Nothing is known: everybody counts as alive.
    #[must_use]
    pub fn none() -> Self {
        Self { processes: HashMap::new(), sessions: BTreeMap::new(), freeze: None }
    }

    /// Asks about every holder in the view.
    ///
    /// # Errors
    /// [`ReadError::Malformed`] when a record isn't a lease.
    pub fn gather(view: &View, probe: &dyn Probe, sessions: &dyn Sessions) -> Result<Self, ReadError> {
        let mut facts = Self::none();
        for lease in load_all(view)?.into_iter().filter(crate::Lease::is_live) {
            facts = facts.ask(&lease.owner, probe, sessions);
        }
        Ok(facts)
    }

    /// Asks about one holder too.
    #[must_use]
    pub fn ask(self, owner: &Owner, probe: &dyn Probe, sessions: &dyn Sessions) -> Self {
        let session = sessions.facts(&owner.session);
        let facts = self.with_session(&owner.session, session);
        match &owner.process {
            Some(process) => facts.with_process(process, probe.liveness(process)),
            None => facts,
        }
    }

    /// Adds what was seen of a process.
    #[must_use]
    pub fn with_process(mut self, process: &ProcessIdentity, liveness: Liveness) -> Self {
        self.processes.insert(process.clone(), liveness);
        self
    }

    /// Adds what is known of a session.
    #[must_use]
    pub fn with_session(mut self, session: &SessionId, facts: SessionFacts) -> Self {
        self.sessions.insert(session.clone(), facts);
        self
    }

    /// Adds that the manager itself was away.
    #[must_use]
    pub fn with_freeze(mut self, freeze: Option<Freeze>) -> Self {
        self.freeze = freeze;
        self
    }

    /// What is known of a session; nothing, where nobody said.
    #[must_use]
    pub fn session(&self, session: &SessionId) -> SessionFacts {
        self.sessions.get(session).cloned().unwrap_or_default()
    }

    /// Whether the holder is proved dead: its process is, and no other client has come back to its session.
    #[must_use]
    pub fn proved_dead(&self, owner: &Owner) -> bool {
        let dead =
            |p| is_planted("absent-is-dead") || self.processes.get(p).is_some_and(|it| it.is_proved_dead());
        owner.process.as_ref().is_some_and(dead) && !self.session(&owner.session).attached
    }

    /// The last time the manager was away, where that still matters.
    #[must_use]
    pub fn freeze(&self) -> Option<Freeze> {
        self.freeze
    }
}
