//! Identities and liveness of real processes: reused pids, zombies, other namespaces.

use crate::{end, eventually, waiting_child};
use std::io::Write;
use std::process::{Command, Stdio};
use tidegate_core::{BootId, Liveness, Probe, ProcessIdentity};
use tidegate_host::{
    HostError, ProcProbe, identity_of, own_children, own_identity, parent_identity, process_table,
    processes_with_nonce, stat_of,
};

fn liveness(process: &ProcessIdentity) -> Liveness {
    ProcProbe::new().unwrap().liveness(process)
}

#[test]
fn the_same_pid_is_another_process_when_boot_start_or_namespace_differ() {
    let me = own_identity("n").unwrap();
    let check = |change: fn(&mut ProcessIdentity), expected| {
        let mut other = me.clone();
        change(&mut other);
        assert_eq!(liveness(&other), expected, "{other:?}");
    };
    check(|_| {}, Liveness::Alive);
    check(|p| p.nonce.push('x'), Liveness::Alive);
    check(|p| p.start_ticks += 1, Liveness::Dead);
    check(|p| p.boot = BootId(p.boot.0 ^ 1), Liveness::Dead);
    check(|p| p.pid_ns += 1, Liveness::Unknown);
    // Another boot is proof in whatever namespace it was.
    check(|p| (p.boot, p.pid_ns) = (BootId(0), 0), Liveness::Dead);
}

#[test]
fn a_zombie_is_dead_and_so_is_what_has_vanished() {
    let mut child = waiting_child("zombie");
    let identity = identity_of(child.id(), "zombie").unwrap();
    assert_eq!(liveness(&identity), Liveness::Alive);

    child.kill().unwrap();
    eventually("the killed child is a zombie", || stat_of(child.id()).unwrap().is_zombie());
    assert_eq!(liveness(&identity), Liveness::Dead);

    child.wait().unwrap();
    assert_eq!(liveness(&identity), Liveness::Dead);
    assert!(matches!(identity_of(identity.pid, ""), Err(HostError::Gone { .. })));
}

#[test]
fn a_process_that_calls_itself_something_odd_is_still_read() {
    let mut child = Command::new("sh")
        .args(["-c", r#"printf 'a) Z 1 (' > /proc/$$/comm; echo named; read -r _"#])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    let stat = stat_of(child.id()).unwrap();
    assert_eq!((stat.parent, stat.is_running()), (std::process::id(), true));
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
}

#[test]
fn the_parent_is_whoever_started_us() {
    let parent = parent_identity("p").unwrap();
    assert_eq!(parent.pid, std::os::unix::process::parent_id());
    assert_eq!(liveness(&parent), Liveness::Alive);
    assert!(process_table().unwrap().contains_key(&parent.pid));
}

#[test]
fn what_carries_the_nonce_is_found_and_nothing_else() {
    let nonce = format!("host-test-{}", std::process::id());
    let (ours, other) = (waiting_child(&nonce), waiting_child(&format!("{nonce}0")));
    // The environment shows once the child has become cat.
    eventually("the child is found", || {
        processes_with_nonce("TIDEGATE_NONCE", &nonce).unwrap() == [ours.id()]
    });
    end(ours);
    end(other);
    assert_eq!(processes_with_nonce("TIDEGATE_NONCE", &nonce).unwrap(), Vec::<u32>::new());
}

#[test]
fn own_children_are_seen_until_they_are_reaped_and_nobody_else_is() {
    let (living, mut dead) = (waiting_child("living"), waiting_child("dead"));
    dead.kill().unwrap();
    eventually("the killed child is a zombie", || own_children().unwrap()[&dead.id()].is_zombie());
    let children = own_children().unwrap();
    assert!(children[&living.id()].is_running());
    assert!(children.values().all(|child| child.parent == std::process::id()));
    dead.wait().unwrap();
    assert!(!own_children().unwrap().contains_key(&dead.id()));
    end(living);
}
