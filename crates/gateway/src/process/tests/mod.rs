//! Servers that are small shell scripts, started, spoken to and ended for real.

mod ending;
mod starting;

use super::{LaunchSpec, Server, Spawner};
use crate::lines::Line;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_core::Entropy as _;
use tidegate_host::{OsEntropy, process_table, processes_with_nonce};
use tokio::sync::RwLock;

/// How long a condition may take to come true on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a condition.
const GLANCE: Duration = Duration::from_millis(5);
/// More than any of the servers here needs to end when it wants to.
const GRACE: Duration = Duration::from_secs(10);

/// Held to write by the one test that counts what this process has open, to read by all others.
static MACHINE: RwLock<()> = RwLock::const_new(());

/// The binary of this package: cargo builds it before it runs any test of a package that has integration tests.
fn launcher() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let binary = own.parent().and_then(|deps| deps.parent()).unwrap().join("tidegate");
    assert!(binary.exists(), "{} is missing: run `cargo build -p tidegate` first", binary.display());
    binary
}

fn spawner() -> Spawner {
    Spawner::with_launcher(launcher(), None).unwrap()
}

fn nonce() -> String {
    OsEntropy.id("test")
}

fn shell(script: &str) -> LaunchSpec {
    LaunchSpec { command: ["sh", "-c", script].map(str::to_owned).into(), ..LaunchSpec::default() }
}

async fn start(spawner: &Spawner, script: &str) -> Server {
    spawner.spawn(&shell(script), &nonce()).unwrap().release().await.unwrap()
}

/// The next line, as text.
async fn line(server: &mut Server) -> String {
    match tokio::time::timeout(PATIENCE, server.stdout.next()).await.unwrap().unwrap() {
        Some(Line::Whole(line)) => String::from_utf8(line).unwrap(),
        other => panic!("no line: {other:?}"),
    }
}

async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let mut glances = tokio::time::interval(GLANCE);
    for _ in 0..PATIENCE.as_millis() / GLANCE.as_millis() {
        glances.tick().await;
        if condition() {
            return;
        }
    }
    panic!("never came true: {what}");
}

fn carriers(server: &Server) -> Vec<u32> {
    processes_with_nonce(super::spawn::NONCE_VAR, &server.handle.identity().nonce).unwrap()
}

fn is_running(pid: u32) -> bool {
    process_table().unwrap().get(&pid).is_some_and(|stat| stat.is_running())
}

/// What can be said of a tree without waiting.
pub(super) async fn prove_dead(
    leader: &tidegate_core::ProcessIdentity,
) -> Result<super::TreeState, super::StopError> {
    super::await_old_tree(leader, std::time::Duration::ZERO).await
}
