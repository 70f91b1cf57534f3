//! A soak: many sessions at work for as long as one likes, while servers and the daemon are killed at instants drawn from
//! a seed and components are restarted by the rules. What was executed is compared with what was answered at the end.
//!
//! The same code runs for half a minute among the tests and for half an hour by `cargo xtask soak`. Calm and stormy
//! quarters take turns, so that what a storm costs a component that nobody restarts is measured within one run.
#![allow(clippy::unwrap_used, reason = "a soak fails by panicking, as its harness does")]

mod load;
mod memory;
mod verdict;
mod weather;

pub use verdict::{Goals, Outcome};

use crate::harness::{Call, Client, Plan, Stopwatch};
use load::{Load, Told};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weather::Weather;

/// The components that are restarted and killed.
const STORMY: [&str; 3] = ["c0", "c1", "c2"];
/// The one that nobody restarts.
const STILL: &str = "still";
/// Threads that drive the sessions: a test machine has two processors.
const DRIVERS: usize = 4;
/// The pause between two calls of the session at the untouched component, and of the one that measures gaps.
const PROBE_PAUSE: Duration = Duration::from_millis(5);

/// How long, how many, and how rough.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// The whole run, without its beginning and end.
    pub length: Duration,
    /// Sessions at work.
    pub sessions: usize,
    /// Between two calls of a session, on average.
    pub pace: Duration,
    /// Between two governed restarts.
    pub restart_every: Duration,
    /// Between two kills, on average.
    pub kill_every: Duration,
    /// Where the instants and victims come from.
    pub seed: u64,
}

impl Course {
    /// Half an hour, a restart every twenty seconds.
    #[must_use]
    pub fn whole(length: Duration, seed: u64) -> Self {
        let (pace, restart_every, kill_every) =
            (Duration::from_millis(400), Duration::from_secs(20), Duration::from_secs(15));
        Self { length, sessions: 64, pace, restart_every, kill_every, seed }
    }

    /// The same within half a minute: everything happens more often.
    #[must_use]
    pub fn small(seed: u64) -> Self {
        Self {
            length: Duration::from_secs(20),
            sessions: 64,
            pace: Duration::from_millis(800),
            restart_every: Duration::from_secs(3),
            kill_every: Duration::from_secs(2),
            seed,
        }
    }
}

/// One probing session: calls one after the other, each with when it began, how long it took and which start answered.
#[derive(Debug, Clone, Copy)]
struct Probe {
    began: Duration,
    took: Duration,
    start: u64,
}

/// Runs a course to its end.
///
/// # Panics
/// When the daemon or a client can't be started, or a session is left without an answer.
#[must_use]
pub fn run(course: &Course) -> Outcome {
    let mut plan = Plan::new().policy("drain_deadline = \"5s\"").policy("hold = \"30s\"");
    for name in STORMY.into_iter().chain([STILL]) {
        plan = plan.fault_with(name, &[], "trust_annotations = true\nstate = \"external\"");
    }
    let mut rig = plan.start();
    let clients: Vec<Client> =
        (0..course.sessions).map(|n| rig.connect(STORMY[n % STORMY.len()], &format!("s{n}"))).collect();
    let shims: Vec<u32> = clients.iter().map(Client::pid).collect();
    let (still, gaps) = (rig.connect(STILL, "still"), rig.connect(STORMY[0], "gaps"));

    let (clock, over) = (Stopwatch::start(), Arc::new(AtomicBool::new(false)));
    let probing = [still, gaps].map(|client| {
        let over = over.clone();
        std::thread::spawn(move || probe(client, &clock, &over))
    });
    let mut drivers: Vec<Vec<Client>> = (0..DRIVERS).map(|_| Vec::new()).collect();
    for (n, client) in clients.into_iter().enumerate() {
        drivers[n % DRIVERS].push(client);
    }
    let driving: Vec<_> = drivers
        .into_iter()
        .enumerate()
        .map(|(n, clients)| {
            let (over, load) = (over.clone(), Load::new(clients, course.pace, course.seed ^ n as u64));
            std::thread::spawn(move || load.drive(&clock, &over))
        })
        .collect();

    let weather = Weather::new(course, &shims).pass(&mut rig, &clock);
    over.store(true, Ordering::Release);
    let mut told: Vec<Told> = Vec::new();
    let mut hung = 0;
    for driver in driving {
        let (answers, without) = driver.join().unwrap();
        told.extend(answers);
        hung += without;
    }
    let [still, gaps] = probing.map(|probe| probe.join().unwrap());
    let servers: Vec<_> = STORMY.iter().map(|name| rig.server(name).clone()).collect();
    let ended = rig.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    rig.leaves_no_server();
    Outcome::of(&told, hung, &servers, &weather, &still, &gaps)
}

/// Calls, one after the other, until it is over.
fn probe(mut client: Client, clock: &Stopwatch, over: &AtomicBool) -> Vec<Probe> {
    let mut probes = Vec::new();
    while !over.load(Ordering::Acquire) {
        let began = clock.elapsed();
        let call: Call = client.call("read", json!({ "key": "k" }));
        let answer = client.answer(&call);
        let took = clock.elapsed().saturating_sub(began);
        // A refusal is an answer as well; it comes from no start.
        let start = answer["result"]["structuredContent"]["start"].as_u64().unwrap_or(0);
        probes.push(Probe { began, took, start });
        std::thread::park_timeout(PROBE_PAUSE);
    }
    probes
}
