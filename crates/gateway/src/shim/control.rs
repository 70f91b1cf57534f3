//! The governance tools as an MCP server on stdio, in the name of one session. Asks the daemon; restarts nothing.

use super::dial::{Dialer, hopeless};
use super::lost::{self, Lost};
use super::tools::{TOOLS, Tool};
use crate::api::{Failure, Request};
use crate::config::Config;
use crate::lines::{Line, Lines};
use crate::link::Link;
use crate::wire::{Role, Welcome};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tidegate_relay::{
    Kind, Message, MessageError, PROTOCOL_VERSION, PROTOCOL_VERSIONS, RawId, Rejected, not_spoken_here,
    salvage_id,
};
use tokio::io::AsyncWriteExt as _;

/// How long a daemon is dialled for one call. The last attempt may be one that is accepted and never welcomed: with that it is
/// still below the SDKs' 60 s.
const GRACE: Duration = Duration::from_secs(35);

struct Control<'a> {
    dialer: Dialer,
    config: &'a Config,
    link: Option<Link>,
}

/// Serves the client until it has closed its input or its output is gone.
pub(super) async fn run(dialer: Dialer, config: &Config) {
    let mut control = Control { dialer, config, link: None };
    let mut stdin = Lines::new(tokio::io::stdin());
    let mut stdout = tokio::io::stdout();
    loop {
        let answer = match stdin.next().await {
            Ok(Some(Line::Whole(line))) => control.message(line).await,
            Ok(Some(Line::TooLong { bytes, head, tail })) => {
                let id = salvage_id(&head, &tail);
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                Some(Rejected { error: MessageError::TooLong { bytes }, id }.answer())
            }
            Ok(Some(Line::Torn { .. }) | None) | Err(_) => return,
        };
        if let Some(mut answer) = answer {
            answer.push(b'\n');
            if stdout.write_all(&answer).await.is_err() || stdout.flush().await.is_err() {
                return;
            }
        }
    }
}

fn result(id: &RawId, result: &Value) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
}

fn error(id: &RawId, code: i64, message: &str) -> Vec<u8> {
    let error = json!({ "code": code, "message": message });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}

/// The parameters of a request; none where there are none.
fn params(message: &Message) -> Value {
    let whole: Option<Value> = serde_json::from_str(message.line()).ok();
    whole.map_or(Value::Null, |mut whole| whole["params"].take())
}

/// A tool result: the document, as structured content and as the text that older clients show.
fn tool_result(document: &Value) -> Value {
    json!({ "content": [{ "type": "text", "text": document.to_string() }], "structuredContent": document, "isError": false })
}

/// What went wrong. Of a refusal the next action's prompt comes first, as of every refused call, and then the reason.
fn tool_failure(failure: &Failure) -> Value {
    let text = |text: &Value| json!({ "type": "text", "text": text });
    let reason = text(&json!(failure.message));
    match &failure.refusal {
        Some(refusal) => json!({
            "content": [text(&refusal["next_action"]["prompt"]), reason],
            "isError": true,
            "_meta": { "tidegate/refusal": refusal },
        }),
        None => json!({ "content": [reason], "isError": true }),
    }
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().filter(|v| PROTOCOL_VERSIONS.contains(v));
    json!({
        "protocolVersion": asked.unwrap_or(PROTOCOL_VERSION),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "tidegate-control", "title": "Tidegate", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "After an interruption call session_resume: it says in one sentence what to do next. To have a server \
                         restarted call restart_request; somebody else has to approve it.",
    })
}

impl Control<'_> {
    async fn message(&mut self, line: Vec<u8>) -> Option<Vec<u8>> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let message = match Message::parse(line) {
            Ok(message) => message,
            Err(rejected) => return Some(rejected.answer()),
        };
        // Nothing was asked that a response could answer, and no notification matters here.
        let Kind::Request { id, method } = message.kind() else { return None };
        if let Some(refused) = not_spoken_here(id, method, &message) {
            return Some(refused);
        }
        Some(match method.as_str() {
            "initialize" => {
                // The session exists as soon as its client does. Without a daemon it will with the first call.
                let _ = self.linked(Duration::ZERO).await;
                result(id, &initialize(&params(&message)))
            }
            "ping" => result(id, &json!({})),
            "tools/list" => {
                result(id, &json!({ "tools": TOOLS.iter().map(Tool::listed).collect::<Vec<_>>() }))
            }
            "tools/call" => self.call(id, &params(&message)).await,
            other => error(id, -32601, &format!("there is no method {other} here")),
        })
    }

    async fn call(&mut self, id: &RawId, params: &Value) -> Vec<u8> {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(tool) = Tool::named(name) else {
            return error(id, -32602, &format!("there is no tool {name:?} here"));
        };
        let answer = match tool.request(params["arguments"].clone()) {
            Ok(request) => self.ask(tool, &request).await,
            Err(message) => Err(Failure::no(format!("{name}: {message}"))),
        };
        match answer {
            Ok(document) => result(id, &tool_result(&document)),
            Err(failure) => result(id, &tool_failure(&failure)),
        }
    }

    /// Asks the daemon, waiting for one where there is none. What only reads state is answered without one.
    async fn ask(&mut self, tool: &Tool, request: &Request) -> Result<Value, Failure> {
        let offline = matches!(request, Request::Resume { session: Some(_) });
        let link = match self.linked(if offline { Duration::ZERO } else { GRACE }).await {
            Ok(link) => link,
            Err(failure) => match request {
                Request::Resume { session: Some(session) } => {
                    return crate::cli::resume_offline(self.config, session).map_err(Failure::cannot);
                }
                _ => return Err(failure),
            },
        };
        match link.ask(request, |_| ()).await {
            Ok(answer) => answer,
            Err(error) => {
                self.link = None;
                let what = match error.kind() {
                    io::ErrorKind::TimedOut => "does not answer, an operator has to look at it",
                    _ => "ended before it answered",
                };
                let reason = format!(
                    "the daemon {what} ({error}); what was asked may or may not have been done: look with `status`, then ask again"
                );
                Err(lost::failure(Lost::Unanswered(tool), reason))
            }
        }
    }

    /// The connection, made where there is none; at most `grace` is waited for a daemon.
    async fn linked(&mut self, grace: Duration) -> Result<&mut Link, Failure> {
        if self.link.as_ref().is_some_and(Link::is_closed) {
            self.link = None;
        }
        let until = tokio::time::Instant::now() + grace;
        while self.link.is_none() {
            match self.dialer.dial(self.dialer.hello(Role::Control)).await {
                Ok(link) => match &link.welcome {
                    Welcome::Open { .. } => {
                        self.dialer.welcomed(&link.welcome);
                        self.link = Some(link);
                    }
                    Welcome::Refused { message, retry: false } => {
                        return Err(lost::failure(Lost::Unwelcome, message.clone()));
                    }
                    Welcome::Refused { .. } => self.dialer.failed(),
                },
                Err(error) => {
                    self.dialer.failed();
                    let hopeless = hopeless(&error);
                    if hopeless || tokio::time::Instant::now() >= until {
                        let lost = if hopeless { Lost::Unwelcome } else { Lost::Unsent };
                        let reason = format!(
                            "no daemon answers at {} ({error}); an operator starts one with `tidegate serve`",
                            self.dialer.socket.display()
                        );
                        return Err(lost::failure(lost, reason));
                    }
                }
            }
        }
        self.link.as_mut().ok_or_else(|| Failure::cannot("no connection"))
    }
}
