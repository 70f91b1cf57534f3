//! Counts how often it was run, in a directory: `cargo run -p tidegate-store --example counter -- DIR [TIMES]`.
//!
//! Run it several times at once, or kill it in the middle: no count that it printed is ever lost or given twice.

#![allow(clippy::print_stdout, reason = "printing is what this program does")]

use std::error::Error;
use std::path::Path;
use tidegate_store::{Decision, FileStore, Key, OpenOptions, Scope, Store, StoreError, Txn, View, transact};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: counter DIR [TIMES]")?;
    let times = arguments.next().map_or(Ok(1), |times| times.parse())?;
    let (store, report) = FileStore::open(Path::new(&dir), OpenOptions::new().create(true))?;
    if let Some(torn) = report.torn {
        println!("{torn}");
    }
    pollster::block_on(count(&store, times))
}

async fn count(store: &dyn Store, times: u32) -> Result<(), Box<dyn Error>> {
    let counter = Key::new("counter")?;
    let scope = Scope::new().key(&counter);
    for _ in 0..times {
        let done = transact(store, &scope, |view| one_more(view, &counter)).await?;
        println!("{}", done.reply);
    }
    Ok(())
}

/// The decision: plain data in, plain data out.
fn one_more(view: &View, counter: &Key) -> Result<Decision<u64>, StoreError> {
    let next = view.read::<u64>(counter)?.unwrap_or(0) + 1;
    Ok(Decision::write(Txn::new().put(view, counter, &next), next))
}
