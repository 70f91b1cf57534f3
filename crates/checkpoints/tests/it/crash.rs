//! A power cut at every commit: what was acknowledged is there, told by a fresh process from the store alone.

use crate::fixture::{World, call, connection, session, wait};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tidegate_checkpoints::{
    Actions, CallState, CheckpointError, Checkpoints, Draft, Fact, NextAction, Resolution, Subscription,
    resume,
};
use tidegate_core::WorkClass;
use tidegate_store::{Fault, Txn};

/// Everything that acknowledges a fact; each one commit.
const STEPS: usize = 9;

async fn step(sessions: &Checkpoints, number: usize) -> Result<(), CheckpointError> {
    let work = session("work");
    let files = || "files".parse().unwrap();
    match number {
        0 => drop(sessions.attach(&connection(1, "work", "c1-1")).await?),
        1 => sessions.note(&work, "half way").await?,
        2 => {
            let subscription = Subscription { component: files(), uri: "file:///a".to_owned() };
            sessions.record(&work, &[Fact::Subscribed(subscription)]).await?;
        }
        3 => sessions.record(&work, &[Fact::LeaseHeld("files/a".to_owned())]).await?,
        4 => {
            let level = Fact::LogLevel { component: files(), level: "debug".to_owned() };
            sessions.record(&work, &[level]).await?;
        }
        5 => {
            let mut draft = Draft::new(work);
            draft.calls.push(call("7", "write_file", WorkClass::Mutating, CallState::Unknown));
            draft.actions = Actions::add([NextAction::StateReset { component: files() }]);
            sessions.checkpoint(&[draft, Draft::new(session("play"))]).await?;
        }
        6 => sessions.detach(&work, Some("c1-1")).await?,
        7 => {
            let told = sessions.resume(&work).await?;
            sessions.told(&told).await?;
        }
        8 => drop(sessions.end(&work, &"local".parse().unwrap(), false, "done").await?),
        _ => unreachable!(),
    }
    Ok(())
}

/// All that the store alone tells of both sessions.
fn story(world: &World) -> String {
    let tell = |name: &str| match wait(resume(&world.store, &session(name))) {
        Ok(resume) => resume.to_json().to_string(),
        Err(error) => error.to_string(),
    };
    format!("{}\n{}", tell("work"), tell("play"))
}

#[test]
fn a_power_cut_at_any_commit_loses_nothing_acknowledged() {
    let after_each: Vec<String> = (0..=STEPS)
        .map(|done| {
            let world = World::new();
            (0..done).for_each(|n| wait(step(&world.sessions, n)).unwrap());
            story(&world)
        })
        .collect();
    assert!(after_each.windows(2).all(|w| w[0] != w[1]), "every step leaves a trace");
    for at in 0..STEPS {
        for survives in [false, true] {
            let world = World::new();
            (0..at).for_each(|n| wait(step(&world.sessions, n)).unwrap());
            world.store.set_faults(|_: &Txn| Fault::Delay);
            let sessions = world.fresh_process();
            let mut future = pin!(step(&sessions, at));
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled, Poll::Pending, "step {at} is not acknowledged before it is synced");
            world.store.crash(|_| survives);
            world.store.clear_faults();
            assert_eq!(
                story(&world),
                after_each[at + usize::from(survives)],
                "step {at}, survives: {survives}"
            );
        }
    }
}

#[test]
fn every_step_tried_again_after_an_uncertain_commit_happens_once() {
    for fault in [Fault::UncertainApplied, Fault::UncertainLost] {
        for at in 0..STEPS {
            let certain = World::new();
            (0..=at).for_each(|n| wait(step(&certain.sessions, n)).unwrap());
            let world = World::new();
            (0..at).for_each(|n| wait(step(&world.sessions, n)).unwrap());
            let mut once = Some(fault.clone());
            world.store.set_faults(move |_: &Txn| once.take().unwrap_or(Fault::None));
            wait(step(&world.sessions, at)).unwrap();
            let without_versions = |world: &World| {
                let mut checkpoints = wait(world.sessions.list()).unwrap();
                for c in &mut checkpoints {
                    (c.version, c.last_action) = (0, 0);
                    c.pending.iter_mut().for_each(|p| p.number = 0);
                }
                checkpoints
            };
            assert_eq!(without_versions(&world), without_versions(&certain), "step {at}, {fault:?}");
        }
    }
}

#[test]
fn an_uncertain_take_over_still_says_which_connections_to_cut() {
    let world = World::new();
    world.attach(1, "work", "c1-1").unwrap();
    world.attach(1, "work", "c1-2").unwrap();
    let mut once = Some(Fault::UncertainApplied);
    world.store.set_faults(move |_: &Txn| once.take().unwrap_or(Fault::None));
    let mut connection = connection(2, "work", "c2-1");
    connection.wanted.steal = true;
    let attached = wait(world.sessions.attach(&connection)).unwrap();
    assert_eq!(attached.resolution, Resolution::Stolen("work".parse().unwrap()));
    assert_eq!(attached.cut, ["c1-1", "c1-2"]);
}

#[test]
fn checkpoints_of_many_sessions_are_one_commit() {
    let world = World::new();
    let (seen, commits) = std::sync::mpsc::channel();
    world.store.set_faults(move |txn: &Txn| {
        seen.send(txn.writes.len()).unwrap();
        Fault::None
    });
    let drafts: Vec<Draft> = (0..50)
        .map(|n| {
            let mut draft = Draft::new(session(&format!("s{n}")));
            draft.calls.push(call("7", "write_file", WorkClass::Mutating, CallState::Unknown));
            draft
        })
        .collect();
    wait(world.sessions.checkpoint(&drafts)).unwrap();
    assert_eq!(commits.try_iter().collect::<Vec<_>>(), [50]);
}
