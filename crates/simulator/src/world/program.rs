//! What a fake server does with what it reads: works, commits to its ledger, answers; or stalls, dies, asks back, answers
//! late, as the seed has it for that very call.

use super::World;
use crate::chance::happens;
use crate::executor::Group;
use crate::observe::{CallId, Seen};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::{ComponentName, Generation, WorkClass};

/// Between two looks of a call that waits for something.
const GLANCE_MS: u64 = 100;
/// The longest that a call stalls while things go wrong.
const LONGEST_STALL_MS: u64 = 20_000;

/// A call that the server executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executing {
    pub(crate) call: CallId,
    pub(crate) class: WorkClass,
}

/// The state of one server's program.
#[derive(Default)]
pub(crate) struct Program {
    calls: BTreeMap<u64, Executing>,
    /// Questions to clients that wait for an answer, by id.
    asked: BTreeMap<String, bool>,
}

impl Program {
    pub(crate) fn executing(&self) -> Vec<Executing> {
        self.calls.values().cloned().collect()
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.calls.is_empty()
    }
}

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answers,
    DiesBefore,
    CommitsAndDies,
    Stalls,
    AnswersLate,
}

impl World {
    /// One line from its input. Which line it is, it finds out as a server would.
    pub(super) fn program_reads(
        self: &Arc<Self>,
        pid: u32,
        component: &ComponentName,
        generation: Generation,
        line: &[u8],
        decided: u64,
    ) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        let method = message["method"].as_str();
        match (method, message["id"].as_u64()) {
            (Some(method), Some(id)) => {
                let nonce = message["params"]["arguments"]["nonce"].as_str();
                let Some(nonce) = nonce else {
                    self.see(Seen::ReadOwn { component: component.clone(), decided });
                    return self.own_request(pid, method, id);
                };
                let call = CallId::from(nonce);
                let tool = message["params"]["name"].as_str().unwrap_or(method).to_owned();
                let class = Self::class_of(&tool);
                let executing = Executing { call: call.clone(), class };
                self.with_program(pid, |program| program.calls.insert(id, executing));
                self.see(Seen::Received { call: call.clone(), component: component.clone(), decided });
                self.say(component, format!("generation {generation} gets {tool} {call}"));
                let (world, component) = (self.clone(), component.clone());
                self.executor.spawn(Group::WORLD, async move {
                    world.execute(pid, &component, generation, id, &call, class).await;
                });
            }
            (Some("notifications/cancelled"), None) => {
                if let Some(id) = message["params"]["requestId"].as_u64() {
                    self.cancelled(pid, component, id);
                }
            }
            (None, _) => {
                let id = message["id"].as_str().unwrap_or_default().to_owned();
                self.with_program(pid, |program| {
                    program.asked.entry(id).and_modify(|answered| *answered = true);
                });
            }
            _ => {}
        }
    }

    /// A request without a nonce: one of the gateway's own, or one that has no effect.
    fn own_request(self: &Arc<Self>, pid: u32, method: &str, id: u64) {
        let result = match method {
            "tools/list" => json!({ "tools": [] }),
            _ => json!({}),
        };
        self.server_says(pid, json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
    }

    fn cancelled(&self, pid: u32, component: &ComponentName, id: u64) {
        let call =
            self.with_program(pid, |program| program.calls.get(&id).map(|it| it.call.clone())).flatten();
        let Some(call) = call else { return };
        // A server may stop what it does, and then it never answers; or go on.
        let heeds = happens(&mut self.generator(&format!("cancelled {call}")), 300);
        self.say(component, format!("{call} is cancelled{}", if heeds { ", and is given up" } else { "" }));
        if heeds {
            self.finishes(pid, id);
        }
        self.see(Seen::CancelReceived { call });
    }

    async fn execute(
        self: &Arc<Self>,
        pid: u32,
        component: &ComponentName,
        generation: Generation,
        id: u64,
        call: &CallId,
        class: WorkClass,
    ) {
        let mut rng = self.generator(&format!("call {call} {generation}"));
        let fate = match happens(&mut rng, self.story.faults.bad_calls) && self.is_chaos() {
            false => Fate::Answers,
            true => match rng.u32(..10) {
                0..2 => Fate::DiesBefore,
                2..4 => Fate::CommitsAndDies,
                4..6 => Fate::Stalls,
                _ => Fate::AnswersLate,
            },
        };
        let work_ms = if happens(&mut rng, 100) { rng.u64(800..3_000) } else { rng.u64(20..300) };
        self.executor.sleep(work_ms / 2).await;
        if !self.story.calm && happens(&mut rng, 60) {
            self.ask_back(pid, call).await;
        }
        if fate == Fate::Stalls {
            self.stall(pid, rng.u64(1_000..LONGEST_STALL_MS)).await;
        }
        if !self.executes(pid, id) {
            return;
        }
        if fate == Fate::DiesBefore {
            return self.server_exits(pid, &format!("it crashes in {call}, before its commit"));
        }
        if class != WorkClass::ReadOnly {
            self.see(Seen::Committed { call: call.clone() });
        }
        if fate == Fate::CommitsAndDies {
            return self.server_exits(pid, &format!("it crashes in {call}, after its commit"));
        }
        self.executor.sleep(work_ms / 2).await;
        if fate == Fate::AnswersLate {
            self.stall(pid, rng.u64(500..5_000)).await;
        }
        if !self.executes(pid, id) {
            return;
        }
        self.finishes(pid, id);
        self.say(component, format!("generation {generation} answers {call}"));
        let text = format!("{call} done by generation {generation}");
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        self.server_says(pid, json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
    }

    /// The server is done with a call.
    fn finishes(&self, pid: u32, id: u64) {
        if let Some(it) = self.with_program(pid, |program| program.calls.remove(&id)).flatten() {
            self.see(Seen::Finished { call: it.call });
        }
    }

    /// Whether the server is there and still at it.
    fn executes(&self, pid: u32, id: u64) -> bool {
        self.with_program(pid, |program| program.calls.contains_key(&id)) == Some(true)
    }

    /// Does nothing for a while, or until nothing goes wrong any more.
    async fn stall(&self, pid: u32, for_ms: u64) {
        let until_ms = self.executor.now_ms() + for_ms;
        while self.executor.now_ms() < until_ms && self.is_chaos() && self.is_alive(pid) {
            self.executor.sleep(GLANCE_MS).await;
        }
    }

    /// Puts a question to the client, and waits for the answer for a while.
    async fn ask_back(self: &Arc<Self>, pid: u32, call: &CallId) {
        let id = format!("ask-{call}");
        self.with_program(pid, |program| program.asked.insert(id.clone(), false));
        let params = json!({ "message": "sure?" });
        let question =
            json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params });
        self.server_says(pid, question.to_string());
        for _ in 0..20 {
            self.executor.sleep(GLANCE_MS).await;
            if self.with_program(pid, |program| program.asked.get(&id) == Some(&true)) != Some(false) {
                return;
            }
        }
    }
}
