//! Every byte that isn't an id, a token or a handshake passes as it came.

use crate::json::{json, space};
use crate::world::{World, notification, request};
use proptest::prelude::*;
use tidegate_core::{BootId, Now, WallTime};
use tidegate_relay::{Effect, Kind, Message, RawId, StreamId};

const NOW: Now = Now { boot: BootId(1), boot_ms: 0, wall: WallTime(0) };

proptest! {
    #[test]
    fn a_call_and_its_answer_pass_byte_for_byte(
        arguments in json(), unknown in json(), meta in json(), result in json(), (a, b) in (space(), space())
    ) {
        let line = |id: &str, token: &str| format!(
            r#"{{{a}"extra":{unknown},"jsonrpc":"2.0",{b}"id":{a}{id}{b},"method":"tools/call","params":{a}{{"arguments":{arguments},"_meta":{{"x":{meta},"progressToken":{token}{a}}},"name":"read","other":{unknown}}}{b}}}{a}"#
        );
        let mut world = World::ready();
        let effects = world.relay.client_message(StreamId(1), line("\"c-1\"", "\"tok\"").into(), &NOW);
        let upstream = world.upstream(1, "\"c-1\"").to_string();
        let written = Effect::WriteServer { line: line(&upstream, &upstream).into() };
        prop_assert_eq!(effects.last(), Some(&written));

        let answer = |id: &str| format!(r#"{{"result":{result},{b}"jsonrpc":"2.0","id":{id}{a},"extra":{meta}}}"#);
        let effects = world.relay.server_line(answer(&upstream).into(), &NOW);
        let told = Effect::ToClient { stream: StreamId(1), line: answer("\"c-1\"").into() };
        prop_assert_eq!(effects, vec![told]);
    }

    #[test]
    fn whatever_comes_is_a_message_or_an_error_and_never_a_panic(text in prop_oneof![json(), ".{0,60}"], bytes: Vec<u8>) {
        for line in [text.into_bytes(), bytes] {
            let mut world = World::ready();
            let _ = Message::parse(line.clone());
            let _ = world.relay.client_message(StreamId(1), line.clone(), &NOW);
            let _ = world.relay.server_line(line, &NOW);
        }
    }

    #[test]
    fn an_id_is_rewritten_where_it_stands_and_nowhere_else(params in json(), id in "[1-9][0-9]{0,20}") {
        let line = |id: &str| format!(r#"{{"method":"x","params":[{params},{{"id":1}}],"id":{id},"jsonrpc":"2.0"}}"#);
        let message = Message::parse(line(&id).into()).unwrap();
        prop_assert_eq!(message.kind(), &Kind::Request { id: RawId::new(&id).unwrap(), method: "x".to_owned() });
        prop_assert_eq!(message.with_id("42"), line("42").into_bytes());
    }
}

#[test]
fn a_progress_token_is_rewritten_there_and_back() {
    let mut world = World::ready();
    let line = |id: &str, token: &str| {
        request(id, "tools/call", &format!(r#"{{"name":"read","_meta":{{"progressToken":{token}}}}}"#))
    };
    world.client(1, &line("5", r#""p""#));
    world.client(2, &line("5", r#""p""#));
    for stream in [1, 2] {
        let token = world.upstream(stream, "5");
        let progress = |token: &str| {
            notification("notifications/progress", &format!(r#"{{"progressToken":{token},"progress":0.50}}"#))
        };
        assert_eq!(
            world.server(&progress(&token.to_string())),
            [format!("{stream}< {}", progress(r#""p""#))]
        );
    }
}

#[test]
fn progress_goes_only_to_whoever_waits_and_gave_a_token() {
    let mut world = World::ready();
    let with_token = r#"{"name":"write","_meta":{"progressToken":1}}"#;
    world.client(1, &request("1", "tools/call", with_token));
    world.client(1, &request("2", "tools/call", with_token));
    world.call(1, "3", "read");
    let tokens = ["1", "2", "3"].map(|id| world.upstream(1, id));
    world.answer(1, "1");
    world.client(1, &notification("notifications/cancelled", r#"{"requestId":2}"#));
    for token in tokens.map(|t| t.to_string()).iter().map(String::as_str).chain(["99", "\"x\"", "{}"]) {
        let progress = format!(r#"{{"progressToken":{token},"progress":1}}"#);
        assert_eq!(world.server(&notification("notifications/progress", &progress)), [""; 0], "{token}");
    }
    assert_eq!(world.relay.counters().dropped_progress, 6);
}
