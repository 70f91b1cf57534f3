//! What goes over the daemon's socket: a hello, a welcome, then lines.
//!
//! A stream carries MCP messages byte for byte behind a one-letter tag, so that nothing is ever escaped or re-encoded;
//! everything else is one JSON document a line. Nothing here knows what a message means.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io;
use tidegate_core::{ComponentName, ProcessIdentity, SessionId, SessionName, WorkClass};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The version of this protocol; both ends must speak the same.
pub(crate) const WIRE_VERSION: u32 = 1;
/// The longest line either side accepts: one MCP message of the largest size, and its tag.
pub(crate) const MAX_LINE_BYTES: usize = MAX_MESSAGE_BYTES + 64;
/// The largest MCP message, in bytes. A larger one is answered with an error and not forwarded.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The first line of a connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// [`WIRE_VERSION`] of the caller.
    pub(crate) wire: u32,
    /// The caller's credential; without one it is `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// What the connection is for.
    pub(crate) role: Role,
}

/// What a connection is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Requests of [`crate::api`], in no session's name.
    Command,
    /// Requests of [`crate::api`], in the name of a session.
    Control(Attach),
    /// MCP messages to one component.
    Stream {
        component: ComponentName,
        attach: Attach,
        /// Set when the stream was served before by a daemon that is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<Resume>,
    },
}

/// Which session a connection belongs to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Attach {
    /// The name asked for; generated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<SessionName>,
    /// Take the name over from a client that lives.
    #[serde(default)]
    pub(crate) steal: bool,
    /// The client: the process that started the shim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<ProcessIdentity>,
    /// The name was this client's before, under a daemon that is gone.
    #[serde(default)]
    pub(crate) again: bool,
}

/// What a shim knows of its stream when it comes back after the daemon's death.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Resume {
    /// The client's `initialize` request, when it had been answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) initialize: Option<Box<RawValue>>,
    /// Requests that had been marked as forwarded and were not answered.
    pub(crate) forwarded: Vec<Reported>,
}

/// A request that the daemon marked before it began to write it to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The tool, or the method where it is no tool call.
    pub(crate) tool: String,
    /// Its work class, as the daemon had decided.
    pub(crate) class: WorkClass,
}

/// A marked request, as a shim reports it to the next daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reported {
    /// The client's line.
    pub(crate) line: Box<RawValue>,
    pub(crate) mark: Mark,
    /// Milliseconds since the client sent it.
    pub(crate) age_ms: u64,
}

/// The daemon's answer to a hello.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Welcome {
    /// The connection is open. For `Control` and `Stream`: in the name of `session`.
    Open {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// Something the person or model on the other side should know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
    },
    /// It is not; trying again won't help unless `retry` is set.
    Refused {
        message: String,
        #[serde(default)]
        retry: bool,
    },
}

/// Tag of a line that is an MCP message.
pub(crate) const MESSAGE: u8 = b'm';
/// Tag of a line that is a [`Note`].
pub(crate) const NOTE: u8 = b'n';

/// What the daemon tells a shim beside messages.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// The request with this id (as the client wrote it) is about to be written to the server.
    Forwarding { id: Box<RawValue>, mark: Mark },
    /// The stream is over; the shim is not to come back.
    End { message: String },
}

/// One line of a stream: tag, payload, line feed.
pub(crate) fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(payload.len() + 2);
    line.push(tag);
    line.extend_from_slice(payload);
    line.push(b'\n');
    line
}

/// A note as a line.
pub(crate) fn note_frame(note: &Note) -> Vec<u8> {
    frame(NOTE, &json_line(note))
}

/// A document as one line of JSON, without its line feed.
pub(crate) fn json_line<T: Serialize>(document: &T) -> Vec<u8> {
    // Only maps whose keys aren't strings fail; no document of this protocol has one.
    serde_json::to_vec(document).unwrap_or_default()
}

/// What reading a line came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole line is in the buffer, without its line feed.
    Whole,
    /// The line was longer than the limit; it was skipped and this many bytes of it are gone.
    TooLong(usize),
    /// The other side is done; an unfinished line is dropped.
    End,
}

/// Reads up to the next byte 0x0A into `line`, which is cleared first. At most `limit` bytes are kept.
///
/// # Cancel safety
/// Not cancel safe: what was read of a line is lost with the future. Read in a task of its own.
pub(crate) async fn read_line<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Line> {
    line.clear();
    let mut dropped = 0;
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(Line::End);
        }
        let (used, done) = match chunk.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (chunk.len(), false),
        };
        let content = if done { used - 1 } else { used };
        if dropped > 0 || line.len() + content > limit {
            dropped += line.len() + content;
            line.clear();
        } else {
            line.extend_from_slice(&chunk[..content]);
        }
        reader.consume(used);
        if done {
            return Ok(if dropped > 0 { Line::TooLong(dropped) } else { Line::Whole });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], limit: usize) -> Vec<String> {
        let mut reader = tokio::io::BufReader::with_capacity(3, input);
        let (mut line, mut seen) = (Vec::new(), Vec::new());
        loop {
            seen.push(match read_line(&mut reader, &mut line, limit).await.unwrap() {
                Line::Whole => String::from_utf8_lossy(&line).into_owned(),
                Line::TooLong(n) => format!("<{n} too many>"),
                Line::End => return seen,
            });
        }
    }

    #[tokio::test]
    async fn lines_end_at_byte_0a_alone_and_long_ones_are_skipped() {
        assert_eq!(lines("a\u{2028}b\r\nc\n".as_bytes(), 99).await, ["a\u{2028}b\r", "c"]);
        assert_eq!(lines(b"12345678\nok\n", 4).await, ["<8 too many>", "ok"]);
        assert_eq!(lines(b"1234\nunfinished", 4).await, ["1234"]);
        assert_eq!(lines(b"\n\n", 4).await, ["", ""]);
    }
}
