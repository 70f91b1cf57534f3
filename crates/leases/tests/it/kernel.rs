//! What only a kernel can do to holders and managers: stop them, set their clocks off, give their pids to others.

use crate::processes::{Copy, LIMIT, eventually, leases, mine, request, say};
use crate::world::event;
use pollster::block_on;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tidegate_core::{Clock, Fence, WallTime, WorkClass};
use tidegate_host::{Pidfd, Signal, SystemClock, identity_of, own_identity, stat_of};
use tidegate_leases::{
    Acquire, Acquired, FenceGuard, GRACE, Granted, Kept, LeaseError, Leases, MIN_TTL, Renewer, SWEEP_EVERY,
};
use tidegate_scenario::{in_namespaces, under};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The roles that copies of this test binary play here.
pub(crate) fn play(role: &str, of: &str, state: &Path) {
    match role {
        "work" => work(state, of.parse().unwrap()),
        "ask" => ask(state, of),
        "manage" => manage(state),
        "reuse" => reuse(state),
        _ => panic!("no such role: {role} {of}"),
    }
}

/// faketime keeps a clock's offset in shared memory under its own pid, and one that is killed leaves it there: what belongs to
/// nobody any more is removed.
fn sweep_clocks() {
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = |kind| name.to_str()?.strip_prefix(kind)?.parse::<u32>().ok();
        let pid = of("faketime_shm_").or_else(|| of("sem.faketime_sem_"));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Another test may have been quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn short(name: &str, class: WorkClass) -> Acquire {
    Acquire { ttl: MIN_TTL, ..mine(name, class) }
}

/// Holds a lease with the shortest ttl and renews it; says what it thinks of the time whenever it is asked.
fn work(state: &Path, class: WorkClass) {
    let leases = leases(state);
    let acquired = block_on(leases.acquire(short("worker", class))).unwrap();
    let renewer = Renewer::start(leases, &acquired).unwrap();
    say(&format!("held {}", acquired.fence));
    for _asked in std::io::stdin().lines() {
        let now = SystemClock::new().unwrap().now();
        say(&format!("now {} {}", now.wall.0, renewer.freshness().is_fresh(&now)));
    }
}

/// Asks for the lease once.
fn ask(state: &Path, name: &str) {
    let answer = match block_on(leases(state).acquire(mine(name, WorkClass::ReadOnly))) {
        Ok(acquired) => format!("got {}", acquired.fence),
        Err(LeaseError::Held { by, .. }) => format!("held by {by}"),
        Err(error) => panic!("{error}"),
    };
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    say(&format!("answer {answer}; wall {}; up {uptime}", SystemClock::new().unwrap().now().wall.0));
}

/// Sweeps as a daemon does, and says so.
fn manage(state: &Path) {
    let leases = leases(state);
    for sweep in 0.. {
        let (swept, _) = block_on(leases.sweep()).unwrap();
        say(&format!("swept {sweep} {swept:?}"));
        std::thread::park_timeout(SWEEP_EVERY);
    }
}

fn signal(copy: &Copy, signal: Signal) {
    let pid = copy.child.id();
    Pidfd::open(pid, stat_of(pid).unwrap().start_ticks).unwrap().signal(signal).unwrap();
}

/// Asks a worker for the time, and whether its lease is fresh.
fn asked(worker: &mut Copy) -> (WallTime, bool) {
    worker.child.stdin.as_mut().unwrap().write_all(b"?\n").unwrap();
    let said = worker.says("now ");
    let (wall, fresh) = said.split_once(' ').unwrap();
    (WallTime(wall.parse().unwrap()), fresh == "true")
}

/// Asks for the lease until it is there. Fails where that takes more than a [`LIMIT`].
fn wait_for(leases: &Leases, name: &str, class: WorkClass) -> Acquired {
    let mut acquired = None;
    eventually("the lease is free", || {
        acquired = block_on(leases.acquire(mine(name, class))).ok();
        acquired.is_some()
    });
    acquired.unwrap()
}

#[test]
fn a_holder_stopped_for_longer_than_its_ttl_has_lost_a_lease_that_runs_out_and_writes_nothing_any_more() {
    let state = tempfile::tempdir().unwrap();
    let leases = leases(state.path());
    let mut holder = Copy::start("work read-only", state.path());
    let former: Fence = holder.says("held ").parse().unwrap();
    assert!(asked(&mut holder).1);
    let clock = SystemClock::new().unwrap();
    let stopped = clock.now();
    signal(&holder, Signal::STOP);
    let successor = wait_for(&leases, "s2", WorkClass::ReadOnly);
    // It may have renewed just before it was stopped, and not after.
    assert!(clock.now().since(stopped.boot_ms) >= (MIN_TTL + GRACE - MIN_TTL / 3).as_millis() as u64);
    assert!(successor.fence > former);
    FenceGuard::beside(state.path().join("resource")).enter(successor.fence).map(drop).unwrap();

    signal(&holder, Signal::CONT);
    assert!(!asked(&mut holder).1, "it knows before it does anything");
    let late = FenceGuard::beside(state.path().join("resource")).enter(former).map(drop);
    assert!(late.is_err(), "and the resource knows as well");
    assert_eq!(block_on(leases.get(&successor.key)).unwrap().unwrap().fence, successor.fence);
}

#[test]
fn a_stopped_holder_of_a_mutating_lease_keeps_it() {
    let state = tempfile::tempdir().unwrap();
    let leases = leases(state.path());
    let mut holder = Copy::start("work mutating", state.path());
    let fence: Fence = holder.says("held ").parse().unwrap();
    signal(&holder, Signal::STOP);
    eventually("the ttl and the grace are over", || {
        let refused = block_on(leases.acquire(mine("s2", WorkClass::Mutating))).unwrap_err();
        matches!(refused, LeaseError::Held { fence: held, kept: Kept::Unproved, free_in, .. }
            if held == fence && free_in.is_zero())
    });
    signal(&holder, Signal::CONT);
    eventually("it renews and is fresh again", || asked(&mut holder).1);
}

#[test]
fn a_manager_stopped_for_longer_than_every_ttl_takes_nothing_when_it_comes_back() {
    let state = tempfile::tempdir().unwrap();
    let leases = leases(state.path());
    let mut manager = Copy::start("manage daemon", state.path());
    manager.says("swept 1 ");
    // Nobody renews this one: a holder renews through its daemon.
    let acquired = block_on(leases.acquire(short("s1", WorkClass::ReadOnly))).unwrap();
    signal(&manager, Signal::STOP);
    let (clock, over) = (SystemClock::new().unwrap(), MIN_TTL + GRACE + SWEEP_EVERY);
    eventually("every ttl is over", || clock.now().since(acquired.sent.boot_ms) > over.as_millis() as u64);
    signal(&manager, Signal::CONT);
    manager.says("swept ");
    manager.says("swept ");
    let lease = block_on(leases.get(&acquired.key)).unwrap().unwrap();
    let history: Vec<_> = lease.history.iter().map(event).collect();
    assert_eq!(history, ["s1 granted"], "the grace has only begun");
}

#[test]
fn a_time_namespace_whose_boot_clock_is_a_day_off_ends_no_lease_and_proves_no_death() {
    for offset in ["86400", "-1000"] {
        let kinds = ["--time", "--boottime", offset];
        let Some(elsewhere) = in_namespaces(&kinds) else { return };
        let state = tempfile::tempdir().unwrap();
        let leases = leases(state.path());
        // The other looks at a holder that lives here…
        let acquired = block_on(leases.acquire(mine("s1", WorkClass::ReadOnly))).unwrap();
        let mut other = Copy::start_under(elsewhere, "ask s2", state.path());
        let said = other.says("answer ");
        assert!(said.starts_with("held by local/s1;"), "{offset}: {said}");
        let up = |text: &str| text.split_ascii_whitespace().next().unwrap().parse::<f64>().unwrap();
        let apart = up(said.split_once("up ").unwrap().1) - up(&fs::read_to_string("/proc/uptime").unwrap());
        assert!(
            (apart - offset.parse::<f64>().unwrap()).abs() < 100.0,
            "{offset}: the clocks are {apart} s apart"
        );
        let by = tidegate_leases::By::Holder(acquired.owner.session);
        let release = tidegate_leases::Release { key: acquired.key, by, fence: acquired.fence };
        block_on(leases.release(&release)).unwrap();

        // … and from here at one that lives there.
        let Some(elsewhere) = in_namespaces(&kinds) else { return };
        let mut holder = Copy::start_under(elsewhere, "work read-only", state.path());
        let former: Fence = holder.says("held ").parse().unwrap();
        let refused = block_on(leases.acquire(mine("s1", WorkClass::ReadOnly))).unwrap_err();
        assert!(matches!(refused, LeaseError::Held { fence, .. } if fence == former), "{offset}: {refused}");
        assert!(asked(&mut holder).1);
        holder.kill_9();
        let acquired = block_on(leases.acquire(mine("s1", WorkClass::ReadOnly))).unwrap();
        assert!(matches!(acquired.how, Granted::HolderDead { .. }), "{offset}: {:?}", acquired.how);
    }
}

/// Inside a pid namespace: a holder is killed, and another process gets its pid.
fn reuse(state: &Path) {
    let leases = leases(state);
    let mut holder = Copy::start("hold mutating", state);
    let former: Fence = holder.says("held ").parse().unwrap();
    let recorded = identity_of(holder.child.id(), "n").unwrap();
    holder.kill_9();
    let mut impostor = None;
    eventually("another process has the pid, at another time", || {
        fs::write("/proc/sys/kernel/ns_last_pid", (recorded.pid - 1).to_string()).unwrap();
        let child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (mut child, identity) = (child, own_identity("n").unwrap());
        let now = identity_of(child.id(), "n").unwrap();
        assert_eq!(now.pid_ns, identity.pid_ns);
        if now.pid == recorded.pid && now.start_ticks != recorded.start_ticks {
            impostor = Some(child);
            return true;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        false
    });
    let acquired = block_on(leases.acquire(mine("s2", WorkClass::Mutating))).unwrap();
    assert!(matches!(acquired.how, Granted::HolderDead { .. }) && acquired.fence > former);
    // And the impostor's own lease isn't mistaken for the dead one's.
    let mut impostor = impostor.unwrap();
    let identity = identity_of(impostor.id(), "n").unwrap();
    let refused = block_on(leases.acquire(request("s3", identity, WorkClass::Mutating))).unwrap_err();
    assert!(matches!(refused, LeaseError::Held { fence, .. } if fence == acquired.fence), "{refused}");
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    say("done");
}

#[test]
fn a_pid_that_was_given_to_another_process_in_a_container_is_proof_of_death() {
    let kinds = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let Some(container) = in_namespaces(&kinds) else { return };
    let state = tempfile::tempdir().unwrap();
    let mut inside = Copy::start_under(container, "reuse pid", state.path());
    inside.says("done");
}

#[test]
fn a_wall_clock_that_jumps_under_a_running_holder_ends_nothing_early_and_nothing_late() {
    let state = tempfile::tempdir().unwrap();
    let faked = state.path().join("wall-clock");
    let clock = SystemClock::new().unwrap();
    fs::write(&faked, "+0").unwrap();
    sweep_clocks();
    let Some(mut elsewhen) = under("faketime", &["-f", "+1d", "true"], &["-m", "-f", "+0"]) else { return };
    // The program reads its clock's offset from a file, which is written while it runs.
    elsewhen.args(["env", "-u", "FAKETIME", "FAKETIME_NO_CACHE=1"]);
    elsewhen.arg(format!("FAKETIME_TIMESTAMP_FILE={}", faked.display()));
    let leases = leases(state.path());
    let mut holder = Copy::start_under(elsewhen, "work read-only", state.path());
    let fence: Fence = holder.says("held ").parse().unwrap();
    for (jump, days) in [("+1d", 1), ("-1d", -1), ("+0", 0)] {
        fs::write(&faked, jump).unwrap();
        let (wall, fresh) = asked(&mut holder);
        let apart = (wall.0 - clock.now().wall.0) as f64 / DAY.as_millis() as f64;
        assert!((apart - f64::from(days)).abs() < 0.1, "{jump}: its wall clock is {apart} days off");
        assert!(fresh, "{jump}");
        let refused = block_on(leases.acquire(mine("s2", WorkClass::ReadOnly))).unwrap_err();
        match refused {
            LeaseError::Held { fence: held, free_in, .. } => {
                assert_eq!(held, fence);
                assert!(free_in <= MIN_TTL + GRACE, "{jump}: free in {free_in:?}");
            }
            other => panic!("{jump}: {other}"),
        }
    }
    signal(&holder, Signal::STOP);
    let stopped = clock.now().boot_ms;
    wait_for(&leases, "s2", WorkClass::ReadOnly);
    let took = Duration::from_millis(clock.now().since(stopped));
    assert!(took < LIMIT / 2, "a ttl and a grace, not a day: {took:?}");
}
