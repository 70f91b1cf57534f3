//! One relay with its gate and a clock, and effects written down so that a test reads as a conversation.

use serde_json::Value;
use tidegate_core::{BootId, Generation, Now, OpenCall, SessionId, WallTime, WorkClass};
use tidegate_drain::Gate;
use tidegate_relay::{
    Classified, Classifier, Effect, InitializeResult, List, ListCache, RawId, Relay, RelayConfig,
    ServerFacts, StreamId,
};

/// What the test server says of itself.
pub(crate) const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"tasks":{"list":{}}},"serverInfo":{"name":"files","version":"1.2.3"}}"#;

/// `read`, `touch` and `write` are of the class that their name suggests, because the operator says so.
pub(crate) const TOOLS: &str = r#"{"tools":[{"name":"read"},{"name":"touch"},{"name":"write"}]}"#;

pub(crate) struct World {
    pub(crate) relay: Relay,
    pub(crate) now: Now,
}

impl World {
    /// A server of generation 1 and two sessions, `s1` on stream 1 and `s2` on stream 2, past their handshakes.
    pub(crate) fn ready() -> Self {
        let mut world = Self::with(RelayConfig::default());
        world.generation(1, TOOLS);
        world
    }

    /// No server yet, whose annotations are believed; the operator says nothing.
    pub(crate) fn trusting() -> Self {
        Self::of(RelayConfig { classifier: Classifier::new([], true), ..RelayConfig::default() })
    }

    pub(crate) fn with(config: RelayConfig) -> Self {
        let classifier = Classifier::new(
            [
                ("read".to_owned(), Classified { class: WorkClass::ReadOnly, replay: false }),
                ("touch".to_owned(), Classified { class: WorkClass::Idempotent, replay: true }),
                ("mark".to_owned(), Classified { class: WorkClass::Idempotent, replay: false }),
            ],
            false,
        );
        Self::of(RelayConfig { classifier, ..config })
    }

    fn of(config: RelayConfig) -> Self {
        let gate = Gate::new("files".parse().unwrap(), 8);
        let mut relay = Relay::new(gate, config);
        relay.stream_opened(StreamId(1), session("s1"));
        relay.stream_opened(StreamId(2), session("s2"));
        Self { relay, now: Now { boot: BootId(1), boot_ms: 0, wall: WallTime(0) } }
    }

    pub(crate) fn generation(&mut self, generation: u64, tools: &str) -> Vec<String> {
        let facts = facts(generation, tools);
        show(&self.relay.server_ready(facts, &self.now))
    }

    pub(crate) fn at(&mut self, boot_ms: u64) -> &mut Self {
        self.now.boot_ms = boot_ms;
        self
    }

    pub(crate) fn client(&mut self, stream: u64, line: &str) -> Vec<String> {
        show(&self.relay.client_message(StreamId(stream), line.into(), &self.now))
    }

    /// `stream` calls a tool with this id (JSON text).
    pub(crate) fn call(&mut self, stream: u64, id: &str, tool: &str) -> Vec<String> {
        let params = format!(r#"{{"name":"{tool}"}}"#);
        self.client(stream, &request(id, "tools/call", &params))
    }

    pub(crate) fn server(&mut self, line: &str) -> Vec<String> {
        show(&self.relay.server_line(line.into(), &self.now))
    }

    /// The server answers what `stream` knows as `id`.
    pub(crate) fn answer(&mut self, stream: u64, id: &str) -> Vec<String> {
        let upstream = self.upstream(stream, id);
        self.server(&format!(r#"{{"jsonrpc":"2.0","id":{upstream},"result":{{"ok":true}}}}"#))
    }

    pub(crate) fn upstream(&self, stream: u64, id: &str) -> u64 {
        self.relay.upstream_id(StreamId(stream), &RawId::new(id).unwrap()).unwrap()
    }

    pub(crate) fn die(&mut self) -> Vec<String> {
        show(&self.relay.server_died(&self.now))
    }

    pub(crate) fn gone(&mut self, stream: u64) -> Vec<String> {
        show(&self.relay.stream_gone(StreamId(stream), &self.now))
    }

    pub(crate) fn close(&mut self) -> Vec<String> {
        self.relay.gate().close("d1".parse().unwrap()).unwrap();
        show(&self.relay.gate_closed(Some("op-1".parse().unwrap())))
    }

    pub(crate) fn reopen(&mut self) -> Vec<String> {
        self.relay.gate().reopen(&"d1".parse().unwrap()).unwrap();
        show(&self.relay.gate_reopened(&self.now))
    }

    pub(crate) fn tick(&mut self) -> Vec<String> {
        show(&self.relay.tick(&self.now))
    }

    /// What is in flight, as a drain would name it.
    pub(crate) fn holders(&self) -> Vec<String> {
        self.relay.gate().holders(&self.now).iter().map(ToString::to_string).collect()
    }
}

pub(crate) fn facts(generation: u64, tools: &str) -> ServerFacts {
    let mut lists = ListCache::default();
    lists.set(List::Tools, tools.to_owned());
    let initialize = InitializeResult::new(INITIALIZE).unwrap();
    ServerFacts { generation: Generation(generation), initialize, lists }
}

pub(crate) fn session(name: &str) -> SessionId {
    format!("local/{name}").parse().unwrap()
}

pub(crate) fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

pub(crate) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

pub(crate) fn show(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(show_one).collect()
}

fn show_one(effect: &Effect) -> String {
    let lost = |call: &OpenCall| {
        let generation = call.id.split('-').next().unwrap_or_default();
        format!("{} {} g{generation}", call.session, call.tool)
    };
    match effect {
        Effect::MarkForwarding { stream, id, class, tool, .. } => {
            format!("mark {stream}#{id} {class} {tool}")
        }
        Effect::UnsafePossible { generation } => format!("unsafe possible g{generation}"),
        Effect::WriteServer { line } => format!("> {}", text(line)),
        Effect::ToClient { stream, line } => format!("{stream}< {}", show_answer(text(line))),
        Effect::Unknown(call) => format!("unknown {}", lost(call)),
        Effect::Detached(call) => format!("detached {}", lost(call)),
        Effect::AnsweredLate { call, answer } => format!("late {answer:?} {}", lost(call)),
        Effect::Replayed(call) => format!("replayed {}", lost(call)),
        Effect::ListChanged { list } => format!("changed {}", list.method()),
        Effect::ToolsChanged { added, removed } => format!("tools +{added:?} -{removed:?}"),
        Effect::OwnAnswer { tag, line } => format!("own {tag}: {}", text(line)),
        Effect::FactsChanged { stream } => format!("facts of {stream}"),
        other => format!("{other:?}"),
    }
}

/// Refusals and errors in short, everything else as it is.
fn show_answer(line: &str) -> String {
    let value: Value = serde_json::from_str(line).unwrap();
    let refusal = value.pointer("/result/_meta/tidegate~1refusal").or_else(|| value.pointer("/error/data"));
    let id = &value["id"];
    if let Some(refusal) = refusal {
        let word = |pointer| refusal.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let retryable = if refusal["retryable"] == true { ", retryable" } else { "" };
        format!("#{id} {} → {}{retryable}", word("/kind"), word("/next_action/kind"))
    } else if let Some(error) = value.get("error") {
        format!("#{id} error {}: {}", error["code"], error["message"].as_str().unwrap_or_default())
    } else {
        line.to_owned()
    }
}

fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap()
}
