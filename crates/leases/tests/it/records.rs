//! What is stored, and what may be asked of it.

use crate::world::{World, key};
use pollster::block_on;
use serde_json::{Value, json};
use tidegate_core::WorkClass;
use tidegate_leases::{LeaseError, MAX_HISTORY, MAX_LEASES, MAX_NOTE_BYTES};
use tidegate_store::{Store, Txn};

fn stored(world: &World) -> Value {
    let record = block_on(world.store.get(key("repo/main").record())).unwrap().unwrap();
    serde_json::from_slice(&record.value).unwrap()
}

#[test]
fn the_json_of_a_lease_is_that_of_the_contract() {
    let world = World::new();
    let fence = world.acquire(&world.client("s1"), WorkClass::Mutating).unwrap().fence;
    world.wait(10);
    let mut shown = block_on(world.leases.get(&key("repo/main"))).unwrap().unwrap().to_json(&world.now());
    assert_eq!(shown.as_object_mut().unwrap().remove("history").unwrap()[0]["event"], "granted");
    let expected = json!({
        "key": "repo/main", "session": "local/s1", "fence": fence.to_string(), "class": "mutating",
        "expires_in_ms": 20_000, "state": "held",
    });
    assert_eq!(shown, expected);
}

#[test]
fn fields_of_a_newer_version_are_kept_when_the_record_is_rewritten() {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    let mut value = stored(&world);
    value["of_tomorrow"] = json!({ "a": [1, 2] });
    value["fence"] = json!(first.fence.to_string());
    let bytes = serde_json::to_vec(&value).unwrap();
    block_on(world.store.commit(Txn::new().put_bytes(key("repo/main").record(), &bytes))).unwrap();
    world.renew(&s1, first.fence).unwrap();
    assert_eq!(stored(&world)["of_tomorrow"], json!({ "a": [1, 2] }));
}

#[test]
fn a_renewal_keeps_the_fence_of_the_grant() {
    let world = World::new();
    let s1 = world.client("s1");
    let first = world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    for _ in 0..3 {
        world.renew(&s1, first.fence).unwrap();
    }
    assert_eq!(world.shows(), format!("s1 held {}", first.fence));
}

#[test]
fn a_record_that_is_no_lease_is_an_error_that_names_it() {
    let world = World::new();
    block_on(world.store.commit(Txn::new().put_bytes(key("repo/main").record(), b"{}"))).unwrap();
    let error = world.acquire(&world.client("s1"), WorkClass::ReadOnly).unwrap_err().to_string();
    assert!(error.contains("lease/repo/main"), "{error}");
}

#[test]
fn the_history_is_bounded_and_keeps_the_newest() {
    let world = World::new();
    for _ in 0..MAX_HISTORY {
        let s1 = world.client("s1");
        let got = world.acquire(&s1, WorkClass::ReadOnly).unwrap();
        world.release(&s1, got.fence).unwrap();
    }
    let last = world.acquire(&world.client("s2"), WorkClass::ReadOnly).unwrap();
    assert_eq!(world.history().len(), MAX_HISTORY);
    assert_eq!(world.history().last().unwrap(), "s2 granted");
    assert_eq!(world.shows(), format!("s2 held {}", last.fence));
}

#[test]
fn a_long_reason_is_cut_at_a_character() {
    let world = World::new();
    let s1 = world.client("s1");
    let got = world.acquire(&s1, WorkClass::Mutating).unwrap();
    let adopt = tidegate_leases::Adopt {
        key: key("repo/main"),
        fence: got.fence,
        by: "ops".parse().unwrap(),
        why: "ы".repeat(1_000),
        to: world.client("s2").owner,
        max_ttl: None,
        nonce: "a-1".to_owned(),
    };
    block_on(world.leases.adopt(&adopt)).unwrap();
    let lease = block_on(world.leases.get(&key("repo/main"))).unwrap().unwrap();
    let bytes = lease.history[1].note.len();
    assert!((MAX_NOTE_BYTES - 1..=MAX_NOTE_BYTES).contains(&bytes), "{bytes}");
}

#[test]
fn one_lease_more_than_a_restart_could_settle_is_refused() {
    let world = World::new();
    let s1 = world.client("s1");
    let acquire = |n: usize| {
        let request = tidegate_leases::Acquire {
            key: key(&format!("r/{n}")),
            ..world.request(&s1, WorkClass::ReadOnly)
        };
        block_on(world.leases.acquire(request))
    };
    let mut all: Vec<_> = (0..MAX_LEASES).map(|n| acquire(n).unwrap()).collect();
    let last = all.pop().unwrap();
    assert_eq!(acquire(MAX_LEASES).unwrap_err(), LeaseError::TooMany);
    let by = tidegate_leases::By::Holder(s1.owner.session.clone());
    let release = tidegate_leases::Release { key: last.key, by, fence: last.fence };
    block_on(world.leases.release(&release)).unwrap();
    acquire(MAX_LEASES).unwrap();
}
