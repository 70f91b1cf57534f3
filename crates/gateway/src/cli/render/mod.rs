//! How documents read for people: one file per kind of thing. Plain functions of a document and the time it is read at; what
//! a script relies on is the document itself.

mod incident;
mod lease;
mod operation;
mod session;
mod status;
#[cfg(test)]
mod tests;
mod text;
mod tone;

pub(super) use incident::{incident, incidents};
pub(super) use lease::{lease, leases};
pub(super) use operation::{operation, operations, progress, reload};
pub(super) use session::{checkpoints, resume, sessions};
pub(super) use status::status;
pub(super) use text::{cell, each, fields};
pub(super) use tone::{Tone, painted, plain, toned};

use serde_json::Value;
use tidegate_core::WallTime;

/// How a document is shown to people who read it at that time.
pub(super) type Render = fn(&Value, WallTime) -> String;
