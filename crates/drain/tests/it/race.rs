//! Admissions, endings and closes on real threads.

use crate::world::work;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use tidegate_core::{BootId, Now, WallTime, WorkClass};
use tidegate_drain::{Gate, Permit, Refusal};

const NOW: Now = Now { boot: BootId(1), boot_ms: 0, wall: WallTime(0) };
const THREADS: usize = 4;

#[test]
fn of_ten_thousand_admissions_that_race_with_a_close_each_is_counted_or_refused() {
    const EACH: usize = 2_500;
    let gate = Gate::new("files".parse().unwrap(), THREADS * EACH);
    let write = work("s1", "files", "write", WorkClass::Mutating);
    let start = Barrier::new(THREADS + 1);
    let attempts = AtomicUsize::new(0);
    let (admitted, counted): (Vec<Vec<Permit>>, usize) = std::thread::scope(|scope| {
        let admit = || {
            start.wait();
            let one = |_| {
                attempts.fetch_add(1, Ordering::Relaxed);
                gate.admit(&write, &NOW).ok()
            };
            (0..EACH).filter_map(one).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(admit)).collect();
        start.wait();
        // In the middle of it, however fast this machine is.
        while attempts.load(Ordering::Relaxed) < THREADS * EACH / 4 {
            std::hint::spin_loop();
        }
        let counted = gate.close("d1".parse().unwrap()).unwrap();
        (threads.into_iter().map(|thread| thread.join().unwrap()).collect(), counted)
    });
    assert_eq!(attempts.into_inner(), THREADS * EACH);
    let inside: usize = admitted.iter().map(Vec::len).sum();
    assert_eq!(inside, counted, "every admission is inside the drain's count or refused");
    assert!(counted >= THREADS, "nothing was admitted before the close");
    assert_eq!(gate.holders(&NOW).len(), counted, "everything counted has a name");
    admitted.into_iter().flatten().for_each(Permit::finish);
    assert_eq!((gate.in_flight(), gate.holders(&NOW)), (0, vec![]));
}

#[test]
fn nothing_is_admitted_while_a_gate_is_closed_however_often_it_opens_and_closes() {
    let gate = Gate::new("files".parse().unwrap(), 8);
    let read = work("s1", "files", "read", WorkClass::ReadOnly);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    match gate.admit(&read, &NOW) {
                        Ok(permit) => permit.finish(),
                        Err(Refusal::Closed { drain, .. }) => assert_eq!(drain.as_str(), "d1"),
                        Err(refusal) => panic!("{refusal}"),
                    }
                }
            });
        }
        let drain = "d1".parse().unwrap();
        for _ in 0..200 {
            gate.close("d1".parse().unwrap()).unwrap();
            while gate.in_flight() > 0 {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                assert_eq!(gate.in_flight(), 0, "something came in through a closed gate");
            }
            gate.reopen(&drain).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn permits_ended_on_other_threads_free_exactly_their_own_room() {
    const CAPACITY: usize = 32;
    let gate = Gate::new("files".parse().unwrap(), CAPACITY);
    let write = work("s1", "files", "write", WorkClass::Mutating);
    let most = AtomicUsize::new(0);
    let pool: Mutex<Vec<Permit>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for turn in 0..2_000 {
                    if let Ok(permit) = gate.admit(&write, &NOW) {
                        most.fetch_max(gate.in_flight(), Ordering::Relaxed);
                        pool.lock().unwrap().push(permit);
                    }
                    if turn % 3 > 0
                        && let Some(permit) = pool.lock().unwrap().pop()
                    {
                        permit.finish();
                    }
                }
            });
        }
    });
    assert!(most.into_inner() <= CAPACITY);
    let left = pool.into_inner().unwrap();
    assert_eq!((left.len(), gate.holders(&NOW).len()), (gate.in_flight(), gate.in_flight()));
    left.into_iter().for_each(Permit::finish);
    let full: Vec<Permit> = (0..CAPACITY).map(|_| gate.admit(&write, &NOW).unwrap()).collect();
    assert_eq!(
        gate.admit(&write, &NOW).unwrap_err().to_string(),
        "files has 32 calls in flight and takes no more: wait for one of them to end"
    );
    full.into_iter().for_each(Permit::finish);
}
