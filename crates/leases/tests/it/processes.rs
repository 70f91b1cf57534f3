//! Real processes over a real store: holders that are killed, pids that are reused, renewers that outlive their owners.

use crate::kernel;
use crate::world::{World, event, key, session};
use pollster::block_on;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{BootId, Fence, ProcessIdentity, WorkClass};
use tidegate_host::{OsEntropy, ProcProbe, SystemClock, identity_of, own_identity};
use tidegate_leases::{Acquire, By, FenceGuard, Granted, Kept, LeaseError, Leases, Owner, Release, Renewer};
use tidegate_store::{FileStore, OpenOptions};

/// Longer than anything here takes; nothing waits for it unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Set for a copy of this test binary that plays a holder: what to do, and where.
const ROLE: &str = "TIDEGATE_LEASES_TEST_ROLE";
const STATE: &str = "TIDEGATE_LEASES_TEST_STATE";

pub(crate) fn leases(dir: &Path) -> Leases {
    let (store, _) = FileStore::open(dir, OpenOptions::new().create(true)).unwrap();
    Leases::new(
        Arc::new(store),
        Arc::new(SystemClock::new().unwrap()),
        Arc::new(OsEntropy),
        Arc::new(ProcProbe::new().unwrap()),
    )
}

pub(crate) fn request(name: &str, process: ProcessIdentity, class: WorkClass) -> Acquire {
    let nonce = format!("{name}-{}", process.nonce);
    Acquire {
        key: key("repo/main"),
        owner: Owner { session: session(name), process: Some(process) },
        class,
        ttl: Duration::from_secs(600),
        max_ttl: None,
        nonce,
    }
}

pub(crate) fn mine(name: &str, class: WorkClass) -> Acquire {
    request(name, own_identity("mine").unwrap(), class)
}

/// Asks again and again until the answer is yes.
#[track_caller]
pub(crate) fn eventually(what: &str, mut yes: impl FnMut() -> bool) {
    for _ in 0..LIMIT.as_millis() / PAUSE.as_millis() {
        if yes() {
            return;
        }
        std::thread::park_timeout(PAUSE);
    }
    panic!("not within {LIMIT:?}: {what}");
}

/// A copy of this test binary in a role. Killed when dropped.
pub(crate) struct Copy {
    pub(crate) child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Copy {
    pub(crate) fn start(role: &str, state: &Path) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), role, state)
    }

    /// As [`Copy::start`], behind a command that runs a program in its own way.
    pub(crate) fn start_under(mut command: Command, role: &str, state: &Path) -> Self {
        command.arg(std::env::current_exe().unwrap());
        Self::spawn(command, role, state)
    }

    fn spawn(mut command: Command, role: &str, state: &Path) -> Self {
        let mut child = command
            .args(["processes::a_copy_plays_its_role", "--exact", "--nocapture"])
            .envs([(ROLE, role.as_ref()), (STATE, state.as_os_str())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// Waits for the line that begins with `word`; returns the rest.
    pub(crate) fn says(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            // The test harness doesn't end its own line before a test prints.
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the copy ended without saying {word:?}");
    }

    pub(crate) fn kill_9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Without a role, shows that the roles work: a holder holds until its standard input ends, and gives back.
#[test]
fn a_copy_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        let state = tempfile::tempdir().unwrap();
        let mut holder = Copy::start("hold mutating", state.path());
        let fence = holder.says("held ");
        drop(holder.child.stdin.take());
        assert_eq!(holder.says("released "), fence);
        assert!(holder.child.wait().unwrap().success());
        return;
    };
    let state = PathBuf::from(std::env::var_os(STATE).unwrap());
    match role.split_once(' ').unwrap() {
        ("hold", class) => hold(&state, class.parse().unwrap()),
        ("contend", name) => contend(&state, name),
        (role, of) => kernel::play(role, of, &state),
    }
}

fn hold(state: &Path, class: WorkClass) {
    let leases = leases(state);
    let acquired = block_on(leases.acquire(mine("holder", class))).unwrap();
    let renewer = Renewer::start(leases.clone(), &acquired).unwrap();
    say(&format!("held {}", acquired.fence));
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(renewer);
    let by = By::Holder(acquired.owner.session.clone());
    block_on(leases.release(&Release { key: acquired.key, by, fence: acquired.fence })).unwrap();
    say(&format!("released {}", acquired.fence));
}

/// Tells the test that started this copy.
#[allow(clippy::print_stdout, reason = "the copy's standard output is the test's pipe")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

const ROUNDS: usize = 8;

/// Takes the lease a few times, and each time adds its fence to the ledger under the ledger's guard.
fn contend(state: &Path, name: &str) {
    let leases = leases(state);
    let ledger = state.join("ledger");
    for round in 0..ROUNDS {
        let mut acquired = None;
        eventually("the others let go", || {
            let request = Acquire { nonce: format!("{name}-{round}"), ..mine(name, WorkClass::Mutating) };
            match block_on(leases.acquire(request)) {
                Ok(got) => acquired = Some(got),
                Err(LeaseError::Held { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            acquired.is_some()
        });
        let acquired = acquired.unwrap();
        let entered = FenceGuard::beside(&ledger).enter(acquired.fence).unwrap();
        writeln!(File::options().append(true).create(true).open(&ledger).unwrap(), "{}", acquired.fence)
            .unwrap();
        drop(entered);
        let by = By::Holder(acquired.owner.session);
        block_on(leases.release(&Release { key: acquired.key, by, fence: acquired.fence })).unwrap();
    }
}

#[test]
fn a_lease_of_a_holder_killed_by_signal_9_is_taken_at_once_and_on_the_record() {
    for class in [WorkClass::ReadOnly, WorkClass::Mutating] {
        let state = tempfile::tempdir().unwrap();
        let leases = leases(state.path());
        let mut holder = Copy::start(&format!("hold {class}"), state.path());
        let former: Fence = holder.says("held ").parse().unwrap();
        let refused = block_on(leases.acquire(mine("s2", class))).unwrap_err();
        assert!(matches!(refused, LeaseError::Held { fence, .. } if fence == former), "{refused}");
        holder.kill_9();
        let acquired = block_on(leases.acquire(mine("s2", class))).unwrap();
        assert!(matches!(&acquired.how, Granted::HolderDead { from } if from.session == session("holder")));
        assert!(acquired.fence > former);
        let lease = block_on(leases.get(&acquired.key)).unwrap().unwrap();
        let history: Vec<_> = lease.history.iter().map(event).collect();
        let lost = format!("holder expired {former}: its holder is proved dead");
        assert_eq!(history, ["holder granted", lost.as_str(), "s2 granted"]);
    }
}

#[test]
fn a_pid_that_belongs_to_another_process_by_now_is_never_mistaken_for_the_holder() {
    let state = tempfile::tempdir().unwrap();
    let leases = leases(state.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let mut holder = Copy::start("hold read-only", elsewhere.path());
    holder.says("held ");
    let (other, me) = (identity_of(holder.child.id(), "n").unwrap(), own_identity("n").unwrap());
    let earlier = |p: &ProcessIdentity| ProcessIdentity { start_ticks: p.start_ticks - 1, ..p.clone() };
    let last_boot = |p: &ProcessIdentity| ProcessIdentity { boot: BootId(p.boot.0 ^ 1), ..p.clone() };
    for (recorded, alive) in [
        (other.clone(), true),
        (me.clone(), true),
        (earlier(&other), false),
        (earlier(&me), false),
        (last_boot(&other), false),
        (last_boot(&me), false),
    ] {
        let first = block_on(leases.acquire(request("s1", recorded.clone(), WorkClass::Mutating))).unwrap();
        let second = block_on(leases.acquire(mine("s2", WorkClass::Mutating)));
        let last = match second {
            Ok(taken) => {
                assert!(!alive, "{recorded:?} was taken for dead");
                Release { key: taken.key, by: By::Holder(session("s2")), fence: taken.fence }
            }
            Err(LeaseError::Held { kept: Kept::Unproved, .. }) => {
                assert!(alive, "{recorded:?} was taken for the holder");
                Release { key: first.key, by: By::Holder(session("s1")), fence: first.fence }
            }
            Err(error) => panic!("{error}"),
        };
        block_on(leases.release(&last)).unwrap();
    }
}

#[test]
fn a_renewer_stops_with_its_owner_and_the_lease_is_free() {
    let state = tempfile::tempdir().unwrap();
    let leases = leases(state.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let mut owner = Copy::start("hold read-only", elsewhere.path());
    owner.says("held ");
    let process = identity_of(owner.child.id(), "owner").unwrap();
    let acquired = block_on(leases.acquire(request("s1", process, WorkClass::Mutating))).unwrap();
    let renewer = Renewer::start(leases.clone(), &acquired).unwrap();
    assert_eq!(renewer.ended(), None);
    owner.kill_9();
    assert_eq!(renewer.wait_ended(LIMIT), Some(LeaseError::OwnerGone { key: key("repo/main") }));
    assert!(!renewer.freshness().is_fresh(&acquired.sent));
    assert!(block_on(leases.acquire(mine("s2", WorkClass::Mutating))).is_ok());
}

#[test]
fn processes_that_contend_write_one_after_the_other_under_fences_that_only_grow() {
    let state = tempfile::tempdir().unwrap();
    let mut contenders: Vec<_> =
        ["a", "b", "c"].map(|name| Copy::start(&format!("contend {name}"), state.path())).into();
    for contender in &mut contenders {
        contender.said.read_to_end(&mut Vec::new()).unwrap();
        assert!(contender.child.wait().unwrap().success());
    }
    let ledger = fs::read_to_string(state.path().join("ledger")).unwrap();
    let fences: Vec<Fence> = ledger.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(fences.len(), contenders.len() * ROUNDS);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
}

#[test]
fn a_renewer_keeps_a_lease_for_as_long_as_it_runs() {
    let world = World::new();
    let s1 = world.client("s1");
    let acquired = world.acquire(&s1, WorkClass::ReadOnly).unwrap();
    let renewer = Renewer::start(world.leases.clone(), &acquired).unwrap();
    for second in (11..=41).step_by(10) {
        world.clock.advance_to(second * 1_000);
        eventually("the lease is renewed", || renewer.freshness().is_fresh(&later(&world, 26)));
    }
    assert!(world.acquire(&world.client("s2"), WorkClass::ReadOnly).is_err());
    drop(renewer);
    world.wait(31);
    assert!(world.acquire(&world.client("s2"), WorkClass::ReadOnly).is_ok());
}

#[test]
fn a_renewer_believes_in_nothing_after_the_end_of_the_max_ttl() {
    let world = World::new();
    let mut request = world.request(&world.client("s1"), WorkClass::ReadOnly);
    request.max_ttl = Some(Duration::from_secs(40));
    let acquired = block_on(world.leases.acquire(request)).unwrap();
    let renewer = Renewer::start(world.leases.clone(), &acquired).unwrap();
    for (second, until) in [(11, 36), (22, 38)] {
        world.clock.advance_to(second * 1_000);
        let still = || renewer.freshness().is_fresh(&later(&world, until - second));
        eventually("the lease is renewed", still);
    }
    assert!(!renewer.freshness().is_fresh(&later(&world, 41 - 22)));
}

#[test]
fn a_renewer_that_hears_that_the_lease_is_lost_stops_and_nothing_is_fresh_any_more() {
    let world = World::new();
    let (s1, s2) = (world.client("s1"), world.client("s2"));
    let acquired = world.acquire(&s1, WorkClass::Mutating).unwrap();
    let renewer = Renewer::start(world.leases.clone(), &acquired).unwrap();
    let current = world.adopt(acquired.fence, &s2).unwrap();
    world.wait(11);
    let stale = LeaseError::Stale { key: key("repo/main"), fence: acquired.fence, current };
    assert_eq!(renewer.wait_ended(LIMIT), Some(stale));
    assert!(!renewer.freshness().is_fresh(&world.now()));
}

fn later(world: &World, seconds: u64) -> tidegate_core::Now {
    let now = world.now();
    tidegate_core::Now { boot_ms: now.boot_ms + seconds * 1_000, ..now }
}
