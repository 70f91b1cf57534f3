//! Several real processes on one store, some of which die. A test starts itself again in another role.

use crate::support::{Place, block_on, everything, key, put};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use tidegate_store::{Decision, FileStore, OpenOptions, Scope, Store, StoreError, Txn, transact};

const ROLE: &str = "TIDEGATE_STORE_TEST_ROLE";
const DIR: &str = "TIDEGATE_STORE_TEST_DIR";

/// The store's directory, when this process was started to play `role`.
pub(crate) fn role(role: &str) -> Option<PathBuf> {
    (std::env::var_os(ROLE).as_deref() == Some(OsStr::new(role)))
        .then(|| std::env::var_os(DIR).map(PathBuf::from))
        .flatten()
}

/// This test binary, running one test in another role. It says what it has done in lines that begin with `ack`.
pub(crate) struct Child {
    process: std::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(test: &str, role: &str, dir: &Path) -> Self {
        let program = Command::new(std::env::current_exe().unwrap());
        Self::start_as(program, test, role, dir, Stdio::null())
    }

    /// As [`Child::start`], behind a command that runs a program in its own way.
    pub(crate) fn start_under(mut command: Command, test: &str, role: &str, dir: &Path) -> Self {
        command.arg(std::env::current_exe().unwrap());
        Self::start_as(command, test, role, dir, Stdio::inherit())
    }

    fn start_as(mut command: Command, test: &str, role: &str, dir: &Path, stderr: Stdio) -> Self {
        let mut process = command
            .args([test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it did next, or `None` when it has ended.
    pub(crate) fn next_ack(&mut self) -> Option<String> {
        // The first one follows the test's name on its line.
        self.lines.find_map(|line| Some(line.ok()?.split_once("ack ")?.1.to_owned()))
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        self.process.stdin.take();
    }

    pub(crate) fn ends_well(mut self) {
        self.close_stdin();
        while self.next_ack().is_some() {}
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Whatever a failing test has left.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn four_processes_lose_no_increment() {
    if let Some(dir) = role("increment") {
        let store = FileStore::open(&dir, OpenOptions::new().create(true)).unwrap().0;
        let (n, own) = (key("n"), key(&format!("by/{}", std::process::id())));
        let scope = Scope::new().key(&n).key(&own);
        for _ in 0..25 {
            let once = || {
                block_on(transact(&store, &scope, |view| {
                    let (count, mine) =
                        (view.read::<u64>(&n)?.unwrap_or(0), view.read::<u64>(&own)?.unwrap_or(0));
                    let txn = Txn::new().put(view, &n, &(count + 1)).put(view, &own, &(mine + 1));
                    Ok::<_, StoreError>(Decision::<_>::write(txn, ()))
                }))
            };
            while let Err(error) = once() {
                assert!(matches!(error, StoreError::Contended { .. }), "{error}");
            }
        }
        return;
    }
    let place = Place::new();
    let test = "processes::four_processes_lose_no_increment";
    let children: Vec<_> = (0..4).map(|_| Child::start(test, "increment", place.path())).collect();
    children.into_iter().for_each(Child::ends_well);
    let (_, revision, records) = everything(&place.open());
    assert_eq!(revision.0, 100);
    let values: Vec<&str> = records.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["25", "25", "25", "25", "100"]);
}

/// How often a writer is killed, unless [`KILLS_ENV`] says otherwise: the full run does it a thousand times.
const KILLS: usize = 100;
const KILLS_ENV: &str = "TIDEGATE_KILLS";

/// How many write at a time.
const WRITERS: usize = 4;

/// After so many commits a writer compacts, so that it is killed in the middle of that too.
const COMPACT_EVERY: usize = 8;

#[test]
fn what_was_acknowledged_survives_kill_9_and_nothing_is_half_there() {
    if let Some(dir) = role("write") {
        let commit_on_caller = std::process::id().is_multiple_of(2);
        let options = OpenOptions::new().commit_on_caller(commit_on_caller);
        let store = FileStore::open(&dir, options).unwrap().0;
        for n in 0.. {
            let name = format!("{}/{n}", std::process::id());
            let txn = put(&format!("left/{name}"), &name).and(put(&format!("right/{name}"), &name));
            block_on(store.commit(txn)).unwrap();
            println!("ack {name}");
            if n % COMPACT_EVERY == 3 {
                block_on(store.compact()).unwrap();
            }
        }
    }
    let kills = std::env::var(KILLS_ENV).map_or(KILLS, |kills| kills.parse().unwrap());
    let place = Place::new();
    let store = place.open();
    let start = || Child::start("processes::what_was_acknowledged_survives", "write", place.path());
    let mut writers: Vec<Child> = (0..WRITERS).map(|_| start()).collect();
    let mut acknowledged = Vec::new();
    for round in 0..kills {
        // Whatever the others are doing now, and this one is about to: the next commit, its sync, a compaction.
        let writer = &mut writers[round % WRITERS];
        acknowledged.extend((0..=round % 7).map_while(|_| writer.next_ack()));
        writer.kill();
        acknowledged.extend(std::iter::from_fn(|| writer.next_ack()));
        *writer = start();
    }
    for writer in &mut writers {
        writer.kill();
        acknowledged.extend(std::iter::from_fn(|| writer.next_ack()));
    }
    assert!(acknowledged.len() > kills, "{} acknowledged", acknowledged.len());

    let check = |records: Vec<(String, String)>| {
        let side = |side: &str| -> BTreeMap<String, String> {
            let of =
                |(key, value): &(String, String)| Some((key.strip_prefix(side)?.to_owned(), value.clone()));
            records.iter().filter_map(of).collect()
        };
        let (left, right) = (side("left/"), side("right/"));
        assert_eq!(left, right, "a transaction is whole");
        assert!(left.iter().all(|(name, value)| name == value));
        for name in &acknowledged {
            assert!(left.contains_key(name), "{name} was acknowledged");
        }
    };
    check(everything(&store).2);
    drop(store);
    check(everything(&place.open()).2);
    tidegate_store::check(place.path()).unwrap();
}

#[test]
fn a_watcher_hears_of_another_process() {
    if let Some(dir) = role("put") {
        let store = FileStore::open(&dir, OpenOptions::new()).unwrap().0;
        block_on(store.commit(put("w/a", "1"))).unwrap();
        return;
    }
    let place = Place::new();
    let store = place.open();
    let mut watch = store.watch("w/", tidegate_core::Revision(0));
    let child = Child::start("processes::a_watcher_hears", "put", place.path());
    assert_eq!(block_on(watch.next()).unwrap()[0].key, key("w/a"));
    child.ends_well();
}
