//! Calls that need a lease: checked when they come and again when they are released.

use crate::world::{World, session};
use std::collections::BTreeMap;
use tidegate_core::{DrainId, Fence, HeldLease};
use tidegate_relay::{LeaseRules, RelayConfig};

fn world() -> World {
    let leases = LeaseRules::new([("write".to_owned(), "files/{/path}".to_owned())]).unwrap();
    let mut world = World::with(RelayConfig { leases, ..RelayConfig::default() });
    world.generation(1, crate::world::TOOLS);
    world
}

fn holds(world: &mut World, held: &[(&str, &str, Option<u64>)]) {
    let held: BTreeMap<String, HeldLease> = held
        .iter()
        .map(|(key, holder, until_ms)| {
            let fence: Fence = "1.5".parse().unwrap();
            ((*key).to_owned(), HeldLease { session: session(holder), fence, until_ms: *until_ms })
        })
        .collect();
    world.relay.leases_are(held);
}

fn write(world: &mut World, id: u64, path: &str) -> String {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"write","arguments":{{"path":"{path}"}}}}}}"#
    );
    world.client(1, &line).join(" | ")
}

#[test]
fn a_lease_counts_for_its_holder_and_for_as_long_as_it_lasts() {
    let mut world = world();
    let mut check = |held: &[(&str, &str, Option<u64>)], id: u64, path: &str, goes_on: bool| {
        holds(&mut world, held);
        let effects = write(&mut world, id, path);
        assert_eq!(effects.contains("lease_required"), !goes_on, "{held:?} {path}: {effects}");
    };
    check(&[], 1, "a", false);
    check(&[("files/a", "s1", None)], 2, "a", true);
    check(&[("files/a", "s1", None)], 3, "b", false);
    check(&[("files/a", "s2", None)], 4, "a", false);
    check(&[("files/a", "s1", Some(1))], 5, "a", true);
    check(&[("files/a", "s1", Some(0))], 6, "a", false);
}

#[test]
fn what_the_arguments_do_not_name_is_held_by_nobody_whatever_leases_are_called() {
    let mut world = world();
    holds(&mut world, &[("files/a", "s1", None), ("files/{/path}", "s1", None)]);
    let mut check = |id: u64, arguments: &str, goes_on: bool| {
        let params = format!(r#"{{"name":"write","arguments":{arguments}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        let effects = world.client(1, &line).join(" | ");
        assert_eq!(effects.contains("lease_required"), !goes_on, "{arguments}: {effects}");
    };
    check(1, r#"{"path":"a"}"#, true);
    check(2, r#"{"path":"{/path}"}"#, true);
    check(3, "{}", false);
    check(4, r#"{"path":"a","path":"b"}"#, false);
    check(5, r#"{"path":["a"]}"#, false);
}

#[test]
fn a_fence_that_is_named_is_that_of_a_lease_in_force_or_the_call_is_refused() {
    let mut world = world();
    assert!(world.relay.asks_for_leases());
    assert!(!World::ready().relay.asks_for_leases());
    holds(&mut world, &[("files/a", "s1", None)]);
    let mut check = |id: u64, meta: &str, goes_on: bool| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"write","arguments":{{"path":"a"}}{meta}}}}}"#
        );
        let effects = world.client(1, &line).join(" | ");
        assert_eq!(effects.contains("lease_required"), !goes_on, "{meta}: {effects}");
    };
    check(1, "", true);
    check(2, r#","_meta":{}"#, true);
    check(9, r#","_meta":null"#, true);
    check(10, r#","_meta":{"tidegate/fence":null}"#, true);
    check(3, r#","_meta":{"tidegate/fence":"1.5"}"#, true);
    check(4, r#","_meta":{"tidegate/fence":"1.4"}"#, false);
    check(5, r#","_meta":{"tidegate/fence":"18446744073709551615.18446744073709551615"}"#, false);
    check(6, r#","_meta":{"tidegate/fence":""}"#, false);
    // What can't be read is not what is in force.
    check(7, r#","_meta":{"tidegate/fence":["1.5"]}"#, false);
    check(8, r#","_meta":{"tidegate/fence":"1.5","tidegate/fence":"1.4"}"#, false);
    check(11, r#","_meta":{"tidegate/fence":null,"tidegate/fence":"1.4"}"#, false);
}

#[test]
fn a_held_call_is_refused_when_its_lease_is_gone_at_the_release() {
    let mut world = world();
    let drain: DrainId = "d1".parse().unwrap();
    world.relay.gate().close(drain.clone()).unwrap();
    holds(&mut world, &[("files/a", "s1", None), ("files/b", "s1", None)]);
    assert_eq!(write(&mut world, 1, "a") + &write(&mut world, 2, "b"), "");
    assert_eq!(world.relay.held(), 2);
    holds(&mut world, &[("files/b", "s1", None)]);
    world.relay.gate().reopen(&drain).unwrap();
    let now = world.now;
    let effects = crate::world::show(&world.relay.gate_reopened(&now));
    assert!(effects[0].contains("lease_required"), "{effects:?}");
    assert_eq!(effects.iter().filter(|it| it.contains("write")).count(), 2, "{effects:?}");
    assert_eq!(world.relay.held(), 0);
}
