//! Servers that don't want to go, and what they leave behind.

use super::super::end::{StopError, StopStep, TreeState, await_old_tree, end_old_tree};
use super::prove_dead;
use super::*;
use std::collections::BTreeMap;
use tidegate_core::BootId;
use tidegate_host::{Pidfd, Signal, stat_of};

/// Starts `script`, which says `ready`, stops it, and checks the steps; nothing of it runs then.
async fn check(script: &str, grace: Duration, steps: &[StopStep]) {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, script).await;
    assert_eq!(line(&mut server).await, "ready");
    let before = carriers(&server);
    assert!(!before.is_empty());
    let report = server.handle.stop(grace).await.unwrap();
    assert_eq!(report.steps, steps, "{script}");
    assert_eq!(report.unclean, steps.len() > 1);
    assert!(before.iter().all(|pid| !is_running(*pid)), "{script}");
    assert_eq!(prove_dead(server.handle.identity()).await.unwrap(), TreeState::Gone);
}

use StopStep::{CloseInput, Kill, Terminate};

#[tokio::test]
async fn a_server_that_ignores_the_end_of_its_input_is_terminated() {
    check("echo ready; exec sleep 600", Duration::from_millis(50), &[CloseInput, Terminate]).await;
}

#[tokio::test]
async fn a_server_that_ignores_sigterm_too_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 600; done";
    check(script, Duration::from_millis(50), &[CloseInput, Terminate, Kill]).await;
}

#[tokio::test]
async fn a_server_that_ends_slowly_within_its_grace_is_left_to_it() {
    check("echo ready; cat; sleep 0.3", GRACE, &[CloseInput]).await;
}

#[tokio::test]
async fn a_stopped_server_is_killed() {
    let script = "echo ready; kill -STOP $$; exec sleep 600";
    check(script, Duration::from_millis(50), &[CloseInput, Terminate, Kill]).await;
}

#[tokio::test]
async fn what_a_server_leaves_in_another_session_is_ended_too() {
    check("setsid sleep 600 & echo ready; read -r _", GRACE, &[CloseInput, Terminate]).await;
}

#[tokio::test]
async fn a_member_that_nothing_vouches_for_is_waited_for_before_it_blocks_the_proof() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    // In the group, with another environment, which it has once it speaks, and its parent gone: nobody can tell whose it is.
    let script = "env -i sh -c 'echo ready; exec sleep 0.5 </dev/null >/dev/null 2>&1' &";
    let mut server = start(&spawner, script).await;
    assert_eq!(line(&mut server).await, "ready");
    server.handle.exit().await;
    let report = end_old_tree(server.handle.identity()).await.unwrap();
    assert_eq!(report.steps, [], "nor is it signalled");
}

#[tokio::test]
async fn what_has_left_group_and_environment_is_known_by_its_parent() {
    // The grandchild says that it has arrived, so that it is there when the stop begins.
    let script = "setsid env -i sh -c 'echo ready; exec sleep 600' & read -r _";
    check(script, GRACE, &[CloseInput, Terminate]).await;
}

#[tokio::test]
async fn the_real_server_does_not_outlive_its_wrapper() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, "sh -c 'echo ready; exec sleep 600' & wait").await;
    assert_eq!(line(&mut server).await, "ready");
    let wrapper = server.handle.identity().clone();
    let real = carriers(&server).into_iter().find(|pid| *pid != wrapper.pid).unwrap();
    Pidfd::open(wrapper.pid, wrapper.start_ticks).unwrap().signal(Signal::KILL).unwrap();

    assert_eq!(server.handle.exit().await.to_string(), "was killed by signal 9");
    assert!(is_running(real));
    let report = server.handle.stop(GRACE).await.unwrap();
    assert!(report.unclean && !is_running(real));
    assert_eq!(server.stdout.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_tree_of_an_earlier_daemon_is_waited_for_and_then_ended() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, "setsid sleep 600 & echo ready; read -r _").await;
    line(&mut server).await;
    let identity = server.handle.identity().clone();
    drop(server);

    // Its input has closed, so the first process ends; the other one doesn't.
    let left = await_old_tree(&identity, Duration::from_millis(300)).await.unwrap();
    let TreeState::Running { pids } = left else { panic!("{left:?}") };
    assert!(pids.iter().all(|pid| *pid != identity.pid), "{pids:?}");
    assert!(end_old_tree(&identity).await.unwrap().unclean);
    assert_eq!(prove_dead(&identity).await.unwrap(), TreeState::Gone);
    assert!(end_old_tree(&identity).await.unwrap().steps.is_empty());
}

#[tokio::test]
async fn an_old_group_whose_members_nobody_vouches_for_is_neither_killed_nor_called_gone() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, "env -i sh -c 'echo ready; exec sleep 600' & read -r _").await;
    line(&mut server).await;
    let identity = server.handle.identity().clone();
    server.stdin.close().await;
    server.handle.exit().await;

    let survived = end_old_tree(&identity).await.unwrap_err();
    let StopError::TreeSurvived { pids } = &survived else { panic!("{survived:?}") };
    assert!(pids.iter().all(|pid| is_running(*pid)), "{pids:?}");
    assert!(survived.to_string().contains(&format!("{pids:?}")));
    // The daemon that has seen the first process end knows better.
    assert!(server.handle.stop(GRACE).await.unwrap().unclean);
}

#[tokio::test]
async fn a_reused_pid_and_another_boot_are_gone_and_another_namespace_is_out_of_sight() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, "echo ready; exec cat").await;
    line(&mut server).await;
    let real = server.handle.identity().clone();

    let mut other = real.clone();
    (other.start_ticks, other.nonce) = (real.start_ticks - 1, nonce());
    assert_eq!(prove_dead(&other).await.unwrap(), TreeState::Gone);
    assert!(end_old_tree(&other).await.unwrap().steps.is_empty());
    other = real.clone();
    other.boot = BootId(real.boot.0 ^ 1);
    assert_eq!(prove_dead(&other).await.unwrap(), TreeState::Gone);
    other = real.clone();
    other.pid_ns += 1;
    assert!(matches!(prove_dead(&other).await, Err(StopError::OutOfSight)));
    assert!(matches!(end_old_tree(&other).await, Err(StopError::OutOfSight)));

    server.stdin.write_line(b"still here").await.unwrap();
    assert_eq!(line(&mut server).await, "still here");
    server.handle.stop(GRACE).await.unwrap();
}

#[tokio::test]
async fn twenty_restarts_leave_no_process_and_no_descriptor_more() {
    let _alone = MACHINE.write().await;
    let spawner = spawner();
    // The second session's child is orphaned and ends by itself: nobody but the daemon can reap it.
    let script = "(setsid true &); setsid sleep 600 & echo ready; read -r _";
    let mut open_at_first = 0;
    for round in 0..20 {
        let mut server = start(&spawner, script).await;
        assert_eq!(line(&mut server).await, "ready");
        server.handle.stop(GRACE).await.unwrap();
        assert_eq!(carriers(&server), Vec::<u32>::new());
        drop(server);
        // The first round has opened what stays open: the runtime's own descriptors.
        if round == 0 {
            open_at_first = open_descriptors();
        }
    }
    eventually("no descriptor more", || open_descriptors() <= open_at_first).await;
    eventually("no zombie", || zombies().is_empty()).await;
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Zombies that this process would have to reap, by pid.
fn zombies() -> BTreeMap<u32, char> {
    let me = stat_of(std::process::id()).unwrap();
    let table = process_table().unwrap();
    let ours = table.values().filter(|s| s.parent == me.pid && s.group != me.group && s.is_zombie());
    ours.map(|s| (s.pid, s.state)).collect()
}
