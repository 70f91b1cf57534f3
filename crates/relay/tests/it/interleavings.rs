//! Whatever happens in whatever order: every request gets exactly one answer or was cancelled, and nothing that must
//! not be repeated is written twice.

use crate::world::{TOOLS, World, facts, notification, request, session};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::WorkClass;
use tidegate_relay::{Effect, RawId, StreamId, Unavailable};

#[derive(Debug, Clone)]
enum Step {
    Call { stream: u64, tool: &'static str },
    Cancel { which: prop::sample::Index },
    Answer { which: prop::sample::Index },
    LateAnswer { which: prop::sample::Index },
    Die,
    ProvedDead,
    Ready,
    Unavailable,
    Close,
    Reopen,
    Gone { stream: u64 },
    Ask,
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 1..4_u64;
    prop_oneof![
        8 => (stream.clone(), prop::sample::select(&["read", "touch", "mark", "write"][..]))
            .prop_map(|(stream, tool)| Step::Call { stream, tool }),
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Cancel { which }),
        5 => any::<prop::sample::Index>().prop_map(|which| Step::Answer { which }),
        2 => any::<prop::sample::Index>().prop_map(|which| Step::LateAnswer { which }),
        2 => Just(Step::Die),
        1 => Just(Step::ProvedDead),
        3 => Just(Step::Ready),
        1 => Just(Step::Unavailable),
        1 => Just(Step::Close),
        2 => Just(Step::Reopen),
        1 => stream.prop_map(|stream| Step::Gone { stream }),
        1 => Just(Step::Ask),
        2 => (0..40_000_u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// What a request may still expect, and how often it was written.
#[derive(Default)]
struct Call {
    class: Option<WorkClass>,
    tool: &'static str,
    answers: u32,
    written: u32,
    /// Cancelled, or its stream is gone: no answer is due any more.
    released: bool,
    /// The server has answered it, whoever heard of that.
    ended: bool,
}

/// A play of steps, with a ledger of what was promised.
struct Play {
    world: World,
    calls: BTreeMap<(u64, u64), Call>,
    /// How often the outcome of a call of this tool was said to be unknown.
    unknown: BTreeMap<String, usize>,
    /// Upstream ids the server could still answer, in this generation.
    open: Vec<u64>,
    /// Whose they are.
    of: BTreeMap<u64, (u64, u64)>,
    /// Upstream ids of generations that are dead.
    stale: Vec<u64>,
    /// The request whose write follows its mark.
    marked: Option<(u64, u64)>,
    unsafe_said: bool,
    next_id: u64,
    generation: u64,
    gone: BTreeSet<u64>,
}

impl Play {
    fn new() -> Self {
        let mut world = World::ready();
        world.relay.stream_opened(StreamId(3), session("s3"));
        Self {
            world,
            calls: BTreeMap::new(),
            unknown: BTreeMap::new(),
            open: Vec::new(),
            of: BTreeMap::new(),
            stale: Vec::new(),
            marked: None,
            unsafe_said: false,
            next_id: 0,
            generation: 1,
            gone: BTreeSet::new(),
        }
    }

    fn act(&mut self, step: &Step) {
        let now = self.world.now;
        let closed_and_quiet = !self.world.relay.gate().is_open();
        let reopening = matches!(step, Step::Reopen);
        let effects = match step {
            Step::Call { stream, .. } if self.gone.contains(stream) => vec![],
            Step::Call { stream, tool } => {
                self.next_id += 1;
                let call = Call { tool, ..Call::default() };
                self.calls.insert((*stream, self.next_id), call);
                let line =
                    request(&self.next_id.to_string(), "tools/call", &format!(r#"{{"name":"{tool}"}}"#));
                self.world.relay.client_message(StreamId(*stream), line.into(), &now)
            }
            Step::Cancel { which } if !self.calls.is_empty() => {
                let key = *which.get(&self.calls.keys().copied().collect::<Vec<_>>());
                let call = self.calls.get_mut(&key).unwrap();
                call.released = true;
                let line = notification("notifications/cancelled", &format!(r#"{{"requestId":{}}}"#, key.1));
                self.world.relay.client_message(StreamId(key.0), line.into(), &now)
            }
            Step::Answer { which } if !self.open.is_empty() => {
                let at = which.index(self.open.len());
                let upstream = self.open.remove(at);
                self.answer(upstream)
            }
            Step::LateAnswer { which } if !self.stale.is_empty() => {
                let line = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, which.get(&self.stale));
                let effects = self.world.relay.server_line(line.into(), &now);
                assert!(effects.is_empty(), "an answer of a dead server was believed");
                effects
            }
            Step::Die => {
                self.stale.append(&mut self.open);
                self.world.relay.server_died(&now)
            }
            Step::ProvedDead if !self.world.relay.is_ready() => {
                self.world.relay.server_proved_dead();
                vec![]
            }
            Step::Ready if !self.world.relay.is_ready() => {
                self.generation += 1;
                self.unsafe_said = false;
                let facts = facts(self.generation, TOOLS);
                self.world.relay.server_ready(facts, &now)
            }
            Step::Unavailable => {
                self.stale.append(&mut self.open);
                self.world
                    .relay
                    .server_unavailable(Unavailable { incident: None, message: String::new() }, &now)
            }
            Step::Close if self.world.relay.gate().is_open() => {
                self.world.relay.gate().close("d1".parse().unwrap()).unwrap();
                self.world.relay.gate_closed(None)
            }
            Step::Reopen if !self.world.relay.gate().is_open() => {
                self.world.relay.gate().reopen(&"d1".parse().unwrap()).unwrap();
                self.world.relay.gate_reopened(&now)
            }
            Step::Gone { stream } if self.gone.insert(*stream) => {
                for (_, call) in self.calls.iter_mut().filter(|((of, _), _)| of == stream) {
                    call.released = true;
                }
                self.world.relay.stream_gone(StreamId(*stream), &now)
            }
            Step::Ask => self.world.relay.server_line(request("\"q\"", "roots/list", "{}").into(), &now),
            Step::Wait { ms } => {
                self.world.now.boot_ms += ms;
                self.world.relay.tick(&self.world.now)
            }
            _ => vec![],
        };
        self.note(&effects);
        if closed_and_quiet && !reopening {
            let written = |effect: &Effect| matches!(effect, Effect::MarkForwarding { .. });
            assert!(!effects.iter().any(written), "something was written through a closed gate: {step:?}");
        }
    }

    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::MarkForwarding { stream, id, class, .. } => {
                    assert!(self.marked.is_none(), "a mark without its write");
                    let key = (stream.0, id.as_number().unwrap());
                    self.calls.get_mut(&key).unwrap().class = Some(*class);
                    self.marked = Some(key);
                }
                Effect::UnsafePossible { .. } => self.unsafe_said = true,
                Effect::WriteServer { line } => self.written(line),
                Effect::ToClient { stream, line } => self.answered(stream.0, line),
                Effect::Unknown(lost) => {
                    *self.unknown.entry(lost.tool.to_string()).or_default() += 1;
                    assert!(lost.class.is_unsafe());
                }
                _ => {}
            }
        }
        assert!(self.marked.is_none(), "a mark without its write");
    }

    fn written(&mut self, line: &[u8]) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        if value["method"] != "tools/call" {
            return;
        }
        let key = self.marked.take().expect("every write is marked first");
        let call = self.calls.get_mut(&key).unwrap();
        call.written += 1;
        let replayable = matches!(call.tool, "read" | "touch");
        assert!(call.written == 1 || replayable && call.written == 2, "{key:?} was written again");
        assert!(!call.released, "{key:?} was written after its caller had left");
        assert!(call.tool == "read" || self.unsafe_said, "an unsafe write before its sticky mark");
        let upstream = value["id"].as_u64().unwrap();
        self.open.push(upstream);
        self.of.insert(upstream, key);
    }

    fn answer(&mut self, upstream: u64) -> Vec<Effect> {
        self.calls.get_mut(&self.of[&upstream]).unwrap().ended = true;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{upstream},"result":{{}}}}"#);
        self.world.relay.server_line(line.into(), &self.world.now)
    }

    fn answered(&mut self, stream: u64, line: &[u8]) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        if value.get("method").is_some() {
            return;
        }
        let call =
            self.calls.get_mut(&(stream, value["id"].as_u64().unwrap())).expect("an answer to a request");
        call.answers += 1;
        assert_eq!(call.answers, 1, "a second answer");
    }

    /// Faults stop: the gate opens, a server comes, answers everything, and time passes.
    fn settle(mut self) {
        self.act(&Step::Reopen);
        self.act(&Step::Ready);
        while let Some(upstream) = self.open.pop() {
            let effects = self.answer(upstream);
            self.note(&effects);
        }
        self.act(&Step::Wait { ms: 120_000 });
        for (key, call) in &self.calls {
            assert!(
                call.answers == 1 || call.released && call.answers == 0,
                "{key:?} has {} answers",
                call.answers
            );
        }
        for tool in ["touch", "mark", "write"] {
            let lost = |call: &&Call| call.tool == tool && call.written > 0 && !call.ended;
            let unknown = self.unknown.get(tool).copied().unwrap_or_default();
            assert_eq!(unknown, self.calls.values().filter(lost).count(), "{tool}: each that is lost, once");
        }
        assert_eq!(self.world.holders(), [""; 0], "nothing is in flight any more");
        assert_eq!(self.world.relay.held(), 0);
        assert_eq!(self.world.relay.calls(), []);
        assert_eq!(self.world.relay.next_deadline(), None);
        assert!(self.world.relay.upstream_id(StreamId(1), &RawId::number(1)).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_request_ends_exactly_once_and_nothing_is_written_twice_that_must_not_be(
        steps in prop::collection::vec(step(), 0..80)
    ) {
        let mut play = Play::new();
        for step in &steps {
            play.act(step);
        }
        play.settle();
    }
}
