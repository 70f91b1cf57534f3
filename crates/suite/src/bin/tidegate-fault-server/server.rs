//! The server: one line in, and what follows from it. Calls run on threads of their own, everything else in order.

use crate::call::{Arguments, Call};
use crate::catalogue::{self, LEDGER_URI};
use crate::disk::Disk;
use crate::flags::{Flags, Phase, Ping};
use crate::havoc;
use crate::wire::{INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, Wire};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The levels of `logging/setLevel`, least first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What is lost with the process.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<String, String>,
    pub(crate) commits: u64,
    subscriptions: BTreeSet<String>,
    log_level: usize,
    running: usize,
    /// Ids of running calls, as JSON text, that were cancelled.
    cancelled: BTreeSet<String>,
    lists: usize,
}

/// One server, shared by the threads of its calls.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) flags: Flags,
    pub(crate) disk: Disk,
    pub(crate) wire: Wire,
    state: Mutex<State>,
    idle: Condvar,
}

impl Server {
    /// A server that has said nothing yet but its banner.
    pub(crate) fn new(flags: Flags, disk: Disk) -> Result<Self, String> {
        let wire = Wire::new(flags.crlf);
        flags.banner.iter().for_each(|line| wire.raw(line, usize::MAX));
        Ok(Self { flags, disk, wire, state: Mutex::default(), idle: Condvar::new() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one line.
    pub(crate) fn line(self: &Arc<Self>, line: &[u8]) {
        if self.flags.echo && self.echo(line) {
            return;
        }
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
            return self.wire.error(&Value::Null, PARSE_ERROR, "not JSON");
        };
        self.disk.received(&message);
        let params = message["params"].take();
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.request(method, id, params),
            (Some(method), None) => self.notification(method, &params),
            (None, Some(id)) => self.wire.answered(&id.clone(), message),
            (None, None) => self.wire.error(&Value::Null, PARSE_ERROR, "neither a request nor an answer"),
        }
    }

    /// Keeps a line of a method `x/…` as it came, and answers with its own parameters, byte for byte.
    fn echo(&self, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            method: Option<&'a str>,
            #[serde(borrow)]
            params: Option<&'a RawValue>,
        }
        let Ok(Raw { id, method: Some(method), params }) = serde_json::from_slice(line) else { return false };
        if !method.starts_with("x/") {
            return false;
        }
        self.disk.raw(line);
        if let Some(id) = id {
            let params = params.map_or("null", RawValue::get);
            self.wire
                .raw(&format!("{{ \"result\" : {params}\t,\"jsonrpc\":\"2.0\",\"id\":{id} }}"), usize::MAX);
        }
        true
    }

    fn request(self: &Arc<Self>, method: &str, id: &Value, params: Value) {
        let wire = &self.wire;
        match method {
            "initialize" => {
                havoc::die_if(&self.flags, Phase::Initialize, self.disk.start());
                wire.result(id, catalogue::initialize(&params, &self.flags.version));
            }
            "ping" => match self.flags.ping {
                Ping::Answer => wire.result(id, json!({})),
                Ping::Error => wire.error(id, METHOD_NOT_FOUND, "ping is not known here"),
                Ping::Silence => {}
            },
            "tools/list" => self.list(id, &params),
            "tools/call" => self.call(id, params),
            "resources/list" => wire.result(id, catalogue::resources()),
            "resources/templates/list" => wire.result(id, json!({ "resourceTemplates": [] })),
            "resources/read" => {
                let text = self.state().commits.to_string();
                wire.result(
                    id,
                    json!({ "contents": [{ "uri": params["uri"], "mimeType": "text/plain", "text": text }] }),
                );
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                let subscriptions = &mut self.state().subscriptions;
                match method {
                    "resources/subscribe" => subscriptions.insert(uri.to_owned()),
                    _ => subscriptions.remove(uri),
                };
                wire.result(id, json!({}));
            }
            "logging/setLevel" => {
                let named = params["level"].as_str().unwrap_or_default();
                match LEVELS.iter().position(|level| *level == named) {
                    Some(level) => {
                        self.state().log_level = level;
                        wire.result(id, json!({}));
                    }
                    None => wire.error(id, INVALID_PARAMS, "no such level"),
                }
            }
            other => wire.error(id, METHOD_NOT_FOUND, &format!("{other} is not known here")),
        }
    }

    fn notification(&self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                havoc::die_if(&self.flags, Phase::Initialized, self.disk.start());
                if let Some(method) = &self.flags.ask_when_initialized {
                    // What is answered is recorded, as everything that is received.
                    drop(self.wire.ask("ask-when-initialized", method, &json!({})));
                }
            }
            "notifications/cancelled" if self.flags.honour_cancel => {
                self.state().cancelled.insert(params["requestId"].to_string());
            }
            // Everything else is received and recorded, and changes nothing.
            _ => {}
        }
    }

    /// One page, on a thread of its own where it waits.
    fn list(self: &Arc<Self>, id: &Value, params: &Value) {
        havoc::die_if(&self.flags, Phase::List, self.disk.start());
        let warm = {
            let mut state = self.state();
            state.lists += 1;
            state.lists > self.flags.empty_lists
        };
        let tools: Vec<Value> = catalogue::names(&self.flags)
            .iter()
            .filter(|_| warm)
            .map(|name| catalogue::describe(name, self.flags.annotations))
            .collect();
        let Some(page) = catalogue::page(&tools, self.flags.page_size, &params["cursor"]) else {
            return self.wire.error(id, INVALID_PARAMS, "there is no such page");
        };
        match self.flags.list_until_file.clone() {
            Some(file) if !file.exists() => {
                let (server, id) = (Arc::clone(self), id.clone());
                std::thread::spawn(move || {
                    havoc::await_file(&file, || false);
                    server.wire.result(&id, page);
                });
            }
            _ => self.wire.result(id, page),
        }
    }

    fn call(self: &Arc<Self>, id: &Value, mut params: Value) {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        if !catalogue::names(&self.flags).contains(&name) {
            return self.wire.error(id, INVALID_PARAMS, &format!("unknown tool {name:?}"));
        }
        let arguments = match params["arguments"].take() {
            Value::Null => json!({}),
            given => given,
        };
        let arguments: Arguments = match serde_json::from_value(arguments) {
            Ok(arguments) => arguments,
            Err(e) => return self.wire.error(id, INVALID_PARAMS, &e.to_string()),
        };
        let token = params["_meta"]["progressToken"].take();
        let call = Call { server: Arc::clone(self), id: id.clone(), name, arguments, token };
        self.state().running += 1;
        std::thread::spawn(move || {
            call.run();
            let mut state = call.server.state();
            state.cancelled.remove(&call.id.to_string());
            state.running -= 1;
            call.server.idle.notify_all();
        });
    }

    /// Waits until no call is running.
    pub(crate) fn finish(&self) {
        let idle = self.idle.wait_while(self.state(), |state| state.running > 0);
        drop(idle.unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether the call was cancelled, and this server honours that.
    pub(crate) fn is_cancelled(&self, id: &Value) -> bool {
        self.state().cancelled.contains(&id.to_string())
    }

    /// Tells a subscriber that the ledger has changed.
    pub(crate) fn ledger_changed(&self) {
        if self.state().subscriptions.contains(LEDGER_URI) {
            self.wire.notify("notifications/resources/updated", json!({ "uri": LEDGER_URI }));
        }
    }

    /// A log message, if the level in force lets it through.
    pub(crate) fn log(&self, level: &str, text: &str) {
        let loud_enough = LEVELS.iter().position(|l| *l == level) >= Some(self.state().log_level);
        if loud_enough {
            self.wire
                .notify("notifications/message", json!({ "level": level, "logger": "fault", "data": text }));
        }
    }
}
