//! The first process of the machine in which a subject is run, and what it agrees on with its host.
//!
//! The binary is process 1 of a small machine without network, disk or host input: it finds a [`Request`] in a piece of
//! memory that it shares with the host, runs the tasks in it one after the other, plays the client's side of each
//! conversation itself, and leaves its [`Frame`]s in the same memory before it turns the machine off.
//!
//! The library is what both sides share: the shape of requests and replies, the client's side of a conversation, and the
//! programs behind the controls. But for what those programs do it never does any I/O.
//!
//! # Examples
//!
//! ```
//! use tidegate_guest::{Frame, Kind};
//!
//! let frames = [Frame { kind: Kind::Output, task: 0, at_ns: 7, bytes: b"hello\n".to_vec() }];
//! assert_eq!(Frame::read_all(&Frame::write_all(&frames)), Some(frames.to_vec()));
//! ```

mod conversation;
mod programs;
mod wire;

pub use conversation::{Conversation, Step};
pub use programs::{Program, SEED_VARIABLE};
pub use wire::{
    BLOCK, EXCHANGE_BYTES, Frame, Kind, PAUSE, PAUSE_VARIABLE, Place, REQUEST_BYTES, Request, Status, Task,
    read_request, read_status, request_block, request_extent, request_length, status_header,
};
