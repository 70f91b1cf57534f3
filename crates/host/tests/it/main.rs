//! The host, asked about real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod clock;
mod identity;
mod pidfd;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a condition may take to come true on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a condition.
const GLANCE: Duration = Duration::from_millis(2);

/// Waits for a condition; the test fails when it doesn't come true.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / GLANCE.as_millis() {
        if condition() {
            return;
        }
        std::thread::park_timeout(GLANCE);
    }
    panic!("never came true: {what}");
}

/// A child that lives until its input closes or it is killed.
fn waiting_child(nonce: &str) -> Child {
    Command::new("cat")
        .env("TIDEGATE_NONCE", nonce)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("cat is there")
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
