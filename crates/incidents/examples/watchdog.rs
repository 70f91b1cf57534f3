//! A watchdog of one's own with durable incidents: five watchers see one failure, an operator deals with it, and it
//! comes back.
//!
//! Run with `cargo run -p tidegate-incidents --example watchdog`.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use tidegate_host::{OsEntropy, SystemClock};
use tidegate_incidents::{Actor, IncidentKind, Incidents, Report, Severity, render_work_state};
use tidegate_store::MemoryStore;

fn main() -> anyhow::Result<()> {
    // A `FileStore` in its place keeps them through restarts.
    let store = Arc::new(MemoryStore::new());
    let incidents = Incidents::new(store, Arc::new(SystemClock::new()?), Arc::new(OsEntropy));
    let mut failed =
        Report::new(IncidentKind::StartFailed, "search", Severity::Critical, "search does not start")
            .evidence("stderr", "connecting to postgres://app:hunter2@db: refused")
            .evidence("cwd", "/home/alice/search");
    failed.next_prompt =
        Some("Look at the database that search connects to, then start search again.".to_owned());

    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| pollster::block_on(incidents.report(&failed)));
        }
    });
    pollster::block_on(async {
        for incident in incidents.list().await? {
            print!("{}{:#?}\n\n", render_work_state(&incident), incident.evidence);
            let operator = Actor::Operator("ops".parse()?);
            incidents.acknowledge(&incident.id, &operator, "looking").await?;
            let resolved = incidents.resolve(&incident.id, &operator, "the database is back").await?;
            println!("{}", render_work_state(&resolved));
        }
        let again = incidents.report(&failed).await?;
        println!("{} {:?}, count {}", again.id, again.outcome, again.count);
        for entry in incidents.get(&again.id).await?.history {
            println!("  {} {:?} by {} {}", entry.at, entry.step, entry.by, entry.note);
        }
        Ok(())
    })
}
