//! The lease protocol, exhaustively: two holders that ask, hear late, never, or too late, and die at any moment; one
//! clock; one sweeper. The decisions are those of `tidegate-leases`.

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Duration;
use tidegate_core::{
    BootId, Epoch, Fence, Liveness, Now, ProcessIdentity, Revision, SessionId, WallTime, WorkClass,
};
use tidegate_leases::{
    Acquire, By, Facts, Granted, LeaseKey, LeaseState, MARGIN, MIN_TTL, Owner, Release, Renew,
    decide_acquire, decide_release, decide_renew, decide_sweep, load,
};
use tidegate_store::{Condition, Record, Txn, View};

/// The clock's last second: a ttl and its grace are over then, and a lease of the first second is taken over.
const SECONDS: u64 = 5;

/// What each holder asks for in its life.
const REQUESTS: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Acquire,
    Renew,
    Release,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Second,
    /// Reads, decides, and sends the commit on its way.
    Ask(usize, Request),
    /// The commit arrives and its holder hears what came of it.
    Arrive(usize),
    /// The commit arrives, and nobody hears of it.
    ArriveUnheard(usize),
    Vanish(usize),
    Die(usize),
    Sweep,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    second: u64,
    revision: u64,
    /// The lease's record, and the revision that wrote it.
    record: Option<(Vec<u8>, u64)>,
    holders: [Holder; 2],
    /// The highest fence anybody got, and whether one was granted that isn't higher than all before.
    highest: u64,
    went_back: bool,
    /// A mutating lease was granted while its former holder lived and had neither released nor lost it.
    robbed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Holder {
    alive: bool,
    requests: u8,
    under_way: Option<UnderWay>,
    belief: Option<Belief>,
}

/// A commit that was sent and hasn't arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct UnderWay {
    request: Request,
    sent: u64,
    expects: Option<u64>,
    writes: Option<Vec<u8>>,
}

/// What a holder believes to hold, and until when it acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Belief {
    fence: u64,
    until_ms: u64,
}

struct Protocol {
    class: WorkClass,
    /// How long a holder trusts a ttl. Longer than it is, and the model has to notice.
    trusts: Duration,
}

impl Protocol {
    fn of(class: WorkClass) -> Self {
        Self { class, trusts: MIN_TTL - MIN_TTL / MARGIN }
    }

    fn key() -> LeaseKey {
        "repo/main".parse().unwrap()
    }

    fn owner(holder: usize) -> Owner {
        let process = ProcessIdentity {
            boot: BootId(1),
            pid_ns: 1,
            pid: 100 + holder as u32,
            start_ticks: 1,
            nonce: format!("n{holder}"),
        };
        let session: SessionId = format!("local/s{holder}").parse().unwrap();
        Owner { session, process: Some(process) }
    }

    fn facts(world: &World) -> Facts {
        world.holders.iter().enumerate().fold(Facts::none(), |facts, (n, holder)| {
            let liveness = if holder.alive { Liveness::Alive } else { Liveness::Dead };
            facts.with_process(&Self::owner(n).process.unwrap(), liveness)
        })
    }

    fn decide(&self, world: &World, holder: usize, request: Request) -> Option<Txn> {
        let (view, facts, now) = (world.view(), Self::facts(world), world.now());
        let owner = Self::owner(holder);
        let fence = || Fence::new(Epoch(1), Revision(world.holders[holder].belief.map_or(0, |b| b.fence)));
        match request {
            Request::Acquire => {
                let nonce = format!("{holder}-{}", world.holders[holder].requests);
                let acquire = Acquire {
                    key: Self::key(),
                    owner,
                    class: self.class,
                    ttl: MIN_TTL,
                    max_ttl: None,
                    nonce,
                };
                let decision = decide_acquire(&view, &acquire, &facts, &now).ok()?;
                assert!(
                    !matches!(decision.reply.how, Granted::Already { .. }),
                    "each request has its own nonce"
                );
                Some(decision.txn)
            }
            Request::Renew => {
                let renew = Renew { key: Self::key(), owner, fence: fence() };
                Some(decide_renew(&view, &renew, &facts, &now).ok()?.txn)
            }
            Request::Release => {
                let release = Release { key: Self::key(), by: By::Holder(owner.session), fence: fence() };
                Some(decide_release(&view, &release, &now).ok()?.txn)
            }
        }
    }

    /// Whether the holder of a mutating lease is being robbed of it by a grant to `other`.
    fn robs(&self, world: &World, other: usize) -> bool {
        let former = 1 - other;
        let lease = load(&world.view(), &Self::key()).unwrap();
        let holds = lease.is_some_and(|l| l.state == LeaseState::Held && l.owner == Self::owner(former));
        self.class == WorkClass::Mutating && world.holders[former].alive && holds
    }

    fn arrive(&self, world: &mut World, holder: usize, heard: bool) {
        let Some(way) = world.holders[holder].under_way.take() else { return };
        if way.expects != world.record.as_ref().map(|(_, revision)| *revision) {
            return;
        }
        let Some(record) = way.writes else { return };
        if way.request == Request::Acquire {
            world.robbed |= self.robs(world, holder);
        }
        world.revision += 1;
        world.record = Some((record, world.revision));
        let until_ms = way.sent * 1_000 + self.trusts.as_millis() as u64;
        match way.request {
            Request::Acquire => {
                world.went_back |= world.revision <= world.highest;
                world.highest = world.revision;
                if heard {
                    world.holders[holder].belief = Some(Belief { fence: world.revision, until_ms });
                }
            }
            Request::Renew if heard => {
                if let Some(belief) = &mut world.holders[holder].belief {
                    belief.until_ms = belief.until_ms.max(until_ms);
                }
            }
            Request::Renew | Request::Release => {}
        }
    }
}

impl World {
    fn view(&self) -> View {
        let record = self.record.iter().map(|(value, revision)| Record {
            key: Protocol::key().record().clone(),
            value: value.as_slice().into(),
            fence: Fence::new(Epoch(1), Revision(*revision)),
        });
        View::new(Epoch(1), Revision(self.revision), record)
    }

    fn now(&self) -> Now {
        Now { boot: BootId(1), boot_ms: self.second * 1_000, wall: WallTime(0) }
    }

    fn acts(&self, holder: usize) -> bool {
        let Holder { alive, belief, .. } = &self.holders[holder];
        *alive && belief.is_some_and(|belief| self.second * 1_000 < belief.until_ms)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let holder = Holder { alive: true, requests: REQUESTS, under_way: None, belief: None };
        vec![World {
            second: 1,
            revision: 0,
            record: None,
            holders: [holder.clone(), holder],
            highest: 0,
            went_back: false,
            robbed: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.second < SECONDS {
            actions.push(Action::Second);
        }
        for (n, holder) in world.holders.iter().enumerate() {
            if holder.under_way.is_some() {
                actions.extend([Action::Arrive(n), Action::ArriveUnheard(n), Action::Vanish(n)]);
            } else if holder.alive && holder.requests > 0 {
                actions.push(Action::Ask(n, Request::Acquire));
                if holder.belief.is_some() {
                    actions.extend([Action::Ask(n, Request::Renew), Action::Ask(n, Request::Release)]);
                }
            }
            if holder.alive {
                actions.push(Action::Die(n));
            }
        }
        if world.record.is_some() {
            actions.push(Action::Sweep);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Second => next.second += 1,
            Action::Ask(n, request) => {
                let txn = self.decide(world, n, request)?;
                let key = Protocol::key();
                let expects = match txn.expect.get(key.record()) {
                    Some(Condition::At(Revision(revision))) => Some(*revision),
                    _ => None,
                };
                let writes = txn.writes.get(key.record()).cloned().flatten().map(|value| value.to_vec());
                let holder = &mut next.holders[n];
                holder.requests -= 1;
                holder.under_way = Some(UnderWay { request, sent: world.second, expects, writes });
                if request == Request::Release {
                    // Whoever gives back stops acting first.
                    holder.belief = None;
                }
            }
            Action::Arrive(n) => self.arrive(&mut next, n, true),
            Action::ArriveUnheard(n) => self.arrive(&mut next, n, false),
            Action::Vanish(n) => next.holders[n].under_way = None,
            Action::Die(n) => next.holders[n].alive = false,
            Action::Sweep => {
                let (view, facts) = (world.view(), Self::facts(world));
                let txn = decide_sweep(&view, "sweep", &facts, &world.now()).unwrap().txn;
                let value = txn.writes.get(Protocol::key().record())?;
                next.revision += 1;
                next.record = value.as_ref().map(|value| (value.to_vec(), next.revision));
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one acts", |_, world: &World| !(world.acts(0) && world.acts(1))),
            Property::always("fences grow", |_, world: &World| !world.went_back),
            Property::always("nobody is robbed", |_, world: &World| !world.robbed),
            Property::sometimes("the second gets it after the first", |_, world: &World| {
                world.holders.iter().all(|holder| holder.belief.is_some())
            }),
        ]
    }
}

#[test]
fn of_two_holders_at_most_one_acts_whatever_is_lost_late_or_dead() {
    for class in [WorkClass::ReadOnly, WorkClass::Mutating] {
        let checker = Protocol::of(class).checker().threads(2).spawn_bfs().join();
        eprintln!("{class}: {} states", checker.unique_state_count());
        checker.assert_properties();
        assert!(checker.unique_state_count() > 1_000, "{class}: the bounds leave nothing to explore");
    }
}

#[test]
fn a_holder_that_trusts_a_ttl_for_too_long_is_found() {
    let trusts = MIN_TTL + Duration::from_secs(2);
    let found = HasDiscoveries::AnyFailures;
    let protocol = Protocol { class: WorkClass::ReadOnly, trusts };
    let checker = protocol.checker().threads(2).finish_when(found).spawn_dfs().join();
    assert!(checker.discovery("one acts").is_some());
}
