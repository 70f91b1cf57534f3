//! What is known of the world from what was seen, step by step. It keeps, and judges nothing.

use super::{CallId, Durable, Fact, Needed, Outcome, Seen};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::{ComponentName, Fence, Generation, OperationId, SessionId, WorkClass};
use tidegate_governor::{Caller, Launches, Phase, Policy};

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) session: SessionId,
    pub(crate) component: ComponentName,
    pub(crate) class: WorkClass,
    pub(crate) replay: bool,
    pub(crate) tool: String,
    /// The lease that it names.
    pub(crate) lease: Option<Needed>,
    pub(crate) sent_ms: u64,
    pub(crate) sent_in: u64,
    /// The step, and the time, of the look at the leases on which it was written.
    pub(crate) admitted_after: (u64, u64),
    /// The step in which its server read it, as long as that is at it.
    pub(crate) executing_since: Option<u64>,
    /// Its session, or an operator, has given its lease away since it was made.
    pub(crate) let_go: bool,
    /// How many daemons there had been by then, with the one that has forwarded it.
    pub(crate) daemons: u64,
    /// Its client has read that of its shim alone, which has no daemon.
    pub(crate) answered_by_shim: bool,
    /// How long it took until its client had an answer.
    pub(crate) latency_ms: Option<u64>,
    /// Something happened to its component while it was under way.
    pub(crate) disturbed: bool,
    pub(crate) received: u32,
    pub(crate) committed: u32,
    pub(crate) answers: u32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) given_up: bool,
    /// Its client died in the middle of it, and the daemon that had forwarded it lives and has read no answer.
    pub(crate) left: bool,
    /// Its server was told that it is cancelled.
    pub(crate) cancelled: bool,
    /// The daemon has the server's answer to it, and lives.
    pub(crate) owed: bool,
    /// It has that from a keeper, and not read it yet.
    kept: bool,
    /// The connection that it was made through was closed by the daemon.
    cut: bool,
}

impl Call {
    /// Its client waits for the server's answer, and nobody has told anybody otherwise.
    pub(crate) fn is_wanted(&self) -> bool {
        self.outcome.is_none() && !self.given_up && !self.cancelled
    }
}

/// One component.
#[derive(Debug, Clone, Default)]
pub(crate) struct ComponentTruth {
    /// The step in which its gate was closed.
    pub(crate) closed_in: Option<u64>,
    pub(crate) serving: bool,
    /// The store has refused what it is now.
    pub(crate) state_unrecorded: bool,
    pub(crate) running: BTreeMap<u32, Generation>,
    /// The step, and the time, in which it was last looked who holds which lease.
    pub(crate) looked_at_leases: (u64, u64),
    /// Tidegate itself gives its calls up after a while.
    pub(crate) times_out: bool,
}

impl ComponentTruth {
    /// Nothing is the matter with it.
    fn is_calm(&self) -> bool {
        self.serving && self.closed_in.is_none()
    }
}

/// A lease as its holder knows it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) fence: Fence,
    pub(crate) until_ms: u64,
    pub(crate) pid: u32,
}

/// Everything that is known.
pub(crate) struct Truth {
    pub(crate) now_ms: u64,
    pub(crate) step: u64,
    pub(crate) policy: Policy,
    pub(crate) calls: BTreeMap<CallId, Call>,
    pub(crate) components: BTreeMap<ComponentName, ComponentTruth>,
    pub(crate) connected: BTreeSet<(SessionId, ComponentName)>,
    pub(crate) kept: BTreeMap<SessionId, BTreeSet<Fact>>,
    /// Sessions about which the daemon could not record something.
    pub(crate) unrecorded: BTreeSet<SessionId>,
    pub(crate) holders: BTreeMap<(String, SessionId), Held>,
    /// Leases that somebody gave back or handed over.
    pub(crate) given: BTreeSet<String>,
    pub(crate) dead: BTreeSet<u32>,
    pub(crate) asked: BTreeMap<OperationId, Caller>,
    pub(crate) approving: BTreeMap<OperationId, Vec<Caller>>,
    pub(crate) told: BTreeMap<OperationId, Phase>,
    /// Requests that were refused without a trace.
    pub(crate) told_nothing: BTreeSet<OperationId>,
    /// The highest fence that anybody was ever given, by lease.
    pub(crate) highest: BTreeMap<String, Fence>,
    /// Every fence that anybody was given before the last restore is at most this.
    pub(crate) floor: Fence,
    /// What each operation starts, as it was first recorded.
    pub(crate) taken: BTreeMap<OperationId, Launches>,
    /// Sessions that were told at a contact that an outcome is unknown.
    pub(crate) warned: BTreeSet<SessionId>,
    /// Operations that were seen to have failed.
    pub(crate) failed: BTreeSet<OperationId>,
    pub(crate) daemon: bool,
    /// How many daemons there have been.
    daemons: u64,
    /// Sessions that an operator has begun to end, and in which step they last did: whoever comes then begins anew.
    pub(crate) ending: BTreeMap<SessionId, u64>,
}

impl Truth {
    /// A call that goes on in its server, that may change something, and of which the daemon that lives has told nobody
    /// how it ended.
    pub(crate) fn is_running(&self, call: &Call) -> bool {
        let told = call.outcome.is_some() && !call.answered_by_shim;
        let goes_on = call.class.is_unsafe() && call.executing_since.is_some() && !call.owed;
        goes_on && !told && self.daemon && call.daemons == self.daemons
    }

    pub(crate) fn new(world: &World) -> Self {
        let plans = &world.story.components;
        let component = |timeout: bool| ComponentTruth { times_out: timeout, ..ComponentTruth::default() };
        Self {
            now_ms: 0,
            step: 0,
            policy: world.story.policy(),
            calls: BTreeMap::new(),
            components: plans
                .iter()
                .map(|c| (c.name.clone(), component(c.call_timeout_ms.is_some())))
                .collect(),
            connected: BTreeSet::new(),
            kept: BTreeMap::new(),
            unrecorded: BTreeSet::new(),
            holders: BTreeMap::new(),
            given: BTreeSet::new(),
            dead: BTreeSet::new(),
            asked: BTreeMap::new(),
            approving: BTreeMap::new(),
            told: BTreeMap::new(),
            told_nothing: BTreeSet::new(),
            highest: BTreeMap::new(),
            floor: Fence::default(),
            taken: BTreeMap::new(),
            warned: BTreeSet::new(),
            failed: BTreeSet::new(),
            daemon: false,
            daemons: 0,
            ending: BTreeMap::new(),
        }
    }

    /// Takes in one thing that was seen.
    pub(crate) fn learn(&mut self, seen: &Seen) {
        match seen {
            Seen::DaemonStarted => {
                self.daemon = true;
                self.daemons += 1;
            }
            Seen::Ending { session } => drop(self.ending.insert(session.clone(), self.step)),
            Seen::DaemonDied => self.daemon_died(),
            Seen::Started { component, generation, pid, .. } => {
                self.component(component, |it| {
                    it.running.insert(*pid, *generation);
                });
            }
            Seen::Serving { component, .. } => self.component(component, |it| {
                it.serving = true;
                it.state_unrecorded = false;
            }),
            Seen::StateNotRecorded { component } => {
                self.component(component, |it| it.state_unrecorded = true)
            }
            Seen::Stopping { component, .. } => {
                self.component(component, |it| it.serving = false);
                self.disturb(component);
            }
            Seen::Crashed { component } => {
                self.component(component, |it| it.serving = false);
                self.executes_nothing(component);
                self.disturb(component);
            }
            Seen::Died { component, pid, .. } => {
                self.component(component, |it| {
                    it.running.remove(pid);
                    it.serving = false;
                });
                self.executes_nothing(component);
                self.disturb(component);
            }
            Seen::GateClosed { component, .. } => {
                let step = self.step;
                self.component(component, |it| it.closed_in = Some(step));
                self.disturb(component);
            }
            Seen::GateUnclosed { component } | Seen::GateOpened { component, .. } => {
                self.component(component, |it| it.closed_in = None);
            }
            Seen::Sent { call, session, component, class, replay, tool, lease } => {
                let calm = self.components.get(component).is_some_and(ComponentTruth::is_calm);
                let connected = self.connected.contains(&(session.clone(), component.clone()));
                let call_truth = Call {
                    session: session.clone(),
                    component: component.clone(),
                    class: *class,
                    replay: *replay,
                    tool: tool.clone(),
                    lease: lease.clone(),
                    sent_ms: self.now_ms,
                    sent_in: self.step,
                    admitted_after: (0, 0),
                    executing_since: None,
                    daemons: 0,
                    answered_by_shim: false,
                    let_go: false,
                    latency_ms: None,
                    disturbed: !calm || !connected,
                    received: 0,
                    committed: 0,
                    answers: 0,
                    outcome: None,
                    given_up: false,
                    left: false,
                    cancelled: false,
                    owed: false,
                    kept: false,
                    cut: false,
                };
                self.calls.insert(call.clone(), call_truth);
            }
            Seen::Received { call, .. } => {
                let step = self.step;
                let of_it = self.calls.get(call).and_then(|it| self.components.get(&it.component));
                let looked = of_it.map(|it| it.looked_at_leases).unwrap_or_default();
                let daemons = self.daemons;
                self.call(call, |it| {
                    it.received += 1;
                    it.daemons = daemons;
                    it.executing_since = Some(step);
                    it.admitted_after = looked;
                });
            }
            Seen::Finished { call } => self.call(call, |it| it.executing_since = None),
            Seen::LeasesLookedAt { component } => {
                let looked = (self.step, self.now_ms);
                self.component(component, |it| it.looked_at_leases = looked);
            }
            Seen::LeasesUnread { component } | Seen::NotMarked { component } => self.disturb(component),
            Seen::Committed { call } => self.call(call, |it| it.committed += 1),
            Seen::AnswerRead { call } | Seen::LateAnswer { call } => {
                let kept = matches!(seen, Seen::LateAnswer { .. });
                self.call(call, |it| {
                    it.owed = !it.given_up && !it.cut && it.outcome.is_none();
                    it.kept = kept;
                    it.left = false;
                });
            }
            Seen::Cut { session, component, .. } => {
                for call in self.undecided_of(session, component) {
                    call.cut = true;
                    call.owed &= !call.kept;
                }
            }
            Seen::Delivered { call, outcome, local } => {
                let now_ms = self.now_ms;
                self.call(call, |it| {
                    it.answers += 1;
                    it.answered_by_shim = *local;
                    it.latency_ms = Some(now_ms - it.sent_ms);
                    it.outcome = Some(outcome.clone());
                });
            }
            Seen::Left { call } => {
                let (daemon, connected) = (self.daemon, self.connected.clone());
                self.call(call, |it| {
                    let its = connected.contains(&(it.session.clone(), it.component.clone()));
                    it.left = daemon && its && it.outcome.is_none() && !it.owed;
                });
            }
            Seen::GivenUp { call } => self.call(call, |it| it.given_up = true),
            Seen::Connected { session, component, up } => self.connection(session, component, *up),
            Seen::Kept { session, fact } => {
                self.kept.entry(session.clone()).or_default().insert(fact.clone());
            }
            Seen::Dropped { session, fact } => {
                if let Some(facts) = self.kept.get_mut(session) {
                    facts.remove(fact);
                }
            }
            Seen::LeaseHeld { session, key, fence, until_ms, pid, .. } => {
                let held = Held { fence: *fence, until_ms: *until_ms, pid: *pid };
                let highest = self.highest.entry(key.clone()).or_insert(*fence);
                *highest = (*highest).max(*fence);
                self.holders.insert((key.clone(), session.clone()), held);
            }
            Seen::LeaseLeft { session, key } => {
                self.holders.remove(&(key.clone(), session.clone()));
            }
            Seen::LeaseGiven { key } => {
                self.given_away(key);
                self.holders.retain(|(of, _), _| of != key);
            }
            Seen::GivenLate { key } => self.given_away(key),
            Seen::ClientDied { pid } => drop(self.dead.insert(*pid)),
            Seen::Asked { operation, caller } => drop(self.asked.insert(operation.clone(), caller.clone())),
            Seen::Approving { operation, caller } => {
                self.approving.entry(operation.clone()).or_default().push(caller.clone());
            }
            Seen::ToldNothing { operation } => drop(self.told_nothing.insert(operation.clone())),
            Seen::Restored => self.restored(),
            Seen::Mark(_)
            | Seen::Ended { .. }
            | Seen::Survived { .. }
            | Seen::LateAnswerLost { .. }
            | Seen::Released { .. }
            | Seen::ReadOwn { .. } => {}
            Seen::Told { operation, phase } => {
                let told = self.told.entry(operation.clone()).or_insert(*phase);
                *told = (*told).max(*phase);
            }
            Seen::Resumed { session, action, .. } => {
                if action == "VerifyThenRetry" {
                    self.warned.insert(session.clone());
                }
            }
            Seen::NotRecorded { sessions } => self.unrecorded.extend(sessions.iter().cloned()),
            Seen::CancelReceived { call } => self.call(call, |it| it.cancelled = true),
        }
    }

    /// What is known once the step has been judged.
    pub(crate) fn turn(&mut self, durable: &Durable) {
        let failing = durable.operations.values().filter(|o| is_failure(o.phase));
        self.failed.extend(failing.map(|o| o.id.clone()));
        for operation in durable.operations.values() {
            if !self.taken.contains_key(&operation.id) {
                self.taken.insert(operation.id.clone(), operation.launches.clone());
            }
        }
    }

    /// What was acknowledged since the backup is gone, by somebody's doing. Fences are not.
    fn restored(&mut self) {
        self.floor = self.highest.values().copied().max().unwrap_or(self.floor);
        self.kept.clear();
        self.told.clear();
        self.told_nothing.clear();
        self.failed.clear();
        let sessions = self.connected.iter().map(|(session, _)| session.clone());
        self.unrecorded.extend(sessions.chain(self.calls.values().map(|call| call.session.clone())));
        self.holders.clear();
    }

    fn daemon_died(&mut self) {
        self.daemon = false;
        for component in self.components.values_mut() {
            component.closed_in = None;
            component.serving = false;
        }
        for call in self.calls.values_mut().filter(|call| call.outcome.is_none()) {
            call.disturbed = true;
            (call.owed, call.left) = (false, false);
        }
    }

    fn component(&mut self, name: &ComponentName, change: impl FnOnce(&mut ComponentTruth)) {
        if let Some(it) = self.components.get_mut(name) {
            change(it);
        }
    }

    fn call(&mut self, call: &CallId, change: impl FnOnce(&mut Call)) {
        if let Some(it) = self.calls.get_mut(call) {
            change(it);
        }
    }

    /// Whatever its server was at, it isn't any more.
    fn executes_nothing(&mut self, component: &ComponentName) {
        let of_it = self.calls.values_mut().filter(|call| call.component == *component);
        of_it.for_each(|call| call.executing_since = None);
    }

    /// Whoever works under this lease goes on without it.
    fn given_away(&mut self, key: &str) {
        self.given.insert(key.to_owned());
        let under_it = |call: &&mut Call| call.lease.as_ref().is_some_and(|lease| lease.key == key);
        self.calls
            .values_mut()
            .filter(under_it)
            .for_each(|call| call.let_go |= call.outcome.is_none() || call.executing_since.is_some());
    }

    fn disturb(&mut self, component: &ComponentName) {
        let under_way = self.calls.values_mut().filter(|c| c.outcome.is_none() && c.component == *component);
        under_way.for_each(|call| call.disturbed = true);
    }

    fn connection(&mut self, session: &SessionId, component: &ComponentName, up: bool) {
        let connection = (session.clone(), component.clone());
        if up {
            self.connected.insert(connection);
            self.undecided_of(session, component).for_each(|call| call.cut = false);
            return;
        }
        self.connected.remove(&connection);
        self.undecided_of(session, component).for_each(|call| call.disturbed = true);
    }

    /// The calls of a session to a component that have no outcome yet.
    fn undecided_of(
        &mut self,
        session: &SessionId,
        component: &ComponentName,
    ) -> impl Iterator<Item = &mut Call> {
        let of_it =
            move |c: &&mut Call| c.outcome.is_none() && c.session == *session && c.component == *component;
        self.calls.values_mut().filter(of_it)
    }
}

/// Whether an operation that ends so leaves work for somebody.
pub(crate) fn is_failure(phase: Phase) -> bool {
    matches!(phase, Phase::Refused | Phase::Failed | Phase::RolledBack)
}
