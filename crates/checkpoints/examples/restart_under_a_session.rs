//! A daemon of one's own that is restarted under its sessions: one was in the middle of a call, one was not, and each
//! is told what to do, by a process that knows nothing but the store.
//!
//! Run with `cargo run -p tidegate-checkpoints --example restart_under_a_session`.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use tidegate_checkpoints::{
    Actions, Attach, CallFact, CallState, Checkpoints, Clear, Draft, NextAction, Wanted, resume,
};
use tidegate_core::{ComponentName, Generation, SessionId, WorkClass};
use tidegate_host::{OsEntropy, ProcProbe, SystemClock, identity_of, own_identity};
use tidegate_store::{MemoryStore, Store};

fn main() -> anyhow::Result<()> {
    // A `FileStore` in its place keeps them through restarts.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    pollster::block_on(before_the_restart(&store))?;
    pollster::block_on(after_the_restart(&store))
}

async fn before_the_restart(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    let (clock, probe) = (Arc::new(SystemClock::new()?), Arc::new(ProcProbe::new()?));
    let sessions = Checkpoints::new(store.clone(), clock, Arc::new(OsEntropy), probe);
    let files: ComponentName = "files".parse()?;
    // A second client that is alive: a process that waits for its input to end.
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn()?;
    let (me, them) = (own_identity("")?, identity_of(other.id(), "")?);
    for (number, (name, client)) in (1..).zip([("writer", &me), ("reader", &me), ("reader", &them)]) {
        let wanted = Wanted::own("local".parse()?, Some(name.parse()?), Some(client.clone()));
        let attach = Attach::new(wanted, format!("stream-{number}"), Some(files.clone()));
        let attached = sessions.attach(&attach).await?;
        println!("{} is attached", attached.session);
        attached.resolution.notice().iter().for_each(|notice| println!("  {notice}"));
    }

    let writer: SessionId = "local/writer".parse()?;
    sessions.note(&writer, "chapters 1 to 3 are written").await?;
    let drafts: Vec<Draft> = sessions
        .list()
        .await?
        .into_iter()
        .map(|checkpoint| {
            let mut draft = Draft::new(checkpoint.session);
            draft.covers.insert(files.clone());
            draft.generations.insert(files.clone(), Generation(2));
            if draft.session == writer {
                draft.calls.push(CallFact {
                    id: "7".to_owned(),
                    component: files.clone(),
                    tool: "write_file".to_owned(),
                    class: WorkClass::Mutating,
                    state: CallState::Unknown,
                });
            }
            draft.actions = Actions {
                clear: vec![Clear::Restart(files.clone())],
                add: vec![NextAction::StateReset { component: files.clone() }],
            };
            draft
        })
        .collect();
    sessions.checkpoint(&drafts).await?;
    println!("\nthe daemon is killed\n");
    drop(other.stdin.take());
    other.wait()?;
    Ok(())
}

async fn after_the_restart(store: &Arc<dyn Store>) -> anyhow::Result<()> {
    for checkpoint in tidegate_checkpoints::list(&**store).await? {
        let told = resume(&**store, &checkpoint.session).await?;
        println!("{}: {}", told.session, told.next_action.prompt());
        told.facts.notes.iter().for_each(|note| println!("  it noted: {}", note.text));
    }
    Ok(())
}
