//! A daemon of one's own that reloads itself in a lull: sessions on threads, one drain that is refused because a write
//! is stuck, and one that succeeds.
//!
//! Run with `cargo run -p tidegate-drain --example lull`.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::future::poll_fn;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;
use tidegate_core::{BoxFuture, Clock, Timer, WorkClass};
use tidegate_drain::{Begin, Drained, Drains, Gate, Holder, WorkInfo};
use tidegate_host::SystemClock;
use tidegate_store::MemoryStore;

fn main() -> anyhow::Result<()> {
    let clock = Arc::new(SystemClock::new()?);
    let gate = Gate::new("notes".parse()?, 16);
    // A `FileStore` in its place keeps the drain through a crash; `Drains::recover` then says what to do.
    let store = Arc::new(MemoryStore::new());
    let drains = Drains::new(store, clock.clone(), Arc::new(ThreadTimer(clock.clone())), [gate.clone()]);
    let begin = |id: &str| -> anyhow::Result<Begin> {
        Ok(Begin {
            id: id.parse()?,
            operation: None,
            scope: vec!["notes".parse()?],
            requested_by: "ops".parse()?,
            deadline: Duration::from_millis(300),
        })
    };
    let write = Arc::new(WorkInfo {
        session: "local/s1".parse()?,
        component: "notes".parse()?,
        tool: "append".into(),
        class: WorkClass::Mutating,
    });
    let waiting = |holders: &[Holder]| holders.iter().for_each(|holder| println!("  waits for {holder}"));

    std::thread::scope(|scope| {
        let (unstick, stuck) = mpsc::channel::<()>();
        let permit = gate.admit(&write, &clock.now())?;
        scope.spawn(move || {
            // Ends when it is told, or when nobody is left to tell it.
            let _ = stuck.recv();
            permit.finish();
        });

        println!("d1:");
        match pollster::block_on(drains.drain(&begin("d1")?, waiting))? {
            Drained::Refused(record) => println!("  refused by {} holders, open again", record.holder_count),
            other => anyhow::bail!("the write is stuck, yet: {other:?}"),
        }
        drop(unstick);

        println!("d2:");
        let Drained::Drained { record, .. } = pollster::block_on(drains.drain(&begin("d2")?, waiting))?
        else {
            anyhow::bail!("nothing is stuck any more");
        };
        println!(
            "  drained; a new call gets: {}",
            gate.admit(&write, &clock.now()).err().map_or_else(String::new, |r| r.to_string())
        );
        // The lull: reload here.
        pollster::block_on(drains.reopen(&record, "reloaded"))?;
        gate.admit(&write, &clock.now())?.finish();
        println!("  reloaded, and open");
        Ok(())
    })
}

/// Waits on a thread of its own. A program with a runtime uses the runtime's timer.
struct ThreadTimer(Arc<SystemClock>);

impl Timer for ThreadTimer {
    fn sleep_until(&self, boot_ms: u64) -> BoxFuture<'static, ()> {
        let clock = self.0.clone();
        let mut alarm_set = false;
        Box::pin(poll_fn(move |context| {
            let left = boot_ms.saturating_sub(clock.now().boot_ms);
            if left == 0 {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut alarm_set, true) {
                let (waker, clock) = (context.waker().clone(), clock.clone());
                std::thread::spawn(move || {
                    while let left @ 1.. = boot_ms.saturating_sub(clock.now().boot_ms) {
                        std::thread::park_timeout(Duration::from_millis(left));
                    }
                    waker.wake();
                });
            }
            Poll::Pending
        }))
    }
}
