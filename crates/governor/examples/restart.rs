//! A governed restart of one server that exists in memory only: an agent asks, an operator approves, the server is
//! drained, stopped, started and verified.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tidegate_checkpoints::Draft;
use tidegate_core::{
    BootId, BoxFuture, Clock, ComponentName, Deadline, DrainId, Entropy, Generation, IncidentId, Liveness,
    Now, Probe, ProcessIdentity, WallTime,
};
use tidegate_drain::{Gate, Holder, Verdict, verdict};
use tidegate_governor::{
    Actuator, Ask, Caller, CloseError, Governor, LaunchIdentity, Parts, Policy, RecordIdentity, Resumed,
    StartError, StopError, Verified, VerifyError,
};
use tidegate_leases::NoSessions;
use tidegate_store::MemoryStore;

/// The world, as this example has it: a clock that stands still, numbers in order, processes that all live.
#[derive(Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Now {
        Now { boot: BootId(1), boot_ms: 1_000, wall: WallTime(1_767_225_600_000) }
    }
}

impl Entropy for Still {
    fn bits(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Relaxed))
    }
}

impl Probe for Still {
    fn liveness(&self, _: &ProcessIdentity) -> Liveness {
        Liveness::Alive
    }
}

/// Hands for one server that is nothing but words on the terminal.
struct Hands {
    gate: Gate,
    clock: Arc<Still>,
}

fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(ready(value))
}

fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // An example that can't print has nobody who would read it.
    let _ = writeln!(std::io::stdout(), "{line}");
}

impl Actuator for Hands {
    fn launch<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Option<LaunchIdentity>> {
        let known = component.as_str() == "files";
        done(known.then(|| LaunchIdentity {
            command: "files-server".to_owned(),
            args: vec!["/srv".to_owned()],
            cwd: None,
            env: BTreeMap::new(),
            executable: "/usr/local/bin/files-server".to_owned(),
            executable_sha256: "0".repeat(64),
            settings: String::new(),
        }))
    }

    fn close<'a>(
        &'a self,
        scope: &'a [ComponentName],
        drain: &'a DrainId,
    ) -> BoxFuture<'a, Result<(), CloseError>> {
        let closed = match self.gate.close(drain.clone()) {
            Err(closed) if closed.by != *drain => {
                Err(CloseError { component: scope[0].clone(), by: closed.by })
            }
            _ => Ok(()),
        };
        say(format_args!("  the gate closes"));
        done(closed)
    }

    fn reopen<'a>(&'a self, _: &'a [ComponentName], drain: &'a DrainId) -> BoxFuture<'a, ()> {
        // A gate that isn't ours any more is none of our business.
        let _ = self.gate.reopen(drain);
        say(format_args!("  the gate opens"));
        done(())
    }

    fn await_drain<'a>(
        &'a self,
        _: &'a [ComponentName],
        _: &'a DrainId,
        _: Deadline,
        _: &'a (dyn Fn(&[Holder]) + Send + Sync),
    ) -> BoxFuture<'a, Verdict> {
        // Nothing is in flight here; a real one waits with `tidegate_drain::Drainer`.
        done(verdict(&self.gate.holders(&self.clock.now()), true))
    }

    fn session_facts<'a>(&'a self, scope: &'a [ComponentName]) -> BoxFuture<'a, Vec<Draft>> {
        let sessions = "local/s1".parse().map(Draft::new);
        let covering = |draft: Draft| Draft { covers: scope.iter().cloned().collect(), ..draft };
        done(sessions.into_iter().map(covering).collect())
    }

    fn stop<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<(), StopError>> {
        say(format_args!("  {component} is stopped"));
        done(Ok(()))
    }

    fn start<'a>(
        &'a self,
        component: &'a ComponentName,
        generation: Generation,
        launch: &'a LaunchIdentity,
        identity: &'a dyn RecordIdentity,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(async move {
            let process = ProcessIdentity {
                boot: BootId(1),
                pid_ns: 1,
                pid: 4_711,
                start_ticks: 1,
                nonce: format!("{component}-{generation}"),
            };
            let recorded = identity.record(&process).await;
            recorded.map_err(|error| StartError {
                component: component.clone(),
                message: error.to_string(),
                stderr: String::new(),
            })?;
            say(format_args!("  {component} is started: {} as generation {generation}", launch.command));
            Ok(())
        })
    }

    fn verify<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<Verified, VerifyError>> {
        say(format_args!("  {component} answers, with 3 tools"));
        done(Ok(Verified { tools: 3, ..Verified::default() }))
    }

    fn resumed<'a>(&'a self, resumed: &'a Resumed) -> BoxFuture<'a, ()> {
        say(format_args!("  the sessions of {} go on", resumed.component));
        done(())
    }

    fn unavailable<'a>(&'a self, component: &'a ComponentName, id: &'a IncidentId) -> BoxFuture<'a, ()> {
        say(format_args!("  {component} is unavailable: incident {id}"));
        done(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let still = Arc::new(Still::default());
    let files: ComponentName = "files".parse()?;
    let hands = Hands { gate: Gate::new(files.clone(), 16), clock: still.clone() };
    let governor = Governor::new(Parts {
        store: Arc::new(MemoryStore::new()),
        clock: still.clone(),
        entropy: still.clone(),
        probe: still,
        sessions: Arc::new(NoSessions),
        policy: Policy { operators: ["ops".parse()?].into(), ..Policy::default() },
    })?;

    pollster::block_on(async {
        let agent = Caller::local();
        let ask = Ask::restart("op-1".parse()?, vec![files], "its cache is stale");
        let operation = governor.request(&agent, &ask, &hands).await?;
        say(format_args!("an agent asks: {} is {}", operation.id, operation.phase));

        if let Err(refusal) = governor.approve(&agent, &operation.id, &hands).await {
            say(format_args!("it tries to approve that itself: {refusal}"));
        }

        let approved = governor.approve(&Caller::operator("ops".parse()?), &operation.id, &hands).await?;
        say(format_args!("an operator approves: {} is {}", operation.id, approved.operation.phase));
        let operation = governor.run(&operation.id, &hands).await?;
        say(format_args!("{} is {}", operation.id, operation.phase));
        Ok(())
    })
}
