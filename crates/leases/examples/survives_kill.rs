//! A holder is killed with signal 9 in the middle of its work, and the next one goes on at once, safely.
//!
//! `cargo run -p tidegate-leases --example survives_kill` starts a copy of itself that acquires the lease of a ledger,
//! renews it on a thread and writes lines under its fence. Then it kills the copy, takes the lease over on proof of
//! death, without waiting for the ttl, and shows that the ledger refuses whatever would still come from the old fence.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{Clock, Entropy, Fence, SessionId, WorkClass};
use tidegate_host::{OsEntropy, ProcProbe, SystemClock, own_identity};
use tidegate_leases::{Acquire, Acquired, FenceGuard, GuardError, LeaseError, Leases, Owner, Renewer};
use tidegate_store::{FileStore, OpenOptions};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demonstrate(),
        ["hold", directory] => hold(Path::new(directory)),
        _ => bail!("no arguments, please"),
    }
}

/// The holder: acquires, renews on a thread, and writes as long as it is fresh.
fn hold(directory: &Path) -> Result<()> {
    let (leases, clock) = leases(directory)?;
    let acquired = acquire(&leases, "local/first")?;
    let renewer = Renewer::start(leases, &acquired)?;
    for line in 1.. {
        ensure!(renewer.freshness().is_fresh(&clock.now()), "lost the lease: {:?}", renewer.ended());
        write(directory, acquired.fence, &format!("first, line {line}"))?;
        println!("{} {line}", acquired.fence);
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

fn demonstrate() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (leases, _) = leases(directory.path())?;
    let mut first = Command::new(std::env::current_exe()?)
        .arg("hold")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = BufReader::new(first.stdout.take().context("the copy has no output")?);
    let third = said.lines().nth(2).context("the copy ended early")??;
    let old: Fence = third.split(' ').next().unwrap_or_default().parse()?;
    println!("first   holds the ledger under {old} and has written three lines");

    match acquire(&leases, "local/second").map_err(|error| error.downcast::<LeaseError>()) {
        Err(Ok(refused @ LeaseError::Held { .. })) => println!("second  is refused: {refused}"),
        other => bail!("expected the lease to be held, got {other:?}"),
    }
    first.kill()?;
    first.wait()?;
    println!("first   is killed with signal 9");

    let acquired = acquire(&leases, "local/second")?;
    println!("second  has the lease at once, under {}", acquired.fence);
    write(directory.path(), acquired.fence, "second, line 1")?;
    match write(directory.path(), old, "first, from the grave").map_err(|e| e.downcast::<GuardError>()) {
        Err(Ok(refused @ GuardError::Stale { .. })) => println!("ledger  refuses the old fence: {refused}"),
        other => bail!("expected the old fence to be refused, got {other:?}"),
    }
    print!("\n{}", fs::read_to_string(directory.path().join("ledger"))?);
    Ok(())
}

fn leases(directory: &Path) -> Result<(Leases, Arc<SystemClock>)> {
    let (store, _) = FileStore::open(&directory.join("state"), OpenOptions::new().create(true))?;
    let clock = Arc::new(SystemClock::new()?);
    let leases =
        Leases::new(Arc::new(store), clock.clone(), Arc::new(OsEntropy), Arc::new(ProcProbe::new()?));
    Ok((leases, clock))
}

fn acquire(leases: &Leases, session: &str) -> Result<Acquired> {
    let session: SessionId = session.parse()?;
    let nonce = OsEntropy.id("acquire");
    let request = Acquire {
        key: "ledger".parse()?,
        owner: Owner { session, process: Some(own_identity(&nonce)?) },
        class: WorkClass::Mutating,
        ttl: Duration::from_secs(30),
        max_ttl: None,
        nonce,
    };
    Ok(pollster::block_on(leases.acquire(request))?)
}

/// Adds a line to the ledger, inside its guard.
fn write(directory: &Path, fence: Fence, line: &str) -> Result<()> {
    let ledger = directory.join("ledger");
    let _entered = FenceGuard::beside(&ledger).enter(fence)?;
    writeln!(File::options().append(true).create(true).open(&ledger)?, "{fence}  {line}")?;
    Ok(())
}
