//! Three live sessions of the official SDK through ten restarts in a row: nobody notices anything.

use serde_json::json;
use tidegate_suite::harness::{Plan, Rig, SdkClient, descriptors, eventually, zombies_of};

const SESSIONS: usize = 3;
const RESTARTS: u64 = 10;
/// Calls that each session has under way while a server is restarted: one that takes a while, and quick ones.
const SLOW: &str = "trigger-long-running-operation";
const QUICK: usize = 4;

fn connect(rig: &Rig, session: usize) -> SdkClient {
    let mut client = SdkClient::start();
    let (program, args) = rig.connect_args("everything", &format!("sdk-{session}"));
    client.ask("connect", json!({ "command": program, "args": args, "name": format!("sdk-{session}") }));
    client
}

#[test]
fn three_sdk_sessions_live_through_ten_restarts() {
    let server = SdkClient::server_everything();
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let mut rig = Plan::new().component("everything", &server, "state = \"stateless\"").start();
    let mut sessions: Vec<SdkClient> = (0..SESSIONS).map(|session| connect(&rig, session)).collect();
    let first = rig.is_ready("everything")["generation"].as_u64().unwrap();
    let daemon = rig.daemon().pid();
    rig.restarts(&["everything"]);
    let before = descriptors(daemon);

    for restart in 1..=RESTARTS {
        // Each of them has a call that is executing when the drain begins, and calls that meet a closed gate.
        let slow: Vec<u64> =
            sessions.iter_mut().map(|it| it.call(SLOW, json!({ "duration": 0.3, "steps": 1 }))).collect();
        eventually("the slow calls are executing", || rig.component("everything")["in_flight"] == SESSIONS);
        let id = rig.request("ops", &["everything"]);
        let mut quick = Vec::new();
        for number in 0..QUICK {
            for (session, client) in sessions.iter_mut().enumerate() {
                let message = format!("{restart}/{session}/{number}");
                quick.push((session, client.call("echo", json!({ "message": message })), message));
            }
        }
        assert_eq!(rig.ended(&id)["phase"], "Completed");
        for (client, call) in sessions.iter_mut().zip(slow) {
            let text = client.result(call)["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains("completed"), "{text}");
        }
        for (session, call, message) in quick {
            assert_eq!(sessions[session].result(call)["content"][0]["text"], format!("Echo: {message}"));
        }
        let now = rig.is_ready("everything");
        assert_eq!(now["generation"], first + 1 + restart);
    }

    // Nothing is left behind: no descriptor, no zombie, and one server.
    eventually("no descriptor more than at the start", || descriptors(daemon) <= before);
    assert!(zombies_of(daemon).is_empty());
    let servers = rig.running().into_iter().filter(|it| it.command.contains("server-everything")).count();
    assert_eq!(servers, 1);
    for client in &mut sessions {
        client.ask("close", json!({}));
        let complaints: Vec<_> =
            client.complaints().into_iter().filter(|it| it["event"] == "error").collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
    for client in sessions {
        assert_eq!(client.end().code, Some(0));
    }
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    rig.leaves_nothing();
}
