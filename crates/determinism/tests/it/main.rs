//! The check from outside: real processes, known truths, and records that hold to their schema.

#![allow(clippy::unwrap_used, reason = "a test whose setting can't be made fails")]

mod command_line;
mod executors;
mod full_disk;
mod image;
mod known_truths;
mod left_behind;
mod machine;
mod machine_record;
mod no_result;
mod record;
mod support;
