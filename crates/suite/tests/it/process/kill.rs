//! `kill -9` of the daemon at ten random instants of a governed restart.

use serde_json::{Value, json};
use std::time::Duration;
use tidegate_suite::harness::{Call, Client, Plan, Rig, Stopwatch, eventually, refusal};

const KILLS: usize = 10;
/// Names the seed to run again with.
const SEED_VAR: &str = "TIDEGATE_SEED";
/// Instants are spread over this much of a restart: a drain that has to wait, a slow stop, a slow start, and a bit after.
const SPREAD: Duration = Duration::from_millis(900);

/// A session with its calls under way.
struct Session {
    name: &'static str,
    client: Client,
    calls: Vec<(String, Call)>,
}

impl Session {
    fn begin(&mut self, tool: &str, text: String, mut arguments: Value) {
        arguments["text"] = text.as_str().into();
        let call = self.client.call(tool, arguments);
        self.calls.push((text, call));
    }
}

fn seed() -> u64 {
    std::env::var(SEED_VAR).ok().map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap())
}

/// Waits for time to pass by looking at it: the kill is to come at any instant, not at a chosen one.
fn at(instant: Duration, watch: &Stopwatch) {
    eventually("the instant comes", || watch.elapsed() >= instant);
}

#[test]
fn a_daemon_killed_at_ten_random_instants_loses_and_doubles_nothing() {
    let seed = seed();
    println!("seed {seed}: run again with {SEED_VAR}={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut rig = Plan::new()
        .policy("drain_deadline = \"5s\"")
        .fault_with(
            "files",
            &["--slow-exit-ms", "200", "--start-delay-ms", "200"],
            "trust_annotations = true\nstate = \"external\"",
        )
        .start();
    let names = ["s1", "s2", "s3"];
    let mut sessions =
        names.map(|name| Session { name, client: rig.connect("files", name), calls: Vec::new() });
    rig.is_ready("files");
    let mut phases = Vec::new();

    for kill in 0..KILLS {
        // Something executes that ends within the drain, something is read, and more comes while the gate is closed.
        for session in &mut sessions {
            session.begin("append", format!("{kill}/{}/first", session.name), json!({ "delay_ms": 150 }));
            session.begin("read", format!("{kill}/{}/read", session.name), json!({ "key": "k" }));
        }
        let id = rig.request("ops", &["files"]);
        let watch = Stopwatch::start();
        let instant = SPREAD.mul_f64((kill as f64 + random.f64()) / KILLS as f64);
        for session in &mut sessions {
            session.begin("append", format!("{kill}/{}/held", session.name), json!({}));
        }
        at(instant, &watch);
        rig.kill();

        // From the disk alone each session has one next action.
        for session in &sessions {
            let action = rig.resume(session.name)["next_action"].clone();
            assert!(action["kind"].is_string() && action["prompt"].is_string(), "{action}");
        }
        rig.serve();
        let operation = rig.ended(&id);
        let phase = operation["phase"].as_str().unwrap().to_owned();
        assert!(["Completed", "Failed"].contains(&phase.as_str()), "at {instant:?}: {operation}");
        assert_eq!(operation["incident"].is_string(), phase == "Failed", "{operation}");
        phases.push(format!("{instant:?} {phase}"));
        settles(&rig, &mut sessions);
    }
    println!("{}", phases.join("\n"));

    for session in &mut sessions {
        assert_eq!(session.client.unanswered(), [], "{}", session.name);
        assert_eq!(session.client.tool("append", json!({ "text": "last" }))["isError"], false);
    }
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    drop(sessions);
    rig.leaves_nothing();
}

/// Every call has exactly one answer, and the ledger says the same as the answers do.
fn settles(rig: &Rig, sessions: &mut [Session]) {
    let server = rig.server("files");
    for session in sessions {
        for (text, call) in std::mem::take(&mut session.calls) {
            let answer = session.client.answer(&call);
            let is_read = text.ends_with("read");
            let times = server.times(&text);
            match refusal(&answer) {
                None => {
                    assert_eq!(answer["result"]["structuredContent"]["text"], text, "{answer}");
                    assert_eq!(times, usize::from(!is_read), "{text} was answered");
                }
                Some(refusal) => {
                    assert_eq!(refusal["kind"], "outcome_unknown", "{text}: {refusal}");
                    assert!(times <= 1, "{text} was executed {times} times");
                    let kind = if is_read { "RetryCall" } else { "VerifyThenRetry" };
                    assert_eq!(refusal["next_action"]["kind"], kind, "{text}: {refusal}");
                }
            }
        }
    }
}
