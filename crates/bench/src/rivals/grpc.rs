//! The smallest client that speaks gRPC: one connection, one call at a time, no compression, headers never indexed.
//! A rival isn't to be slowed down by its client, and nobody else is to compile a large one.

use anyhow::{Context as _, bail};
use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Longer than any answer takes; only a broken server makes a benchmark wait that long.
const PATIENCE: Duration = Duration::from_secs(30);

/// After so many bytes of answers the windows are opened again: a quarter of what may come before that.
const READ_UNTIL_UPDATE: u32 = 16 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
    authority: String,
    next_stream: u32,
    /// What was read of the connection's window.
    read: u32,
}

/// A call that goes on: each message that is sent is answered by one.
#[derive(Debug)]
pub(super) struct Stream {
    id: u32,
    /// What was read of its window.
    read: u32,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let mut writer = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(PATIENCE))?;
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(&mut hello, SETTINGS, 0, 0, &[]);
        writer.write_all(&hello)?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Self { writer, reader, authority: address.to_string(), next_stream: 1, read: 0 })
    }

    /// One request and its one answer.
    pub(super) fn call(&mut self, path: &str, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut bytes = Vec::with_capacity(256 + message.len());
        frame(&mut bytes, HEADERS, END_HEADERS, stream, &self.headers(path));
        frame(&mut bytes, DATA, END_STREAM, stream, &prefixed(message));
        self.writer.write_all(&bytes)?;
        let mut answer = Vec::new();
        loop {
            let Frame { kind, flags, of, payload } = self.next()?;
            if of != stream {
                continue;
            }
            match kind {
                DATA => answer.extend_from_slice(&payload),
                RST_STREAM => bail!("{path}: the server gave the call up"),
                _ => {}
            }
            if flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS) {
                return message_of(&answer)
                    .map(<[u8]>::to_vec)
                    .with_context(|| format!("{path} was refused"));
            }
        }
    }

    /// Begins a call whose requests and answers alternate.
    pub(super) fn begin(&mut self, path: &str) -> anyhow::Result<Stream> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS, stream, &self.headers(path));
        self.writer.write_all(&bytes)?;
        Ok(Stream { id: stream, read: 0 })
    }

    pub(super) fn ask(&mut self, stream: &mut Stream, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        open_window(&mut bytes, stream.id, &mut stream.read);
        frame(&mut bytes, DATA, 0, stream.id, &prefixed(message));
        self.writer.write_all(&bytes)?;
        let mut answer = Vec::new();
        loop {
            let Frame { kind, flags, of, payload } = self.next()?;
            if of == stream.id && kind == DATA {
                stream.read += payload.len() as u32;
                answer.extend_from_slice(&payload);
                if let Some(message) = message_of(&answer) {
                    return Ok(message.to_vec());
                }
            } else if of == stream.id && (kind == RST_STREAM || flags & END_STREAM != 0) {
                bail!("the server ended a call that was to go on");
            }
        }
    }

    fn headers(&self, path: &str) -> Vec<u8> {
        // `:method: POST` and `:scheme: http` are entries of the static table.
        let mut block = vec![0x83, 0x86];
        let mut literal = |name: &str, value: &str| {
            block.push(0);
            for text in [name, value] {
                block.push(text.len() as u8);
                block.extend_from_slice(text.as_bytes());
            }
        };
        literal(":path", path);
        literal(":authority", &self.authority);
        literal("content-type", "application/grpc");
        literal("te", "trailers");
        block
    }

    /// The next frame that isn't about the connection itself.
    fn next(&mut self) -> anyhow::Result<Frame> {
        loop {
            let mut head = [0; 9];
            self.reader.read_exact(&mut head).context("read from the server")?;
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let mut payload = vec![0; length];
            self.reader.read_exact(&mut payload).context("read from the server")?;
            let (kind, flags) = (head[3], head[4]);
            let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut reply = Vec::new();
            if kind == DATA {
                self.read += length as u32;
                open_window(&mut reply, 0, &mut self.read);
            }
            match kind {
                SETTINGS if flags & ACK == 0 => frame(&mut reply, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(&mut reply, PING, ACK, 0, &payload),
                GOAWAY => bail!("the server closes the connection"),
                _ => {}
            }
            if !reply.is_empty() {
                self.writer.write_all(&reply)?;
            }
            if !matches!(kind, SETTINGS | PING | WINDOW_UPDATE) {
                return Ok(Frame { kind, flags, of, payload });
            }
        }
    }
}

struct Frame {
    kind: u8,
    flags: u8,
    of: u32,
    payload: Vec<u8>,
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}

/// Lets a stream, or the connection (0), send again as much as was read of it, once that is worth a frame.
fn open_window(bytes: &mut Vec<u8>, stream: u32, read: &mut u32) {
    if *read >= READ_UNTIL_UPDATE {
        frame(bytes, WINDOW_UPDATE, 0, stream, &std::mem::take(read).to_be_bytes());
    }
}

/// A message as gRPC frames it: not compressed, then its length.
fn prefixed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// The message in `bytes`, once it is whole.
fn message_of(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    rest.get(..length)
}
