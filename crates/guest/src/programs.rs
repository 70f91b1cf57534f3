//! The programs behind the controls, each run as a fresh process: `control NAME`, on the host and in the guest.
//!
//! A program that must differ is written so that two processes practically can't agree; none rests on luck.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use sha2::{Digest, Sha256};

/// Where a program finds the seed.
pub const SEED_VARIABLE: &str = "TIDEGATE_SEED";

/// Two processes draw the same bytes once in 2^256.
const RANDOM_BYTES: usize = 32;
/// 256 keys have more orders than a hash seed has values.
const KEYS: u32 = 256;
/// The threads that race.
const THREADS: usize = 8;
/// A race goes on for at least this many turns: with several cores, threads get in each other's way all the time.
const TURNS: u64 = 10_000;
/// And until threads have got in each other's way this often: with one core that takes a preemption each, and how many
/// turns fit in between is chance.
const SWITCHES: usize = 16;
/// Time between reading and writing a counter, long against the rest of a turn.
const SPINS: usize = 50;
/// Switches that are printed one by one; the digest covers all of them.
const PRINTED_SWITCHES: usize = 100;
/// A page of memory: entries of this size lie far apart.
const PAGE_BYTES: usize = 4096;
/// Long enough for the clock to be read thousands of times.
const SPIN: Duration = Duration::from_millis(10);
/// Lines of the pure programs.
const LINES: u64 = 200;

/// A program of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Random bytes of the kernel.
    Urandom,
    /// The time of day in nanoseconds.
    Clock,
    /// The number of the process.
    Pid,
    /// The order of a hash map with a random seed.
    HashOrder,
    /// The order in which eight threads take one lock.
    LockOrder,
    /// Numbers from a fixed rule.
    PureNumbers,
    /// Text on both outputs, and an exit status.
    PureText,
    /// An address on the stack.
    Address,
    /// Names sorted by a hash of where they are in memory.
    AddressOrder,
    /// The order in which eight threads finish reading files.
    ReadOrder,
    /// Text that follows from the seed alone.
    Seed,
    /// Eight threads that count without a lock.
    UnlockedCounter,
    /// Reads the clock a number of times that varies, and says nothing of it.
    ClockSpin,
}

impl Program {
    /// Every one of them.
    pub const ALL: [Self; 13] = [
        Self::Urandom,
        Self::Clock,
        Self::Pid,
        Self::HashOrder,
        Self::LockOrder,
        Self::PureNumbers,
        Self::PureText,
        Self::Address,
        Self::AddressOrder,
        Self::ReadOrder,
        Self::Seed,
        Self::UnlockedCounter,
        Self::ClockSpin,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urandom => "urandom",
            Self::Clock => "clock",
            Self::Pid => "pid",
            Self::HashOrder => "hash-order",
            Self::LockOrder => "lock-order",
            Self::PureNumbers => "pure-numbers",
            Self::PureText => "pure-text",
            Self::Address => "address",
            Self::AddressOrder => "address-order",
            Self::ReadOrder => "read-order",
            Self::Seed => "seed",
            Self::UnlockedCounter => "unlocked-counter",
            Self::ClockSpin => "clock-spin",
        }
    }

    /// The program of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }

    /// Does what the program does.
    ///
    /// # Errors
    ///
    /// When something can't be written, or the machine can't be asked for what the program shows.
    pub fn perform(self, out: &mut dyn Write, errors: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Urandom => urandom(out),
            Self::Clock => clock(out),
            Self::Pid => writeln!(out, "{}", std::process::id()),
            Self::HashOrder => hash_order(out),
            Self::LockOrder => lock_order(out),
            Self::PureNumbers => pure_numbers(out),
            Self::PureText => pure_text(out, errors),
            Self::Address => address(out),
            Self::AddressOrder => address_order(out),
            Self::ReadOrder => read_order(out),
            Self::Seed => seed(out),
            Self::UnlockedCounter => unlocked_counter(out),
            Self::ClockSpin => clock_spin(out),
        }
    }
}

fn urandom(out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = [0; RANDOM_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    writeln!(out, "{}", hex(&bytes))
}

#[expect(clippy::disallowed_methods, reason = "this program is there to differ by the clock")]
fn clock(out: &mut dyn Write) -> io::Result<()> {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    writeln!(out, "{}", since.as_nanos())
}

#[expect(clippy::disallowed_methods, reason = "this program is there to differ by a hash map's order")]
fn hash_order(out: &mut dyn Write) -> io::Result<()> {
    let map: HashMap<u32, ()> = (0..KEYS).map(|key| (key, ())).collect();
    map.keys().try_for_each(|key| writeln!(out, "key {key}"))
}

fn lock_order(out: &mut dyn Write) -> io::Result<()> {
    // Who took the lock, and how often in a row.
    let order = Mutex::new(Vec::<(usize, u64)>::new());
    let turns = AtomicU64::new(0);
    race(|thread| {
        loop {
            let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = turns.fetch_add(1, Ordering::Relaxed);
            if taken >= TURNS && order.len() >= SWITCHES {
                return;
            }
            match order.last_mut() {
                Some((owner, times)) if *owner == thread => *times += 1,
                _ => order.push((thread, 1)),
            }
        }
    });
    let order = order.into_inner().unwrap_or_else(PoisonError::into_inner);
    let lines: Vec<String> =
        order.iter().map(|(thread, times)| format!("thread {thread} took it {times} times")).collect();
    lines.iter().take(PRINTED_SWITCHES).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "all: {}", sha256_hex(lines.join("\n").as_bytes()))
}

/// Starts all threads at once and waits for them.
fn race(body: impl Fn(usize) + Sync) {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, body) = (&start, &body);
            scope.spawn(move || {
                start.wait();
                body(thread);
            });
        }
    });
}

/// The generator of Numerical Recipes: any fixed rule would do.
fn next_number(number: u64) -> u64 {
    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn pure_numbers(out: &mut dyn Write) -> io::Result<()> {
    let numbers = std::iter::successors(Some(1), |number| Some(next_number(*number)));
    numbers.zip(0..LINES).try_for_each(|(number, line)| writeln!(out, "{line} {number}"))
}

fn pure_text(out: &mut dyn Write, errors: &mut dyn Write) -> io::Result<()> {
    for line in 0..LINES {
        writeln!(out, "line {line}")?;
        writeln!(errors, "note {line}")?;
    }
    Ok(())
}

fn address(out: &mut dyn Write) -> io::Result<()> {
    let local = std::hint::black_box(0_u8);
    writeln!(out, "a local variable is at {:p}", &raw const local)
}

/// A table that is keyed by identity, as many are, lists its entries in this order.
fn address_order(out: &mut dyn Write) -> io::Result<()> {
    let entries: Vec<Box<[u8; PAGE_BYTES]>> = (0..KEYS).map(|_| Box::new([0; PAGE_BYTES])).collect();
    let mut order: Vec<(u64, usize)> = entries
        .iter()
        .enumerate()
        .map(|(name, entry)| (mixed((&raw const **entry).addr() as u64), name))
        .collect();
    order.sort_unstable();
    order.iter().try_for_each(|(_, name)| writeln!(out, "entry {name}"))
}

/// Every bit of the number moves every bit of the result (the last steps of MurmurHash3).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

/// What callbacks of reads see: whoever has read first is called first.
fn read_order(out: &mut dyn Write) -> io::Result<()> {
    let finished = Mutex::new(Vec::<u64>::new());
    let (next, overtaken) = (AtomicU64::new(0), AtomicUsize::new(0));
    race(|_| {
        loop {
            let taken = next.fetch_add(1, Ordering::Relaxed);
            if taken >= TURNS / 10 && overtaken.load(Ordering::Relaxed) >= SWITCHES {
                return;
            }
            // A file that is there wherever programs run, of a length that varies with nothing.
            let read = std::fs::read("/proc/self/comm").map_or(0, |bytes| bytes.len());
            std::hint::black_box(read);
            let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
            if finished.last().is_some_and(|last| *last > taken) {
                overtaken.fetch_add(1, Ordering::Relaxed);
            }
            finished.push(taken);
        }
    });
    let finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    let lines: Vec<String> = finished.iter().map(|read| format!("read {read}")).collect();
    lines.iter().take(PRINTED_SWITCHES).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "all: {}", sha256_hex(lines.join("\n").as_bytes()))
}

fn seed(out: &mut dyn Write) -> io::Result<()> {
    let seed = std::env::var(SEED_VARIABLE).unwrap_or_default();
    writeln!(out, "{}", sha256_hex(seed.as_bytes()))
}

fn unlocked_counter(out: &mut dyn Write) -> io::Result<()> {
    let (counter, turns, losses) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    race(|_| {
        while turns.fetch_add(1, Ordering::Relaxed) < TURNS || losses.load(Ordering::Relaxed) < SWITCHES {
            let counted = counter.load(Ordering::Relaxed);
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            // Whatever another thread counted in between is lost.
            if counter.swap(counted + 1, Ordering::Relaxed) != counted {
                losses.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    writeln!(out, "counted to {}", counter.into_inner())?;
    writeln!(out, "in {} turns", turns.into_inner())
}

#[expect(clippy::disallowed_methods, reason = "this program is there to look at the clock")]
fn clock_spin(out: &mut dyn Write) -> io::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < SPIN {}
    writeln!(out, "done")
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
