//! One JSON-RPC message: the line as it came, and where in it the few things stand that the relay reads or rewrites.
//!
//! A line is never re-serialised: rewriting replaces byte ranges. A key that decides what a message means must occur
//! once; the reader at the other end might believe the other one.

mod edge;
mod fields;
mod object;

pub(crate) use edge::broken_answer_to;
pub use edge::salvage_id;
pub(crate) use fields::Params;
pub(crate) use object::{Member, members, range_in, spliced};

use crate::RawId;
use std::ops::Range;

/// The longest line, in bytes. The largest answers seen in practice are images of a few megabytes in base64.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// The deepest nesting of objects and arrays: the limit of the JSON parser most servers' Rust and Python peers use.
pub const MAX_DEPTH: usize = 128;

/// Why a line isn't a message that can be relayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Longer than [`MAX_LINE_BYTES`].
    #[error(
        "a message has at most {MAX_LINE_BYTES} bytes, this one has {bytes}; send less, or send it in parts"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("a message nests at most {MAX_DEPTH} levels deep; this one nests deeper")]
    TooDeep,
    /// Not JSON, or not UTF-8.
    #[error("this is not JSON: {reason}")]
    NotJson {
        /// What the parser says.
        reason: String,
    },
    /// An array at the top.
    #[error("batches are not part of the protocol since 2025-06-18; send one message per line")]
    Batch,
    /// `id: null`.
    #[error("the id must be a string or a number, not null; nothing was forwarded")]
    NullId,
    /// JSON, but not a JSON-RPC 2.0 request, notification or response.
    #[error("this is not a JSON-RPC 2.0 message: {reason}")]
    NotJsonRpc {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A key that decides what the message means is there twice.
    #[error("the key {key:?} is there twice, and it decides what the message means; send it once")]
    Ambiguous {
        /// The key.
        key: String,
    },
}

/// A line that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Rejected {
    /// Why.
    pub error: MessageError,
    /// The id of the request it was, as far as that can be told.
    pub id: Option<RawId>,
}

impl MessageError {
    /// The JSON-RPC code: −32700 for what can't be read, −32600 for what isn't a request.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::NotJson { .. } => -32_700,
            _ => -32_600,
        }
    }
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Has a method and an id.
    Request {
        /// Its id.
        id: RawId,
        /// Its method.
        method: String,
    },
    /// Has a method and no id.
    Notification {
        /// Its method.
        method: String,
    },
    /// Has an id and a result or an error.
    Response {
        /// The id of what it answers.
        id: RawId,
        /// Whether it carries an error.
        is_error: bool,
    },
}

/// A message and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    line: String,
    parts: Parts,
}

/// What was found in a line, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    kind: Kind,
    id: Option<Range<usize>>,
    result: Option<Range<usize>>,
    params: Params,
}

impl Parts {
    fn of(line: &str) -> Result<Self, MessageError> {
        if line.len() > MAX_LINE_BYTES {
            return Err(MessageError::TooLong { bytes: line.len() });
        }
        if depth(line.as_bytes()) > MAX_DEPTH {
            return Err(MessageError::TooDeep);
        }
        if line.trim_start().starts_with('[') {
            return Err(MessageError::Batch);
        }
        let top = members(line).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => MessageError::NotJsonRpc { reason: "it is no object" },
            _ => not_json(&error),
        })?;
        let envelope = Envelope::of(&top)?;
        if envelope.jsonrpc != Some("\"2.0\"") {
            return Err(MessageError::NotJsonRpc { reason: "jsonrpc is not \"2.0\"" });
        }
        let params = match envelope.params {
            Some(params) if params.starts_with('{') => Params::of(line, params)?,
            _ => Params::default(),
        };
        Ok(Self {
            kind: envelope.kind()?,
            id: envelope.id.map(|id| range_in(line, id)),
            result: envelope.result.map(|result| range_in(line, result)),
            params,
        })
    }
}

impl Message {
    /// Reads one line, without its newline.
    ///
    /// # Errors
    /// [`Rejected`] says what is wrong; nothing of the line may be forwarded.
    pub fn parse(line: Vec<u8>) -> Result<Self, Rejected> {
        Self::parse_or_keep(line).map_err(|(rejected, _)| rejected)
    }

    /// As [`Message::parse`]; gives the line back with the error.
    pub(crate) fn parse_or_keep(line: Vec<u8>) -> Result<Self, (Rejected, Vec<u8>)> {
        let line = String::from_utf8(line).map_err(|error| {
            (Rejected { error: not_json(&error.utf8_error()), id: None }, error.into_bytes())
        })?;
        match Parts::of(&line) {
            Ok(parts) => Ok(Self { line, parts }),
            Err(error) => {
                let whole = matches!(error, MessageError::NotJson { .. } | MessageError::Batch);
                let id = if whole { None } else { salvage_id(line.as_bytes(), line.as_bytes()) };
                Err((Rejected { error, id }, line.into_bytes()))
            }
        }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.parts.kind
    }

    /// The line, byte for byte.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The JSON text of the result, in a response that has one.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        self.parts.result.clone().map(|range| &self.line[range])
    }

    /// Whether it is a result that says of itself that the tool has failed.
    pub(crate) fn is_tool_error(&self) -> bool {
        let members = self.result().and_then(|result| members(result).ok()).unwrap_or_default();
        members.iter().any(|member| member.key == "isError" && member.value == "true")
    }

    /// The line with another id.
    #[must_use]
    pub fn with_id(&self, id: &str) -> Vec<u8> {
        self.rewritten(&[(self.parts.id.as_ref(), id)])
    }

    /// The line with another id and, where the caller gave a progress token, another token.
    #[must_use]
    pub fn with_id_and_token(&self, id: &str, token: &str) -> Vec<u8> {
        self.rewritten(&[(self.parts.id.as_ref(), id), (self.parts.params.meta_token.as_ref(), token)])
    }

    /// A cancellation with another request id.
    #[must_use]
    pub fn with_request_id(&self, id: &str) -> Vec<u8> {
        self.rewritten(&[(self.parts.params.request_id.as_ref(), id)])
    }

    /// A progress notification with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Vec<u8> {
        self.rewritten(&[(self.parts.params.token.as_ref(), token)])
    }

    /// The tool that a `tools/call` names.
    #[must_use]
    pub fn tool(&self) -> Option<String> {
        self.string(&self.parts.params.name)
    }

    /// `params.requestId`, in a cancellation.
    #[must_use]
    pub fn request_id(&self) -> Option<RawId> {
        self.raw(&self.parts.params.request_id)
    }

    /// `params.progressToken`, in a progress notification.
    #[must_use]
    pub fn token(&self) -> Option<RawId> {
        self.raw(&self.parts.params.token)
    }

    /// `params._meta.progressToken`, in a request.
    #[must_use]
    pub fn meta_token(&self) -> Option<RawId> {
        self.raw(&self.parts.params.meta_token)
    }

    /// `params.uri`.
    #[must_use]
    pub fn uri(&self) -> Option<String> {
        self.string(&self.parts.params.uri)
    }

    /// `params.level`.
    #[must_use]
    pub fn level(&self) -> Option<String> {
        self.string(&self.parts.params.level)
    }

    /// `params.protocolVersion`.
    #[must_use]
    pub fn protocol_version(&self) -> Option<String> {
        self.string(&self.parts.params.protocol_version)
    }

    /// Whether `params.task` is there.
    #[must_use]
    pub fn asks_for_a_task(&self) -> bool {
        self.parts.params.task.is_some()
    }

    /// Whether `params.cursor` is there.
    #[must_use]
    pub fn has_cursor(&self) -> bool {
        self.parts.params.cursor.is_some()
    }

    fn raw(&self, range: &Option<Range<usize>>) -> Option<RawId> {
        range.clone().and_then(|range| RawId::new(&self.line[range]))
    }

    fn string(&self, range: &Option<Range<usize>>) -> Option<String> {
        range.clone().and_then(|range| serde_json::from_str(&self.line[range]).ok())
    }

    fn rewritten(&self, replacements: &[(Option<&Range<usize>>, &str)]) -> Vec<u8> {
        let present = replacements.iter().filter_map(|(range, text)| Some(((*range)?.clone(), *text)));
        spliced(&self.line, present.collect()).into_bytes()
    }
}

#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    fn of(top: &[Member<'a>]) -> Result<Self, MessageError> {
        let mut envelope = Self::default();
        for Member { key, value } in top {
            let place = match key.as_ref() {
                "jsonrpc" => &mut envelope.jsonrpc,
                "id" => &mut envelope.id,
                "method" => &mut envelope.method,
                "params" => &mut envelope.params,
                "result" => &mut envelope.result,
                "error" => &mut envelope.error,
                _ => continue,
            };
            once(place, value, key)?;
        }
        Ok(envelope)
    }

    fn kind(&self) -> Result<Kind, MessageError> {
        let method = self
            .method
            .map(serde_json::from_str::<String>)
            .transpose()
            .map_err(|_| MessageError::NotJsonRpc { reason: "the method is not a string" })?;
        let id = match self.id {
            None => None,
            Some("null") => return Err(MessageError::NullId),
            Some(id) => Some(RawId::new(id).ok_or(MessageError::NotJsonRpc {
                reason: "the id is not a string or a number of reasonable length",
            })?),
        };
        match (method, id, self.result, self.error) {
            (Some(method), Some(id), None, None) => Ok(Kind::Request { id, method }),
            (Some(method), None, None, None) => Ok(Kind::Notification { method }),
            (None, Some(id), Some(_), None) => Ok(Kind::Response { id, is_error: false }),
            (None, Some(id), None, Some(_)) => Ok(Kind::Response { id, is_error: true }),
            _ => Err(MessageError::NotJsonRpc { reason: "it is no request, notification or response" }),
        }
    }
}

/// Puts a value in its place, which must be empty.
fn once<T>(place: &mut Option<T>, value: T, key: &str) -> Result<(), MessageError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(MessageError::Ambiguous { key: key.to_owned() }),
    }
}

fn not_json(error: &dyn std::fmt::Display) -> MessageError {
    MessageError::NotJson { reason: error.to_string() }
}

/// The deepest nesting of brackets outside strings. Says nothing about whether the line is JSON.
fn depth(line: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
