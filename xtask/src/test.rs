//! `cargo xtask test`: set up what the tests need, run all of them, and the examples in the documentation.

use crate::board::{Board, Step};
use crate::nextest::{self, Slice};
use crate::workspace::Workspace;
use crate::{check, setup};

/// Runs every test, or those that `selection` (arguments of `cargo nextest run`) picks.
pub(crate) fn run(board: &mut Board, workspace: &Workspace, selection: &[String]) {
    if !setup::run(board, workspace) {
        return;
    }
    let again = format!("cargo nextest run --workspace {}", selection.join(" "));
    board.step(&Step::new("tests", 900, again.trim_end()), |timer| {
        nextest::run(workspace, timer, "default", Slice::WHOLE, selection, &[])?;
        Ok(String::new())
    });
    if selection.is_empty() {
        check::doctests(board, workspace);
    }
}
