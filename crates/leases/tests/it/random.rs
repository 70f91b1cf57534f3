//! Never two valid holders, whatever happens in whatever order, with a store that fails in passing.

use crate::world::{Client, World, key};
use pollster::block_on;
use proptest::prelude::*;
use std::time::Duration;
use tidegate_core::{Entropy, Fence, WorkClass};
use tidegate_leases::{Acquire, Freshness, Granted, LeaseError, LeaseState, Settle};
use tidegate_store::SeededFaults;

const SESSIONS: usize = 3;

#[derive(Debug, Clone)]
enum Op {
    Acquire(usize, WorkClass),
    /// The last request once more, as whoever got no answer makes it.
    Again(usize),
    Renew(usize),
    Release(usize),
    Touch(usize),
    Dies(usize),
    Hides(usize),
    ComesBack(usize),
    Unsettled(usize, bool),
    HeldUp(usize, bool),
    Wait(u64),
    JumpWall(i64),
    Sweep,
    Adopt(usize),
    Settle(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0..SESSIONS;
    let class =
        prop_oneof![Just(WorkClass::ReadOnly), Just(WorkClass::Idempotent), Just(WorkClass::Mutating)];
    prop_oneof![
        6 => (who.clone(), class).prop_map(|(who, class)| Op::Acquire(who, class)),
        2 => who.clone().prop_map(Op::Again),
        4 => who.clone().prop_map(Op::Renew),
        2 => who.clone().prop_map(Op::Release),
        2 => who.clone().prop_map(Op::Touch),
        2 => who.clone().prop_map(Op::Dies),
        1 => who.clone().prop_map(Op::Hides),
        2 => who.clone().prop_map(Op::ComesBack),
        1 => (who.clone(), any::<bool>()).prop_map(|(who, on)| Op::Unsettled(who, on)),
        1 => (who.clone(), any::<bool>()).prop_map(|(who, on)| Op::HeldUp(who, on)),
        6 => (0_u64..40_000).prop_map(Op::Wait),
        1 => (-90_000_000_i64..90_000_000).prop_map(Op::JumpWall),
        2 => Just(Op::Sweep),
        1 => who.prop_map(Op::Adopt),
        1 => (0_u64..20_000).prop_map(Op::Settle),
    ]
}

/// One incarnation of a session's client, and what it believes to hold.
struct Holder {
    client: Client,
    alive: bool,
    asked: Option<Acquire>,
    belief: Option<Belief>,
}

struct Belief {
    freshness: Freshness,
    class: WorkClass,
    /// An operator gave the lease to somebody else: the only way to lose it without being dead, late or told.
    overruled: bool,
}

struct Model {
    world: World,
    holders: Vec<Holder>,
    highest: Fence,
}

/// A small generator, so that a case is the same every time.
struct Sequence(std::sync::atomic::AtomicU64);

impl Entropy for Sequence {
    fn bits(&self) -> u128 {
        let n = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, std::sync::atomic::Ordering::Relaxed);
        let mixed = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        u128::from(mixed ^ (mixed >> 27))
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        let world = World::new();
        world.store.set_faults(SeededFaults::transient(Sequence(seed.into()), 200));
        let holders = (0..SESSIONS).map(|n| Holder {
            client: world.client(&format!("s{n}")),
            alive: true,
            asked: None,
            belief: None,
        });
        Self { holders: holders.collect(), world, highest: Fence::default() }
    }

    fn step(&mut self, op: &Op) {
        let world = &self.world;
        match *op {
            Op::Acquire(who, class) if self.holders[who].alive => {
                let request = world.request(&self.holders[who].client, class);
                self.acquire(who, request);
            }
            Op::Again(who) if self.holders[who].alive => {
                if let Some(request) = self.holders[who].asked.clone() {
                    self.acquire(who, request);
                }
            }
            Op::Renew(who) if self.holders[who].alive => {
                let sent = world.now();
                let Holder { client, belief, .. } = &mut self.holders[who];
                let Some(held) = belief else { return };
                match world.renew(client, held.freshness.fence()) {
                    Ok(()) => held.freshness.renewed(&sent, Duration::from_secs(30)),
                    Err(error) if error.is_lost() => *belief = None,
                    Err(_) => {}
                }
            }
            Op::Release(who) if self.holders[who].alive => {
                let Holder { client, belief, .. } = &mut self.holders[who];
                if let Some(held) = belief.take() {
                    let stale = world.release(client, held.freshness.fence());
                    assert!(!matches!(stale, Err(LeaseError::NotYours { .. })));
                }
            }
            Op::Touch(who) => drop(block_on(world.leases.touch(&self.holders[who].client.owner.session))),
            Op::Dies(who) => {
                world.dies(&self.holders[who].client);
                self.gone(who);
            }
            Op::Hides(who) if self.holders[who].alive => world.hides(&self.holders[who].client),
            Op::ComesBack(who) if !self.holders[who].alive => {
                let client = world.client(&format!("s{who}"));
                let process = client.owner.process.clone();
                world.people.session(&client.owner.session, |s| (s.attached, s.process) = (true, process));
                self.holders[who] = Holder { client, alive: true, asked: None, belief: None };
            }
            Op::Unsettled(who, on) => {
                world.people.session(&self.holders[who].client.owner.session, |s| s.unsettled_calls = on);
            }
            Op::HeldUp(who, on) => {
                world.people.session(&self.holders[who].client.owner.session, |s| s.held_up = on);
            }
            Op::Wait(ms) => world.clock.advance_to(world.now().boot_ms + ms),
            Op::JumpWall(ms) => world.clock.jump_wall(ms),
            Op::Sweep => drop(block_on(world.leases.sweep())),
            Op::Adopt(who) if self.holders[who].alive => self.adopt(who),
            Op::Settle(held_ms) => {
                let sessions = self.holders.iter().map(|h| h.client.owner.session.clone()).collect();
                let restart = format!("op-{}", world.now().boot_ms);
                let held = Duration::from_millis(held_ms);
                drop(block_on(world.leases.settle(&Settle { restart, sessions, held })));
            }
            Op::Acquire(..)
            | Op::Again(_)
            | Op::Renew(_)
            | Op::Release(_)
            | Op::Hides(_)
            | Op::ComesBack(_)
            | Op::Adopt(_) => {}
        }
    }

    fn acquire(&mut self, who: usize, request: Acquire) {
        let class = request.class;
        self.holders[who].asked = Some(request.clone());
        if let Ok(acquired) = block_on(self.world.leases.acquire(request)) {
            let freshness = acquired.freshness();
            self.holders[who].belief = Some(Belief { freshness, class, overruled: false });
            match acquired.how {
                Granted::Already { fence } => assert_eq!(fence, acquired.fence),
                _ => self.granted(acquired.fence),
            }
        }
    }

    fn adopt(&mut self, who: usize) {
        let Some(lease) = block_on(self.world.leases.get(&key("repo/main"))).unwrap() else { return };
        let to = self.holders[who].client.clone();
        if let Ok(fence) = self.world.adopt(lease.fence, &to) {
            for holder in &mut self.holders {
                if let Some(belief) = &mut holder.belief {
                    belief.overruled = true;
                }
            }
            let freshness = Freshness::new(fence, &self.world.now(), lease.ttl);
            self.holders[who].belief = Some(Belief { freshness, class: lease.class, overruled: false });
            self.granted(fence);
        }
    }

    fn gone(&mut self, who: usize) {
        let holder = &mut self.holders[who];
        (holder.alive, holder.belief) = (false, None);
        self.world.people.session(&holder.client.owner.session, |s| (s.attached, s.process) = (false, None));
    }

    fn granted(&mut self, fence: Fence) {
        assert!(fence > self.highest, "the fence {fence} is not above {}", self.highest);
        self.highest = fence;
    }

    fn fresh(&self) -> usize {
        let now = self.world.now();
        let believes =
            |h: &&Holder| h.belief.as_ref().is_some_and(|b| !b.overruled && b.freshness.is_fresh(&now));
        self.holders.iter().filter(believes).count()
    }

    /// What has to be true after every step.
    fn check(&self) {
        let lease = block_on(self.world.leases.get(&key("repo/main"))).unwrap();
        assert!(self.fresh() <= 1, "two fresh holders");
        for holder in &self.holders {
            let Some(belief) = holder.belief.as_ref().filter(|b| !b.overruled) else { continue };
            let mutating = belief.class == WorkClass::Mutating;
            if !mutating && !belief.freshness.is_fresh(&self.world.now()) {
                continue;
            }
            let lease = lease.as_ref().expect("there is a record of every lease that somebody may act under");
            assert_eq!(
                lease.fence,
                belief.freshness.fence(),
                "somebody else has what {:?} holds",
                holder.client
            );
            assert_eq!(lease.owner, holder.client.owner);
            assert!(matches!(lease.state, LeaseState::Held | LeaseState::Orphaned), "{lease:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_two_valid_holders(ops in prop::collection::vec(op(), 1..80), seed in any::<u64>()) {
        let mut model = Model::new(seed);
        for op in &ops {
            model.step(op);
            model.check();
        }
    }
}
