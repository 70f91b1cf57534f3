//! `cargo xtask suite`: the ten bullets alone, against the simulator and against real processes.

use crate::board::{Board, Step};
use crate::nextest::{self, Slice};
use crate::report::model::{Level, Listed, Pending};
use crate::setup;
use crate::workspace::Workspace;

/// The tests that have to leave evidence. The one place where xtask meets the suite's manifest.
pub(crate) fn manifest() -> Vec<Listed> {
    let row = |listed: tidegate_suite::Listed| Listed {
        bullet: listed.bullet,
        level: match listed.level {
            tidegate_suite::Level::Simulated => Level::Simulated,
            tidegate_suite::Level::Process => Level::Process,
            tidegate_suite::Level::External => Level::External,
        },
        test: listed.test.to_owned(),
        pending: listed
            .pending
            .map(|why| Pending { reason: why.reason.to_owned(), issue: why.issue.to_owned() }),
    };
    tidegate_suite::manifest().into_iter().map(row).collect()
}

/// Runs the suite's tests; they leave their evidence where the report looks for it.
pub(crate) fn run(board: &mut Board, workspace: &Workspace) {
    if !setup::run(board, workspace) {
        return;
    }
    board.step(&Step::new("suite", 600, "cargo xtask suite"), |timer| {
        let selection = ["-E".to_owned(), "package(tidegate-suite)".to_owned()];
        nextest::run(workspace, timer, "default", Slice::WHOLE, &selection, &[])?;
        Ok(String::new())
    });
}
