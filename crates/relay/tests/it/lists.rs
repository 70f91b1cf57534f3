//! What a server offers: pages, the cache, and tools that come and go.

use crate::world::{TOOLS, World, request, show};
use tidegate_relay::{List, ListCache, Pages};

#[test]
fn pages_become_one_list_byte_for_byte() {
    let mut pages = Pages::new(List::Resources);
    let first = r#"{"nextCursor":"c\u0031","resources":[{"uri":"a","x":1.0},{"uri" : "b"}]}"#;
    assert_eq!(pages.add(first).unwrap().as_deref(), Some(r#""c\u0031""#));
    assert_eq!(pages.add(r#"{"resources":[]}"#).unwrap(), None);
    assert_eq!(pages.add(r#"{"resources":[{"uri":"c"}],"nextCursor":null}"#).unwrap(), None);
    assert_eq!(pages.finish(), r#"{"resources":[{"uri":"a","x":1.0},{"uri" : "b"},{"uri":"c"}]}"#);
}

#[test]
fn what_is_no_list_is_an_error_that_names_the_question() {
    for result in ["{}", "7", r#"{"tools":{}}"#, r#"{"prompts":[]}"#] {
        let error = Pages::new(List::Tools).add(result).unwrap_err();
        assert_eq!(error.to_string(), "the server's answer to tools/list has no list of tools", "{result}");
    }
}

#[test]
fn an_empty_list_never_replaces_one_that_is_not() {
    let mut cache = ListCache::default();
    let empty = r#"{"tools":[]}"#;
    assert!(cache.set(List::Tools, empty.to_owned()));
    assert!(cache.set(List::Tools, TOOLS.to_owned()));
    assert!(!cache.set(List::Tools, empty.to_owned()));
    assert_eq!(cache.get(List::Tools), Some(TOOLS));
    assert_eq!(cache.tools().into_keys().collect::<Vec<_>>(), ["read", "touch", "write"]);
}

#[test]
fn a_call_to_a_tool_that_vanished_is_told_and_never_written() {
    let mut world = World::ready();
    let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}"#;
    world.client(1, &request("0", "initialize", params));
    world.close();
    world.call(1, "1", "write");
    world.die();
    let told = world.generation(2, r#"{"tools":[{"name":"read"},{"name":"new"}]}"#);
    assert_eq!(
        told,
        [
            r#"1< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"tools +["new"] -["touch", "write"]"#,
        ]
    );
    assert_eq!(world.reopen(), ["1< #1 tool_changed → RefreshTools"]);
    assert_eq!(world.call(2, "1", "touch"), ["2< #1 tool_changed → RefreshTools"]);
    assert_eq!(
        world.call(2, "2", "never-offered").len(),
        3,
        "what was never offered is the server's to refuse"
    );
    world.die();
    world.generation(3, TOOLS);
    assert_eq!(world.call(2, "3", "write").len(), 3, "it is back");
}

#[test]
fn a_list_that_changes_while_the_gate_is_closed_counts_for_what_is_held() {
    let mut world = World::ready();
    world.close();
    world.call(1, "1", "write");
    world.call(1, "2", "read");
    assert_eq!(world.server(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).len(), 1);
    assert_eq!(show(&world.relay.own_request("tools", "tools/list", "{}")), [""; 0], "not now");
    let set = |world: &mut World, tools: &str| {
        show(&world.relay.set_list(List::Tools, format!(r#"{{"tools":[{tools}]}}"#)))
    };
    assert_eq!(set(&mut world, r#"{"name":"read"}"#), [""; 0], "the server has said so itself");
    world.die();
    world.generation(2, r#"{"tools":[{"name":"read"}]}"#);
    let written = world.reopen();
    assert_eq!(written[..2], ["1< #1 tool_changed → RefreshTools", "mark 1#2 read-only read"]);
    set(&mut world, r#"{"name":"read"},{"name":"write"}"#);
    assert_eq!(world.call(1, "3", "write").len(), 3, "it is back");
}

#[test]
fn a_list_that_is_not_offered_is_not_waited_for() {
    let mut world = World::ready();
    world.close();
    for (method, params) in [
        ("prompts/list", "{}"),
        ("resources/list", "{}"),
        ("resources/templates/list", "{}"),
        ("prompts/list", r#"{"cursor":"2"}"#),
    ] {
        let answer = format!("1< #1 error -32601: the server does not offer {method}");
        assert_eq!(world.client(1, &request("1", method, params)), [answer]);
    }
    assert_eq!(world.client(1, &request("2", "tools/list", r#"{"cursor":"2"}"#)), [""; 0], "the rest waits");
    world.reopen();
    let passed = world.client(1, &request("3", "prompts/list", "{}"));
    assert!(
        passed.iter().any(|said| said.contains("prompts/list")),
        "an open server answers itself: {passed:?}"
    );
}

#[test]
fn the_same_tools_again_are_no_news() {
    let mut world = World::ready();
    world.die();
    assert_eq!(world.generation(2, TOOLS), [""; 0]);
}

#[test]
fn the_gateway_asks_again_through_the_relay_and_gets_the_answer_back() {
    let mut world = World::ready();
    let asked = show(&world.relay.own_request("tools", "tools/list", "{}"));
    let id = world.relay.calls().len();
    assert_eq!((asked.len(), id), (1, 0), "an own request is nobody's call");
    let line = asked[0].trim_start_matches("> ");
    let id = serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].clone();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{TOOLS}}}"#);
    assert_eq!(world.server(&answer), [format!("own tools: {answer}")]);
    assert_eq!(world.server(&answer), [""; 0]);
    world.close();
    assert_eq!(
        show(&world.relay.own_request("tools", "tools/list", "{}")),
        [""; 0],
        "nothing reaches a closed server"
    );
}
