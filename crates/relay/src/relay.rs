//! The relay of one component: its state, its limits, and what can be seen of it. The inputs are in the rooms beside:
//! `client`, `server`, `lifecycle`; `flow` moves requests between them.

use crate::asks::Asks;
use crate::hold::HoldQueue;
use crate::leases::{HeldLeases, Needed};
use crate::pending::Pending;
use crate::refusal::RefusalKind;
use crate::subscriptions::{StreamFacts, Subscriptions};
use crate::{
    Classifier, Counters, DEFAULT_HOLD, InitializeResult, Introduction, LeaseRules, ListCache, RawId,
    Refusal, Sharing, StreamId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidegate_core::planted::is_planted;
use tidegate_core::{
    CallState, ComponentName, Generation, HeldLease, IncidentId, NextAction, OpenCall, OperationId, SessionId,
};
use tidegate_drain::{Gate, Permit};

/// The deadline that spans hold and replay, from a request's admission: what the SDKs' clients wait by default.
pub const REPLAY_DEADLINE: Duration = Duration::from_secs(60);

/// When to come back after a refusal during a restart, in milliseconds: most restarts take a few seconds.
pub const RETRY_AFTER_MS: u64 = 5_000;

/// What a relay is made with.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// How long a new call is held at most.
    pub hold: Duration,
    /// After what time a call is given up; `None`: never.
    pub call_timeout: Option<Duration>,
    /// Classifies the calls.
    pub classifier: Classifier,
    /// Which calls need a lease.
    pub leases: LeaseRules,
    /// Whether sessions share the server.
    pub sharing: Sharing,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            hold: DEFAULT_HOLD,
            call_timeout: None,
            classifier: Classifier::default(),
            leases: LeaseRules::default(),
            sharing: Sharing::default(),
        }
    }
}

/// What is known of a generation that has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Which.
    pub generation: Generation,
    /// Its handshake.
    pub initialize: InitializeResult,
    /// Its lists.
    pub lists: ListCache,
}

/// Why there is no server, and won't be without somebody's doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The incident that says so.
    pub incident: Option<IncidentId>,
    /// What happened, with the end of the server's stderr.
    pub message: String,
}

pub(crate) struct Stream {
    pub(crate) session: SessionId,
    /// How many lines have come on it.
    pub(crate) lines: u64,
    /// Its `initialize` has been answered: notifications make sense to it.
    pub(crate) initialized: bool,
    /// It has said `notifications/initialized`: it may be asked something.
    pub(crate) may_be_asked: bool,
    /// An `initialize` that waits for a server.
    pub(crate) initializing: Option<Initializing>,
}

pub(crate) struct Initializing {
    pub(crate) id: RawId,
    pub(crate) version: Option<String>,
    pub(crate) until_ms: u64,
}

pub(crate) enum Phase {
    /// Not started, dead, or not verified: requests wait.
    Absent,
    Ready,
    Unavailable(Unavailable),
}

pub(crate) struct Server {
    pub(crate) phase: Phase,
    pub(crate) generation: Generation,
    pub(crate) initialize: Option<InitializeResult>,
    pub(crate) lists: ListCache,
    /// Tools that an earlier generation offered and this one doesn't.
    pub(crate) gone: BTreeSet<String>,
    /// Whether [`Effect::UnsafePossible`](crate::Effect) has been said of this generation.
    pub(crate) unsafe_possible: bool,
    /// That could not be made durable: when what waits for it is tried again.
    pub(crate) mark_again_ms: Option<u64>,
    /// Subscriptions and log level have not been put in force at this generation yet.
    pub(crate) to_reassert: bool,
}

/// The pending map of one component, and everything that goes through it. Pure: time comes in, effects come out.
///
/// It assumes that lines of one generation are given in the order they were read, that everything read from a server
/// is given before [`Relay::server_died`], and that effects are done in their order.
pub struct Relay {
    pub(crate) config: RelayConfig,
    pub(crate) gate: Gate,
    pub(crate) server: Server,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) pending: Pending,
    pub(crate) held: HoldQueue,
    pub(crate) asks: Asks,
    /// Questions of a session's own server that came before the client was past its handshake, as they came.
    pub(crate) early: Vec<Vec<u8>>,
    /// What the client says of itself, where the server is its own.
    pub(crate) introduction: Option<Introduction>,
    pub(crate) subscriptions: Subscriptions,
    /// The leases that are held, as far as it matters here.
    pub(crate) leases: HeldLeases,
    /// Own requests in flight, by upstream id; an empty tag is one whose answer nobody wants.
    pub(crate) own: BTreeMap<u64, String>,
    /// Numbers requests and upstream ids. Never used twice, so that a late answer finds nothing.
    pub(crate) last_number: u64,
    /// How many non-read calls have been written.
    pub(crate) unsafe_admissions: u64,
    /// Calls of unknown outcome of a server whose death isn't proved yet: they still hold.
    pub(crate) lingering: Vec<Permit>,
    /// The restart that keeps the gate closed.
    pub(crate) operation: Option<OperationId>,
    pub(crate) counters: Counters,
}

impl Relay {
    /// A relay behind this gate, with no server yet.
    #[must_use]
    pub fn new(gate: Gate, config: RelayConfig) -> Self {
        Self {
            config,
            gate,
            server: Server {
                phase: Phase::Absent,
                generation: Generation::default(),
                initialize: None,
                lists: ListCache::default(),
                gone: BTreeSet::new(),
                unsafe_possible: false,
                mark_again_ms: None,
                to_reassert: false,
            },
            streams: BTreeMap::new(),
            pending: Pending::default(),
            held: HoldQueue::default(),
            asks: Asks::default(),
            early: Vec::new(),
            introduction: None,
            subscriptions: Subscriptions::default(),
            leases: HeldLeases::new(),
            own: BTreeMap::new(),
            last_number: 0,
            unsafe_admissions: 0,
            lingering: Vec::new(),
            operation: None,
            counters: Counters::default(),
        }
    }

    /// The component.
    #[must_use]
    pub fn component(&self) -> &ComponentName {
        self.gate.component()
    }

    /// The gate before it.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The last generation that was ready.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.server.generation
    }

    /// Whether there is a server to write to.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.server.phase, Phase::Ready)
    }

    /// Whether requests are answered that there is no server, instead of waiting for one.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self.server.phase, Phase::Unavailable(_))
    }

    /// How many requests are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Every request that hasn't ended, in order of arrival, and how far it got.
    #[must_use]
    pub fn calls(&self) -> Vec<(OpenCall, CallState)> {
        let open = |(number, entry): (u64, &crate::pending::Entry)| {
            let state = match entry.flight() {
                None => CallState::Queued,
                Some(flight) if flight.detached => CallState::Detached,
                Some(_) => CallState::Written,
            };
            (self.open_call(number, entry), state)
        };
        self.pending.iter().map(open).collect()
    }

    /// The open streams and their sessions.
    pub fn streams(&self) -> impl Iterator<Item = (StreamId, &SessionId)> {
        self.streams.iter().map(|(stream, it)| (*stream, &it.session))
    }

    /// What a stream has asked the server to remember.
    #[must_use]
    pub fn facts(&self, stream: StreamId) -> StreamFacts {
        self.subscriptions.of(stream)
    }

    /// Whether it matters who holds which lease.
    #[must_use]
    pub fn asks_for_leases(&self) -> bool {
        !self.config.leases.is_empty()
    }

    /// Who holds which lease now, by their names. To be said again before each other input, as long as
    /// [`Relay::asks_for_leases`].
    pub fn leases_are(&mut self, held: BTreeMap<String, HeldLease>) {
        self.leases = held;
    }

    /// What was dropped so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When [`Relay::tick`] has something to do, in milliseconds of the boot-time clock.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let calls = self.pending.iter().filter_map(|(_, entry)| entry.due_ms());
        let handshakes = self.streams.values().filter_map(|s| s.initializing.as_ref()).map(|i| i.until_ms);
        calls.chain(handshakes).chain(self.server.mark_again_ms).min()
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(crate) fn refusal(&self, kind: RefusalKind, retryable: bool, next_action: NextAction) -> Refusal {
        let retry_after_ms = match &next_action {
            NextAction::WaitForRestart { retry_after_ms, .. } => Some(*retry_after_ms),
            _ => None,
        };
        Refusal {
            kind,
            retryable,
            retry_after_ms,
            component: self.component().clone(),
            generation: self.server.generation,
            operation: self.operation.clone(),
            next_action,
        }
    }

    pub(crate) fn draining(&self) -> Refusal {
        let wait = NextAction::WaitForRestart {
            component: self.component().clone(),
            operation: self.operation.clone(),
            retry_after_ms: RETRY_AFTER_MS,
        };
        let wait = if is_planted("refused-and-told-to-go-on") { NextAction::Continue } else { wait };
        self.refusal(RefusalKind::Draining, true, wait)
    }

    pub(crate) fn lease_required(&self, Needed { lease, unnamed }: Needed) -> Refusal {
        self.refusal(RefusalKind::LeaseRequired, !unnamed, NextAction::ReacquireLease { lease, unnamed })
    }

    pub(crate) fn unavailable(&self, why: &Unavailable) -> Refusal {
        let ask = NextAction::ContactOperator { incident: why.incident.clone() };
        self.refusal(RefusalKind::Unavailable, false, ask)
    }
}
