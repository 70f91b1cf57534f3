//! Both halves of `initialize`: what the gateway asks of a server, and what it answers its clients. Pure text.
//!
//! Only the protocol version and the `tasks` capability are rewritten; the rest of a server's result passes as it is.

use crate::message::{Kind, Member, Message, Rejected, members, range_in, spliced};
use crate::refusal::result_line;
use crate::{List, RawId};
use serde_json::json;

/// The newest protocol version spoken here, and the one offered to servers.
pub const PROTOCOL_VERSION: &str = "2025-11-25";

/// All dated versions spoken here, oldest first.
pub const PROTOCOL_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", PROTOCOL_VERSION];

/// What a server answered to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitializeResult {
    json: String,
    /// The version it speaks with the gateway.
    pub protocol_version: String,
    /// `serverInfo.version`, where it says one.
    pub server_version: Option<String>,
}

/// A handshake that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The line is no message.
    #[error("the server's answer to initialize can't be read: {0}")]
    Message(#[from] Rejected),
    /// It isn't the answer that was waited for.
    #[error("the server sent something else before its answer to initialize")]
    NotTheAnswer,
    /// The server refused.
    #[error("the server refused initialize: {answer}")]
    Refused {
        /// Its answer.
        answer: String,
    },
    /// The result isn't what the protocol says.
    #[error("the server's answer to initialize has no {what}")]
    Missing {
        /// What is missing.
        what: &'static str,
    },
    /// A version that isn't spoken here.
    #[error("the server speaks protocol {version}, Tidegate speaks {}", PROTOCOL_VERSIONS.join(", "))]
    Version {
        /// The server's.
        version: String,
    },
}

/// The gateway's own `initialize`, with empty capabilities: one session's roots never widen another's access.
#[must_use]
pub fn initialize_request(id: &RawId, gateway_version: &str) -> Vec<u8> {
    let params = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": { "name": "tidegate", "version": gateway_version },
    });
    request_line(id, "initialize", &params.to_string())
}

/// What follows a successful handshake.
#[must_use]
pub fn initialized_notification() -> Vec<u8> {
    br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec()
}

/// A request with these parameters (JSON text).
#[must_use]
pub fn request_line(id: &RawId, method: &str, params: &str) -> Vec<u8> {
    let method = json!(method);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#).into_bytes()
}

impl InitializeResult {
    /// Reads the server's answer to the request `id`.
    ///
    /// # Errors
    /// [`HandshakeError`]; [`HandshakeError::NotTheAnswer`] for any other message, which may simply be skipped.
    pub fn from_answer(line: &[u8], id: &RawId) -> Result<Self, HandshakeError> {
        let message = Message::parse(line.to_vec())?;
        match message.kind() {
            Kind::Response { id: answered, is_error: false } if answered == id => {
                Self::new(message.result().unwrap_or_default())
            }
            Kind::Response { id: answered, is_error: true } if answered == id => {
                Err(HandshakeError::Refused { answer: message.line().to_owned() })
            }
            _ => Err(HandshakeError::NotTheAnswer),
        }
    }

    /// Takes the JSON text of a result.
    ///
    /// # Errors
    /// [`HandshakeError::Missing`] and [`HandshakeError::Version`].
    pub fn new(json: &str) -> Result<Self, HandshakeError> {
        let top = members(json).map_err(|_| HandshakeError::Missing { what: "result object" })?;
        let text = |members: &[Member<'_>], key: &str| {
            let member = members.iter().find(|member| member.key == key)?;
            serde_json::from_str::<String>(member.value).ok()
        };
        let protocol_version =
            text(&top, "protocolVersion").ok_or(HandshakeError::Missing { what: "protocolVersion" })?;
        if !PROTOCOL_VERSIONS.contains(&protocol_version.as_str()) {
            return Err(HandshakeError::Version { version: protocol_version });
        }
        let info = top.iter().find(|member| member.key == "serverInfo");
        let server_version =
            info.and_then(|info| members(info.value).ok()).and_then(|info| text(&info, "version"));
        Ok(Self { json: json.to_owned(), protocol_version, server_version })
    }

    /// The JSON text, as the server sent it.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// Whether it has the capability that goes with a list.
    #[must_use]
    pub fn offers(&self, list: List) -> bool {
        let top = members(&self.json).unwrap_or_default();
        let capabilities = top.iter().find(|member| member.key == "capabilities");
        let capabilities = capabilities.and_then(|it| members(it.value).ok()).unwrap_or_default();
        capabilities.iter().any(|member| member.key == list.capability())
    }

    /// The answer to a client's `initialize` that asks for `requested`: its own version where that is spoken here and
    /// not newer than the server's, else the server's; and no `tasks`.
    #[must_use]
    pub fn answer(&self, id: &RawId, requested: Option<&str>) -> Vec<u8> {
        let version = requested
            .filter(|version| PROTOCOL_VERSIONS.contains(version) && **version <= *self.protocol_version)
            .unwrap_or(&self.protocol_version);
        let version = json!(version).to_string();
        let top = members(&self.json).unwrap_or_default();
        let value = |key: &str| top.iter().find(|member| member.key == key).map(|member| member.value);
        let capabilities = value("capabilities").and_then(without_tasks);
        let version = value("protocolVersion").map(|old| (range_in(&self.json, old), version.as_str()));
        let capabilities = value("capabilities")
            .zip(capabilities.as_deref())
            .map(|(old, new)| (range_in(&self.json, old), new));
        result_line(id, &spliced(&self.json, version.into_iter().chain(capabilities).collect()))
    }
}

/// Capabilities that offer no tasks; `None` where they don't as they are.
pub(crate) fn without_tasks(capabilities: &str) -> Option<String> {
    let all = members(capabilities).ok()?;
    let offered = |member: &&Member<'_>| member.key != "tasks";
    let kept: Vec<String> =
        all.iter().filter(offered).map(|member| format!("{}:{}", json!(member.key), member.value)).collect();
    (kept.len() < all.len()).then(|| format!("{{{}}}", kept.join(",")))
}
