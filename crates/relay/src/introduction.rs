//! What a client says of itself, for a server that is its own: capabilities, name and version go on to it as they are.
//!
//! Only what a gateway can't keep is taken out: tasks, whose work outlives their request, and a version not spoken here.

use crate::RawId;
use crate::handshake::{PROTOCOL_VERSION, PROTOCOL_VERSIONS, request_line, without_tasks};
use crate::message::{Message, members, range_in, spliced};
use serde_json::json;

/// Whether sessions share a server, or each has its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One server for all sessions. It is told of no client's capabilities: one session's roots never widen another's access.
    #[default]
    Shared,
    /// A server for each session, which is told what its client can do, and may ask it.
    PerSession,
}

/// The parameters of a client's `initialize`, as they go on to a server of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    params: String,
}

impl Introduction {
    /// Reads a client's `initialize`. One that lacks what the protocol asks for is passed on as one that can do nothing.
    #[must_use]
    pub fn of(initialize: &Message) -> Self {
        Self::as_said(initialize).unwrap_or_else(|| {
            let nobody = r#"{"name":"unknown","version":"0"}"#;
            let params = format!(
                r#"{{"protocolVersion":"{PROTOCOL_VERSION}","capabilities":{{}},"clientInfo":{nobody}}}"#
            );
            Self { params }
        })
    }

    fn as_said(initialize: &Message) -> Option<Self> {
        let top = members(initialize.line()).ok()?;
        let params = top.iter().find(|member| member.key == "params")?.value;
        let all = members(params).ok()?;
        let value = |key: &str| all.iter().find(|member| member.key == key).map(|member| member.value);
        let (version, capabilities) = (value("protocolVersion")?, value("capabilities")?);
        let is_spoken =
            initialize.protocol_version().is_some_and(|v| PROTOCOL_VERSIONS.contains(&v.as_str()));
        let newest = json!(PROTOCOL_VERSION).to_string();
        let kept = without_tasks(capabilities);
        let version = (!is_spoken).then(|| (range_in(params, version), newest.as_str()));
        let capabilities = kept.as_deref().map(|kept| (range_in(params, capabilities), kept));
        Some(Self { params: spliced(params, version.into_iter().chain(capabilities).collect()) })
    }

    /// The `initialize` request that passes it on.
    #[must_use]
    pub fn request(&self, id: &RawId) -> Vec<u8> {
        request_line(id, "initialize", &self.params)
    }
}
