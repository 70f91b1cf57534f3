//! A session's own server: what it is told of its client, and what it asks.

use crate::world::{TOOLS, World, notification, request};
use tidegate_relay::{Introduction, Message, RawId, RelayConfig, Sharing};

fn own() -> World {
    let mut world = World::with(RelayConfig { sharing: Sharing::PerSession, ..RelayConfig::default() });
    world.gone(2);
    world
}

fn initialize(params: &str) -> String {
    request("\"init\"", "initialize", params)
}

const CLIENT: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1.0"},"_meta":{"x":1e400}}"#;

#[test]
fn a_client_is_introduced_as_it_says_itself_but_for_what_can_not_be_kept() {
    let check = |said: &str, told: &str| {
        let message = Message::parse(initialize(said).into()).unwrap();
        let passed_on = Introduction::of(&message).request(&RawId::number(1));
        assert_eq!(String::from_utf8(passed_on).unwrap(), request("1", "initialize", told), "{said}");
    };
    check(CLIENT, CLIENT);
    let with = |capabilities: &str, version: &str| {
        format!(r#"{{"clientInfo":{{}}, "capabilities": {capabilities},"protocolVersion":"{version}"}}"#)
    };
    check(
        &with(r#"{"tasks":{"list":{}},"sampling":{}}"#, "2025-11-25"),
        &with(r#"{"sampling":{}}"#, "2025-11-25"),
    );
    check(&with("{}", "1999-01-01"), &with("{}", "2025-11-25"));
    let nobody =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"unknown","version":"0"}}"#;
    for lacking in [r#"{"capabilities":{}}"#, r#"{"protocolVersion":"2025-11-25"}"#, "[]"] {
        check(lacking, nobody);
    }
}

#[test]
fn only_a_session_s_own_server_is_told_of_a_client_and_of_the_first_one() {
    let mut shared = World::ready();
    shared.client(1, &initialize(CLIENT));
    assert_eq!(shared.relay.introduction(), None);
    let mut world = own();
    world.client(1, &initialize(CLIENT));
    let first = world.relay.introduction().cloned();
    assert!(first.is_some());
    world.client(1, &initialize(&CLIENT.replace("\"c\"", "\"d\"")));
    assert_eq!(world.relay.introduction().cloned(), first);
    world.gone(1);
    world.relay.rests();
    assert_eq!(world.relay.introduction(), None);
}

#[test]
fn what_is_asked_before_the_client_is_past_its_handshake_waits_for_that() {
    let mut world = own();
    world.client(1, &initialize(CLIENT));
    world.generation(1, TOOLS);
    assert_eq!(world.server(&request("\"q\"", "roots/list", "{}")), [""; 0]);
    let asked = world.client(1, &notification("notifications/initialized", "{}"));
    assert_eq!(asked, [format!("1< {}", request("1", "roots/list", "{}"))]);
    assert_eq!(world.server(&request("\"r\"", "roots/list", "{}")).len(), 1, "from then on at once");
    // And never longer than the server lives.
    let mut world = own();
    world.generation(1, TOOLS);
    world.server(&request("\"q\"", "roots/list", "{}"));
    world.die();
    assert_eq!(world.client(1, &notification("notifications/initialized", "{}")), [""; 0]);
}

#[test]
fn a_change_of_the_roots_goes_to_a_session_s_own_server_and_to_no_shared_one() {
    let changed = notification("notifications/roots/list_changed", "{}");
    let mut world = own();
    world.generation(1, TOOLS);
    assert_eq!(world.client(1, &changed), [format!("> {changed}")]);
    assert_eq!(World::ready().client(1, &changed), [""; 0]);
}

#[test]
fn a_server_whose_client_is_gone_is_told_that_nobody_can_be_asked() {
    let mut world = own();
    world.generation(1, TOOLS);
    world.gone(1);
    let told = world.server(&request("\"q\"", "roots/list", "{}"));
    assert!(told.len() == 1 && told[0].contains("nobody is connected"), "{told:?}");
}
