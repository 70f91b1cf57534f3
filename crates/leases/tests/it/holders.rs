//! Who has a lease, who may take it, and who is told that theirs is gone.

use crate::world::{World, key, manager, session};
use pollster::block_on;
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::{Fence, Liveness, WorkClass};
use tidegate_leases::{
    Acquire, By, GRACE, Granted, Kept, LeaseEffect, LeaseError, LeaseState, MAX_TTL, MIN_TTL, Outcome,
    Release, Settle,
};
use tidegate_store::{Fault, MemoryStore};

const READING: [WorkClass; 2] = [WorkClass::ReadOnly, WorkClass::Idempotent];
const DAY_MS: i64 = 86_400_000;

#[track_caller]
fn assert_held(result: Result<tidegate_leases::Acquired, LeaseError>, expected: Kept) {
    match result {
        Err(LeaseError::Held { kept, .. }) => assert_eq!(kept, expected),
        other => panic!("expected it to be held ({expected:?}), got {other:?}"),
    }
}

#[test]
fn read_and_idempotent_leases_run_out_a_ttl_and_a_grace_after_the_last_renewal() {
    for class in READING {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        let first = world.acquire(&s1, class).unwrap();
        world.wait(20);
        world.renew(&s1, first.fence).unwrap();
        world.wait(30 + GRACE.as_secs() - 1);
        assert_held(world.acquire(&s2, class), Kept::Unexpired);
        world.wait(1);
        let second = world.acquire(&s2, class).unwrap();
        assert_eq!(second.how, Granted::RunOut { from: s1.owner.clone() });
        assert_eq!(
            second.effects,
            [LeaseEffect::Lost { key: first.key, session: s1.owner.session, fence: first.fence }]
        );
        assert_eq!(
            world.history(),
            [
                "s1 granted".to_owned(),
                format!("s1 expired {}: its time had run out", first.fence),
                "s2 granted".to_owned()
            ]
        );
    }
}

#[test]
fn a_mutating_lease_never_runs_out_under_a_holder_that_is_not_proved_dead() {
    for hidden in [false, true] {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
        if hidden {
            world.hides(&s1);
        }
        world.wait(30 * 24 * 60 * 60);
        block_on(world.leases.sweep()).unwrap();
        assert_held(world.acquire(&s2, WorkClass::Mutating), Kept::Unproved);
        world.renew(&s1, first.fence).unwrap();
    }
}

#[test]
fn cannot_tell_counts_as_alive() {
    for class in [WorkClass::ReadOnly, WorkClass::Mutating] {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        world.acquire(&s1, class).unwrap();
        world.hides(&s1);
        assert!(matches!(world.acquire(&s2, class), Err(LeaseError::Held { .. })), "{class}");
        world.dies(&s1);
        assert_eq!(world.acquire(&s2, class).unwrap().how, Granted::HolderDead { from: s1.owner }, "{class}");
    }
}

#[test]
fn a_wall_clock_that_jumps_a_day_either_way_neither_ends_a_lease_early_nor_lengthens_it() {
    for jump in [DAY_MS, -DAY_MS] {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        let first = world.acquire(&s1, WorkClass::Idempotent).unwrap();
        world.clock.jump_wall(jump);
        world.wait(26);
        assert!(first.freshness().is_fresh(&world.now()));
        assert_held(world.acquire(&s2, WorkClass::Idempotent), Kept::Unexpired);
        world.wait(5);
        assert!(world.acquire(&s2, WorkClass::Idempotent).is_ok());
    }
}

#[test]
fn a_late_or_double_release_leaves_the_successor_alone_and_says_so() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.release(&s1, first.fence).unwrap();
    world.release(&s1, first.fence).unwrap();
    let second = world.acquire(&s2, WorkClass::Mutating).unwrap();
    let before = world.shows();
    for refused in [world.release(&s1, first.fence), world.renew(&s1, first.fence)] {
        let stale = LeaseError::Stale { key: key("repo/main"), fence: first.fence, current: second.fence };
        assert_eq!(refused, Err(stale));
    }
    assert_eq!(world.shows(), before);
}

#[test]
fn a_late_renewal_is_fine_as_long_as_nobody_got_the_lease_since() {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    world.wait(40);
    world.renew(&s1, first.fence).unwrap();
    world.wait(40);
    block_on(world.leases.sweep()).unwrap();
    let gone = LeaseError::NotHeld { key: key("repo/main"), state: Some(LeaseState::Expired) };
    assert_eq!(world.renew(&s1, first.fence), Err(gone.clone()));
    assert_eq!(world.release(&s1, first.fence), Err(gone));
}

#[test]
fn nobody_renews_or_releases_for_somebody_else_even_with_the_right_fence() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    let not_yours = LeaseError::NotYours { key: key("repo/main"), by: session("s1") };
    assert_eq!(world.renew(&s2, first.fence), Err(not_yours.clone()));
    assert_eq!(world.release(&s2, first.fence), Err(not_yours));
    let never = Fence::default();
    assert!(matches!(world.renew(&s1, never), Err(LeaseError::Stale { .. })));
}

#[test]
fn a_renewer_that_outlives_its_owner_is_refused() {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.dies(&s1);
    let refused = world.renew(&s1, first.fence).unwrap_err();
    assert_eq!(refused, LeaseError::OwnerGone { key: key("repo/main") });
    assert!(refused.is_lost());
}

#[test]
fn a_mutating_lease_whose_holder_cannot_be_asked_goes_only_to_whom_an_operator_gives_it() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.hides(&s1);
    world.wait(3_600);
    assert_held(world.acquire(&s2, WorkClass::Mutating), Kept::Unproved);
    let fence = world.adopt(first.fence, &s2).unwrap();
    assert!(fence > first.fence);
    assert_eq!(world.adopt(first.fence, &s2).unwrap(), fence, "the same order again");
    assert!(matches!(world.renew(&s1, first.fence), Err(LeaseError::Stale { .. })));
    let record = "by the operator ops, from local/s1, which is not proved dead: nobody answers";
    assert_eq!(world.history()[1], format!("s1 adopted {}: {record}", first.fence));
}

#[test]
fn an_operator_adopts_what_they_looked_at_and_not_what_came_after() {
    let world = World::new();
    let (s1, s2, s3) = (world.client("s1"), world.client("s2"), world.client("s3"));
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.release(&s1, first.fence).unwrap();
    let second = world.acquire(&s2, WorkClass::Mutating).unwrap();
    assert!(matches!(world.adopt(first.fence, &s3), Err(LeaseError::Stale { .. })));
    world.renew(&s2, second.fence).unwrap();
}

#[test]
fn an_operator_releases_what_another_holds_on_the_record() {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    let release =
        Release { key: key("repo/main"), by: By::Operator("ops".parse().unwrap()), fence: first.fence };
    let effects = block_on(world.leases.release(&release)).unwrap();
    assert!(matches!(&effects[..], [LeaseEffect::Lost { session, .. }] if session.name.as_str() == "s1"));
    assert_eq!(world.history()[1], format!("s1 released {}: by the operator ops", first.fence));
}

#[test]
fn activity_on_the_session_renews_and_costs_a_commit_only_in_the_second_half_of_the_ttl() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Idempotent).unwrap();
    let s1_works = || block_on(world.leases.touch(&s1.owner.session)).unwrap();
    world.wait(15);
    assert!(s1_works().is_empty());
    for _ in 0..10 {
        world.wait(16);
        assert_eq!(s1_works(), [key("repo/main")]);
    }
    assert!(block_on(world.leases.touch(&s2.owner.session)).unwrap().is_empty());
    assert_held(world.acquire(&s2, WorkClass::Idempotent), Kept::Unexpired);
    assert_eq!(world.shows(), format!("s1 held {}", first.fence));
}

#[test]
fn the_same_session_coming_back_adopts_its_lease_under_a_new_fence() {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    let again = world.client("s1");
    assert_eq!(block_on(world.leases.reattach(&again.owner)).unwrap(), [key("repo/main")]);
    assert!(matches!(world.renew(&s1, first.fence), Err(LeaseError::Stale { .. })));
    let shown = world.shows();
    assert_eq!(block_on(world.leases.reattach(&again.owner)).unwrap(), [key("repo/main")]);
    assert_eq!(world.shows(), shown, "twice is once");
    let by_acquiring = world.acquire(&world.client("s1"), WorkClass::Mutating).unwrap();
    assert_eq!(by_acquiring.how, Granted::Adopted);
    assert_eq!(world.history().iter().filter(|event| event.contains("adopted")).count(), 2);
}

#[test]
fn the_same_request_again_gets_the_same_fence() {
    let world = World::new();
    let request = world.request(&world.client("s1"), WorkClass::Mutating);
    let first = block_on(world.leases.acquire(request.clone())).unwrap();
    let again = block_on(world.leases.acquire(request)).unwrap();
    assert_eq!((again.how, again.fence), (Granted::Already { fence: first.fence }, first.fence));
}

#[test]
fn a_request_made_again_late_is_fresh_for_what_is_left_and_no_longer() {
    for (again_at, is_fresh) in [(20, true), (29, true), (40, false)] {
        let world = World::new();
        let request = world.request(&world.client("s1"), WorkClass::Idempotent);
        let first = block_on(world.leases.acquire(request.clone())).unwrap();
        world.wait(again_at);
        let again = block_on(world.leases.acquire(request)).unwrap();
        assert_eq!((again.fence, again.expires), (first.fence, first.expires));
        assert_eq!(again.freshness().is_fresh(&world.now()), is_fresh, "after {again_at} s");
        world.wait(31_u64.saturating_sub(again_at));
        let other = world.acquire(&world.client("s2"), WorkClass::Idempotent).unwrap();
        assert!(other.freshness().is_fresh(&world.now()));
        assert!(!again.freshness().is_fresh(&world.now()), "two holders");
    }
}

#[test]
fn a_number_used_again_by_another_process_of_the_session_is_no_lease_for_two() {
    let world = World::new();
    let request = world.request(&world.client("s1"), WorkClass::Mutating);
    let first = block_on(world.leases.acquire(request.clone())).unwrap();
    let owner = world.client("s1").owner;
    assert_ne!(owner.process, request.owner.process);
    let second = block_on(world.leases.acquire(Acquire { owner, ..request })).unwrap();
    assert_eq!(second.how, Granted::Adopted);
    assert!(second.fence > first.fence);
}

#[test]
fn nothing_is_taken_from_a_session_with_unsettled_calls_even_when_its_client_is_dead() {
    for class in [WorkClass::ReadOnly, WorkClass::Mutating] {
        let world = World::new();
        let (s1, s2) = (world.client("s1"), world.client("s2"));
        world.acquire(&s1, class).unwrap();
        world.people.session(&s1.owner.session, |s| s.unsettled_calls = true);
        world.dies(&s1);
        world.wait(3_600);
        block_on(world.leases.sweep()).unwrap();
        assert_held(world.acquire(&s2, class), Kept::UnsettledCalls);
        world.people.session(&s1.owner.session, |s| s.unsettled_calls = false);
        assert!(world.acquire(&s2, class).is_ok());
    }
}

#[test]
fn a_dead_process_is_no_proof_once_another_client_has_come_back_to_the_session() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.dies(&s1);
    world.people.session(&s1.owner.session, |s| s.attached = true);
    assert_held(world.acquire(&s2, WorkClass::Mutating), Kept::Unproved);
}

#[test]
fn a_mutating_lease_without_a_process_needs_a_max_ttl_and_is_orphaned_after_it() {
    let world = World::new();
    let (s1, s2) = (world.remote("s1"), world.client("s2"));
    let mut request = world.request(&s1, WorkClass::Mutating);
    let needed = LeaseError::MaxTtlRequired { key: key("repo/main") };
    assert_eq!(block_on(world.leases.acquire(request.clone())).unwrap_err(), needed);
    request.max_ttl = Some(Duration::from_secs(60));
    let first = block_on(world.leases.acquire(request)).unwrap();
    world.wait(45);
    world.renew(&s1, first.fence).unwrap();
    assert_eq!(block_on(world.leases.sweep()).unwrap().1, []);
    world.wait(15);
    assert_eq!(world.renew(&s1, first.fence), Err(LeaseError::Outlived { key: key("repo/main") }));
    let (_, effects) = block_on(world.leases.sweep()).unwrap();
    assert!(
        matches!(&effects[..], [LeaseEffect::Orphaned { session, fence, .. }] if session.name.as_str() == "s1" && *fence == first.fence)
    );
    assert_held(world.acquire(&s2, WorkClass::Mutating), Kept::Orphaned);
    assert!(world.adopt(first.fence, &s2).is_ok());
}

#[test]
fn a_manager_that_was_frozen_longer_than_a_ttl_gives_every_holder_a_whole_one_again() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Idempotent).unwrap();
    block_on(world.leases.sweep()).unwrap();
    world.wait(3_600);
    assert_held(world.acquire(&s2, WorkClass::Idempotent), Kept::Unexpired);
    for _ in 0..30 {
        assert_eq!(block_on(world.leases.sweep()).unwrap().0.total(), 0);
        world.wait(1);
    }
    assert!(!first.freshness().is_fresh(&world.now()), "the holder itself knows better than to act");
    world.wait(1);
    assert_eq!(block_on(world.leases.sweep()).unwrap().0.expired, 1);
    let second = world.acquire(&s2, WorkClass::Idempotent).unwrap();
    assert!(second.fence > first.fence);
}

#[test]
fn a_manager_that_starts_over_the_leases_of_a_former_one_gives_every_holder_a_whole_ttl_again() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Idempotent).unwrap();
    world.wait(300);
    let successor = manager(&world.store, &world.clock, &world.people);
    successor.begin_after(MAX_TTL);
    assert_eq!(block_on(successor.sweep()).unwrap().0.total(), 0);
    let request = || world.request(&s2, WorkClass::Idempotent);
    assert_held(block_on(successor.acquire(request())), Kept::Unexpired);
    world.renew(&s1, first.fence).unwrap();
    for second in 1..=31 {
        assert!(world.is_held(), "after {second} s");
        world.wait(1);
        block_on(successor.sweep()).unwrap();
    }
    assert!(block_on(successor.acquire(request())).is_ok());
}

#[test]
fn a_grant_whose_commit_was_uncertain_is_recognised_and_never_made_twice() {
    for fault in [Fault::UncertainApplied, Fault::UncertainLost] {
        let world = World::new();
        let mut faults = vec![fault];
        world.store.set_faults(move |_: &tidegate_store::Txn| faults.pop().unwrap_or(Fault::None));
        let s1 = world.client("s1");
        let got = world.acquire(&s1, WorkClass::Mutating).unwrap();
        assert_eq!(world.shows(), format!("s1 held {}", got.fence));
        assert_eq!(world.history(), ["s1 granted"]);
        world.renew(&s1, got.fence).unwrap();
    }
}

#[test]
fn a_reboot_of_the_host_takes_nothing_from_a_holder_on_another_one_before_a_whole_ttl() {
    let world = World::new();
    let (s1, s2) = (world.remote("s1"), world.client("s2"));
    world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    world.wait(3_600);
    world.clock.reboot();
    world.wait(30);
    assert_held(world.acquire(&s2, WorkClass::ReadOnly), Kept::Unexpired);
    world.wait(1);
    assert!(world.acquire(&s2, WorkClass::ReadOnly).is_ok());
}

#[test]
fn a_restart_leaves_each_lease_exactly_one_of_five_things() {
    let world = World::new();
    let (kept, gave, late, back, lost) = (
        world.client("kept"),
        world.client("gave"),
        world.client("late"),
        world.client("back"),
        world.client("lost"),
    );
    let acquire = |client: &crate::world::Client, name: &str, class| {
        let request = tidegate_leases::Acquire { key: key(name), ..world.request(client, class) };
        block_on(world.leases.acquire(request)).unwrap()
    };
    acquire(&kept, "a", WorkClass::ReadOnly);
    let given = acquire(&gave, "b", WorkClass::Mutating);
    acquire(&late, "c", WorkClass::Idempotent);
    let former = acquire(&back, "d", WorkClass::Mutating);
    acquire(&lost, "e", WorkClass::Mutating);
    block_on(world.leases.release(&Release {
        key: key("b"),
        by: By::Holder(session("gave")),
        fence: given.fence,
    }))
    .unwrap();
    world.dies(&late);
    world.dies(&lost);
    world.people.session(&session("lost"), |s| s.unsettled_calls = true);
    let new = world.people.born();
    world.people.session(&session("back"), |s| (s.attached, s.process) = (true, Some(new)));
    world.wait(40);

    let sessions: BTreeSet<_> = ["kept", "gave", "late", "back", "lost"].map(session).into();
    let settle = Settle { restart: "op-1".to_owned(), sessions, held: Duration::from_secs(20) };
    let (outcomes, effects) = block_on(world.leases.settle(&settle)).unwrap();
    let names: Vec<_> = outcomes.iter().map(|o| (o.key.as_str(), o.outcome)).collect();
    assert_eq!(
        names,
        [
            ("a", Outcome::CarriedOver),
            ("b", Outcome::Released),
            ("c", Outcome::Expired),
            ("d", Outcome::Adopted),
            ("e", Outcome::Orphaned)
        ]
    );
    let told: Vec<_> = effects
        .iter()
        .map(|effect| match effect {
            LeaseEffect::Orphaned { key, .. } => format!("orphaned {key}"),
            LeaseEffect::Lost { key, .. } => format!("lost {key}"),
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(told, ["lost c", "orphaned e"]);
    let after: Vec<_> = block_on(world.leases.list()).unwrap();
    assert_eq!(after[0].deadline.at_ms, 50_000, "held time doesn't count");
    assert!(after[3].fence > former.fence);

    let again = block_on(world.leases.settle(&settle)).unwrap();
    assert_eq!(
        again.0.iter().map(|o| o.outcome).collect::<Vec<_>>(),
        names.iter().map(|n| n.1).collect::<Vec<_>>()
    );
    assert_eq!(
        (again.1, block_on(world.leases.list()).unwrap()),
        (effects, after),
        "settling twice is settling once"
    );
}

#[test]
fn a_restart_that_is_settled_again_says_nothing_of_what_was_granted_since() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let first = world.acquire(&s1, WorkClass::Mutating).unwrap();
    world.dies(&s1);
    world.people.session(&s1.owner.session, |s| s.unsettled_calls = true);
    let settle = Settle {
        restart: "op-1".to_owned(),
        sessions: [session("s1"), session("s2")].into(),
        held: Duration::ZERO,
    };
    let (outcomes, effects) = block_on(world.leases.settle(&settle)).unwrap();
    assert_eq!((outcomes[0].outcome, effects.len()), (Outcome::Orphaned, 1));
    let fence = world.adopt(first.fence, &s2).unwrap();
    let (outcomes, effects) = block_on(world.leases.settle(&settle)).unwrap();
    assert_eq!((outcomes[0].outcome, effects), (Outcome::CarriedOver, vec![]));
    assert_eq!(world.shows(), format!("s2 held {fence}"));
}

#[test]
fn sessions_outside_a_restart_keep_their_leases_as_they_are() {
    let world = World::new();
    world.acquire(&world.client("s1"), WorkClass::ReadOnly).unwrap();
    let before = block_on(world.leases.list()).unwrap();
    let settle =
        Settle { restart: "op-1".to_owned(), sessions: [session("s2")].into(), held: Duration::from_secs(9) };
    assert_eq!(block_on(world.leases.settle(&settle)).unwrap(), (vec![], vec![]));
    assert_eq!(block_on(world.leases.list()).unwrap(), before);
}

#[test]
fn an_orphan_is_told_of_even_when_the_commit_that_made_it_was_uncertain() {
    let world = World::new();
    let mut request = world.request(&world.remote("s1"), WorkClass::Mutating);
    request.max_ttl = Some(Duration::from_secs(60));
    block_on(world.leases.acquire(request)).unwrap();
    world.wait(61);
    let mut faults = vec![Fault::UncertainApplied];
    world.store.set_faults(move |_: &tidegate_store::Txn| faults.pop().unwrap_or(Fault::None));
    let (swept, effects) = block_on(world.leases.sweep()).unwrap();
    assert_eq!((swept.orphaned, effects.len()), (1, 1));
}

#[test]
fn ended_leases_are_forgotten_after_a_while_and_live_ones_never() {
    let world = World::new();
    let first = world.acquire(&world.client("s1"), WorkClass::Mutating).unwrap();
    world.wait(100_000);
    assert_eq!(block_on(world.leases.sweep()).unwrap().0.total(), 0);
    world.release(&world.client("s1"), first.fence).unwrap();
    world.wait(3_599);
    assert_eq!(block_on(world.leases.sweep()).unwrap().0.forgotten, 0);
    world.wait(1);
    assert_eq!(block_on(world.leases.sweep()).unwrap().0.forgotten, 1);
    assert_eq!(world.shows(), "");
}

#[test]
fn two_managers_of_one_store_grant_one_lease() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let other = manager(&MemoryStore::clone(&world.store), &world.clock, &world.people);
    world.acquire(&s1, WorkClass::Mutating).unwrap();
    assert_held(block_on(other.acquire(world.request(&s2, WorkClass::Mutating))), Kept::Unproved);
    assert!(world.is_held());
}

#[test]
fn times_to_live_out_of_bounds_are_refused() {
    let world = World::new();
    let second = Duration::from_secs(1);
    for (ttl, max_ttl, good) in [
        (MIN_TTL, None, true),
        (MIN_TTL - second, None, false),
        (MAX_TTL, None, true),
        (MAX_TTL + second, None, false),
        (MIN_TTL, Some(MIN_TTL), true),
        (MIN_TTL * 2, Some(MIN_TTL), false),
        (MIN_TTL, Some(MAX_TTL + second), false),
    ] {
        let mut request = world.request(&world.client("s1"), WorkClass::ReadOnly);
        (request.ttl, request.max_ttl) = (ttl, max_ttl);
        let result = block_on(world.leases.acquire(request));
        assert_eq!(result.is_ok(), good, "{ttl:?} {max_ttl:?}: {result:?}");
    }
}

#[test]
fn what_the_probe_says_of_one_process_is_never_applied_to_the_next_holder() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    world.acquire(&s1, WorkClass::Mutating).unwrap();
    let facts =
        tidegate_leases::Facts::none().with_process(s2.owner.process.as_ref().unwrap(), Liveness::Dead);
    assert!(!facts.proved_dead(&s1.owner));
    assert!(facts.proved_dead(&s2.owner));
}
