//! The keeper: a small process beside each server that holds its pipes when the daemon dies.
//!
//! While the daemon lives it does nothing but wait for the daemon's end, or the server's. When the daemon dies first, the
//! server neither sees the end of its input nor a closed output as long as an unsafe call may be running in it: the keeper
//! reads on and writes late answers to the state directory ([`Estate`]), where the next daemon finds them. Which calls are
//! running it knows from the [`CallTable`], which the daemon writes before and after each of them.
//!
//! A keeper never starts, stops or signals anything, and passes no descriptor on. It ends when nothing unsafe can be
//! running any more, and with that the server sees the end of its input.

mod child;
mod estate;
mod process;
mod table;

pub(crate) use child::{Duplicates, Keeper};
pub(crate) use estate::{Estate, KeptCall};
pub(crate) use process::keep_main;
pub(crate) use table::CallTable;

use std::path::{Path, PathBuf};

/// The directory of the state directory in which calls and late answers are kept.
const KEPT_DIR: &str = "kept";

/// Where things of one server are kept, known by its nonce.
#[derive(Debug, Clone)]
struct Kept {
    calls: PathBuf,
    answers: PathBuf,
}

impl Kept {
    fn of(dir: &Path, nonce: &str) -> Self {
        let file = |kind: &str| dir.join(format!("{nonce}.{kind}"));
        Self { calls: file("calls"), answers: file("answers") }
    }
}
