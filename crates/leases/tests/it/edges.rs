//! Where a lease could be lost or held twice: the last millisecond, the same thing done again, and whoever else is there.

use crate::world::{Client, World, key, session};
use pollster::block_on;
use std::time::Duration;
use tidegate_core::{Fence, WorkClass};
use tidegate_leases::{
    Acquire, Acquired, GRACE, Granted, Kept, Lease, LeaseEffect, LeaseError, LeaseOutcome, LeaseState,
    MAX_TTL, Outcome, SWEEP_BATCH, Settle, Swept,
};
use tidegate_store::Fault;

const TTL_MS: u64 = 30_000;

fn lease(world: &World) -> Lease {
    block_on(world.leases.get(&key("repo/main"))).unwrap().unwrap()
}

fn settle(world: &World, held: u64) -> (LeaseOutcome, Vec<LeaseEffect>) {
    let sessions = [session("s1")].into();
    let settle = Settle { restart: "op-1".to_owned(), sessions, held: Duration::from_secs(held) };
    let (mut outcomes, effects) = block_on(world.leases.settle(&settle)).unwrap();
    (outcomes.remove(0), effects)
}

/// A mutating lease of `s1` that a restart has orphaned: its client is dead, and its calls may still be executing.
fn orphaned() -> (World, Client, Acquired) {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.dies(&s1);
    world.people.session(&s1.owner.session, |s| s.unsettled_calls = true);
    assert_eq!(settle(&world, 0).0.outcome, Outcome::Orphaned);
    (world, s1, first)
}

#[test]
fn a_lease_is_kept_to_the_last_millisecond_of_its_grace_whatever_the_wall_clock_does() {
    let grace_ms = u64::try_from(GRACE.as_millis()).unwrap();
    for jump_ms in [0, 86_400_000, -86_400_000] {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        let first = world.acquire(&s1, WorkClass::Idempotent).unwrap();
        world.clock.advance_to(TTL_MS * 9 / 10 - 1);
        world.clock.jump_wall(jump_ms);
        assert!(first.freshness().is_fresh(&world.now()));
        world.clock.advance_to(TTL_MS * 9 / 10);
        assert!(!first.freshness().is_fresh(&world.now()));
        world.clock.advance_to(TTL_MS + grace_ms - 1);
        world.clock.jump_wall(-jump_ms);
        let early = world.acquire(&s2, WorkClass::Idempotent).unwrap_err();
        assert!(
            matches!(early, LeaseError::Held { free_in, kept: Kept::Unexpired, .. } if free_in.as_millis() == 1)
        );
        world.clock.advance_to(TTL_MS + grace_ms);
        assert_eq!(
            world.acquire(&s2, WorkClass::Idempotent).unwrap().how,
            Granted::RunOut { from: s1.owner.clone() }
        );
    }
}

#[test]
fn of_a_renewal_and_a_sweep_at_the_same_instant_the_first_counts_whatever_becomes_of_its_commit() {
    for (renewal_first, fault) in [
        (true, Fault::None),
        (true, Fault::UncertainApplied),
        (true, Fault::UncertainLost),
        (false, Fault::None),
        (false, Fault::UncertainApplied),
        (false, Fault::UncertainLost),
    ] {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        let first = world.acquire(&s1, WorkClass::Idempotent).unwrap();
        world.wait(31);
        let mut faults = vec![fault.clone()];
        world.store.set_faults(move |_: &tidegate_store::Txn| faults.pop().unwrap_or(Fault::None));
        let renew = || world.renew(&s1, first.fence);
        let sweep = || block_on(world.leases.sweep()).unwrap();
        if renewal_first {
            renew().unwrap();
            assert_eq!(sweep().0.total(), 0, "{fault:?}");
            assert!(world.acquire(&s2, WorkClass::Idempotent).is_err());
        } else {
            let (swept, effects) = sweep();
            assert_eq!((swept.expired, effects.len()), (1, 1), "{fault:?}");
            let gone = LeaseError::NotHeld { key: key("repo/main"), state: Some(LeaseState::Expired) };
            assert_eq!(renew(), Err(gone), "{fault:?}");
            assert!(world.acquire(&s2, WorkClass::Idempotent).unwrap().fence > first.fence);
        }
    }
}

#[test]
fn an_order_of_an_operator_is_carried_out_once_and_for_whoever_has_the_lease_too() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    let second = world.adopt(first.fence, &s1).unwrap();
    assert!(second > first.fence, "another number is another order: whoever had it is fenced off");
    assert_eq!(world.adopt(first.fence, &s1).unwrap(), second, "the same order again");
    assert!(
        matches!(world.adopt(first.fence, &s2), Err(LeaseError::Stale { .. })),
        "the same number for another"
    );
    world.release(&s1, second).unwrap();
    let stale = LeaseError::Stale { key: key("repo/main"), fence: first.fence, current: second };
    assert_eq!(world.adopt(first.fence, &s1), Err(stale), "what was given back is not had again");
}

#[test]
fn a_session_that_comes_back_without_a_process_gets_an_end_to_what_protects_mutations() {
    let check = |class, with_process: bool, expected: Option<Duration>| {
        let world = World::new();
        world.acquire(&world.client("s1"), class).unwrap();
        let back = if with_process { world.client("s1") } else { world.remote("s1") };
        block_on(world.leases.reattach(&back.owner)).unwrap();
        let lease = lease(&world);
        assert_eq!((lease.max_ttl, lease.max_deadline.is_some()), (expected, expected.is_some()), "{class}");
    };
    check(WorkClass::Mutating, false, Some(MAX_TTL));
    check(WorkClass::Mutating, true, None);
    check(WorkClass::Idempotent, false, None);
    check(WorkClass::ReadOnly, true, None);
}

#[test]
fn a_session_that_comes_back_takes_nothing_of_another_and_revives_nothing_that_has_ended() {
    let (world, other) = (World::new(), World::new());
    let first = world.acquire(&world.client("s1"), WorkClass::Mutating).unwrap();
    world.release(&world.client("s1"), first.fence).unwrap();
    assert!(block_on(world.leases.reattach(&world.client("s1").owner)).unwrap().is_empty());
    assert_eq!(lease(&world).state, LeaseState::Released);

    let first = other.acquire(&other.client("s2"), WorkClass::Mutating).unwrap();
    assert!(block_on(other.leases.reattach(&other.client("s1").owner)).unwrap().is_empty());
    assert_eq!(other.shows(), format!("s2 held {}", first.fence));
}

#[test]
fn nobody_renews_what_a_restart_has_orphaned_and_its_session_may_still_give_it_back() {
    let (world, s1, first) = orphaned();
    world.hides(&s1);
    assert_eq!(world.renew(&s1, first.fence), Err(LeaseError::Outlived { key: key("repo/main") }));
    world.wait(20);
    assert!(block_on(world.leases.touch(&s1.owner.session)).unwrap().is_empty());
    world.release(&s1, first.fence).unwrap();
    assert!(world.acquire(&world.client("s2"), WorkClass::Mutating).is_ok());
}

#[test]
fn what_one_session_does_renews_no_lease_of_another() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    world.acquire(&s1, WorkClass::Idempotent).unwrap();
    world.wait(20);
    assert!(block_on(world.leases.touch(&s2.owner.session)).unwrap().is_empty());
    assert_eq!(lease(&world).deadline.at_ms, TTL_MS);
    assert_eq!(block_on(world.leases.touch(&s1.owner.session)).unwrap(), [key("repo/main")]);
}

#[test]
fn a_dead_holders_lease_is_left_to_its_ttl_and_then_swept() {
    let world = World::new();
    let s1 = world.client("s1");
    world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.dies(&s1);
    world.wait(30);
    assert_eq!(block_on(world.leases.sweep()).unwrap().0.total(), 0, "its session may come back");
    world.wait(1);
    assert_eq!(block_on(world.leases.sweep()).unwrap().0.expired, 1);
    assert_eq!(world.history().last().unwrap().split(": ").last(), Some("its holder is proved dead"));
}

#[test]
fn a_sweep_changes_so_many_records_and_the_next_one_the_rest() {
    let world = World::new();
    let each = SWEEP_BATCH / 2;
    let get = |n: usize, owner: &Client, class, max_ttl| {
        let request = Acquire { key: key(&format!("r/{n:03}")), max_ttl, ..world.request(owner, class) };
        block_on(world.leases.acquire(request)).unwrap()
    };
    let (here, far) = (world.client("s1"), world.remote("s2"));
    for n in 0..each {
        let ended = get(3 * n, &here, WorkClass::ReadOnly, None);
        let by = tidegate_leases::By::Holder(here.owner.session.clone());
        let release = tidegate_leases::Release { key: ended.key, by, fence: ended.fence };
        block_on(world.leases.release(&release)).unwrap();
    }
    world.wait(3_600);
    for n in 0..each {
        get(3 * n + 1, &here, WorkClass::ReadOnly, None);
        get(3 * n + 2, &far, WorkClass::Mutating, Some(Duration::from_secs(30)));
    }
    world.wait(31);
    let swept = || block_on(world.leases.sweep()).unwrap();
    let (first, told) = swept();
    assert_eq!((first.total(), told.len()), (SWEEP_BATCH, first.expired + first.orphaned));
    assert!([first.expired, first.orphaned, first.forgotten].iter().all(|count| *count > 1), "{first:?}");
    let second = swept().0;
    assert_eq!(first.total() + second.total(), 3 * each);
    assert_eq!(swept().0, Swept::default());
}

#[test]
fn only_a_manager_that_was_away_for_a_whole_ttl_owes_one() {
    for (away_ms, owes) in [(TTL_MS - 1, false), (TTL_MS, true)] {
        let world = World::new();
        let s2 = world.client("s2");
        world.acquire(&world.client("s1"), WorkClass::Idempotent).unwrap();
        world.wait(2);
        block_on(world.leases.sweep()).unwrap();
        world.clock.advance_to(2_000 + away_ms);
        assert_eq!(world.acquire(&s2, WorkClass::Idempotent).is_err(), owes, "away for {away_ms} ms");
    }
}

#[test]
fn a_restart_gives_a_lease_to_another_client_only_where_one_has_come_back() {
    #[derive(Debug, Clone, Copy)]
    enum Back {
        Same,
        Another,
        Nobody,
    }
    let check = |class, attached: bool, with: Back, expected: Outcome| {
        let world = World::new();
        let s1 = world.client("s1");
        let first = world.acquire(&s1, class).unwrap();
        let process = match with {
            Back::Same => s1.owner.process.clone(),
            Back::Another => Some(world.people.born()),
            Back::Nobody => None,
        };
        world.people.session(&s1.owner.session, |s| (s.attached, s.process) = (attached, process.clone()));
        let (settled, effects) = settle(&world, 0);
        assert_eq!((settled.outcome, effects), (expected, vec![]), "{class} {attached} {with:?}");
        let adopted = expected == Outcome::Adopted;
        assert_eq!(settled.fence, (!adopted).then_some(first.fence), "the commit's own is not known yet");
        let after = lease(&world);
        assert_eq!(after.fence > first.fence, adopted);
        assert_eq!(after.owner.process, if adopted { process } else { s1.owner.process });
    };
    for class in [WorkClass::ReadOnly, WorkClass::Mutating] {
        check(class, true, Back::Same, Outcome::CarriedOver);
        check(class, true, Back::Another, Outcome::Adopted);
        check(class, true, Back::Nobody, Outcome::CarriedOver);
        check(class, false, Back::Same, Outcome::CarriedOver);
        check(class, false, Back::Another, Outcome::CarriedOver);
    }
}

#[test]
fn a_restart_orphans_only_what_protects_mutations_and_tells_nobody_twice_what_is_lost() {
    let world = World::new();
    let s1 = world.client("s1");
    world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    world.dies(&s1);
    world.people.session(&s1.owner.session, |s| s.unsettled_calls = true);
    assert_eq!(settle(&world, 0), (carried_over(lease(&world).fence), vec![]));

    let world = World::new();
    let first = world.acquire(&world.client("s1"), WorkClass::ReadOnly).unwrap();
    world.wait(31);
    assert_eq!(block_on(world.leases.sweep()).unwrap().1.len(), 1);
    let expired = LeaseOutcome { outcome: Outcome::Expired, ..carried_over(first.fence) };
    assert_eq!(settle(&world, 0), (expired, vec![]));
}

fn carried_over(fence: Fence) -> LeaseOutcome {
    let (key, session) = (key("repo/main"), session("s1"));
    LeaseOutcome { key, session, outcome: Outcome::CarriedOver, fence: Some(fence) }
}

#[test]
fn a_lease_that_runs_out_while_a_restart_holds_it_up_has_its_time_back_to_the_millisecond() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    world.acquire(&s1, WorkClass::Idempotent).unwrap();
    world.people.session(&s1.owner.session, |s| s.held_up = true);
    world.wait(100);
    assert!(world.acquire(&s2, WorkClass::Idempotent).is_err());
    assert_eq!(settle(&world, 100).0.outcome, Outcome::CarriedOver);
    world.people.session(&s1.owner.session, |s| s.held_up = false);
    assert_eq!(lease(&world).deadline.at_ms, TTL_MS + 100_000);
    world.clock.advance_to(TTL_MS + 100_999);
    assert!(world.acquire(&s2, WorkClass::Idempotent).is_err());
    world.clock.advance_to(TTL_MS + 101_000);
    assert!(world.acquire(&s2, WorkClass::Idempotent).is_ok());
}
