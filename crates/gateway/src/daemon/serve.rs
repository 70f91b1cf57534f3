//! From a configuration to a daemon that accepts, and from a signal to its end.

use super::component::Msg;
use super::context::{Context, grumble, say};
use super::credentials::Credentials;
use super::plant::Plant;
use super::records::Records;
use super::sessions::Registry;
use super::settings::Settings;
use super::site::Site;
use super::socket::Socket;
use super::start::Launcher;
use super::{Daemon, hold, housekeeping, operations};
use crate::config::{ComponentConfig, Config, MAX_SOCKET_PATH};
use crate::keeper::Estate;
use crate::process::Spawner;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_checkpoints::Checkpoints;
use tidegate_core::{Clock, ComponentName, Entropy, OperationId, Probe};
use tidegate_governor::{
    Ask, Caller, Components, Governor, GovernorError, Operation, Parts, Phase, Policy, PolicyError, Upkeep,
};
use tidegate_host::{HostError, OsEntropy, ProcProbe, SystemClock};
use tidegate_incidents::{IncidentKind, Incidents, Report, Severity};
use tidegate_leases::Leases;
use tidegate_relay::{Classified, Classifier, RelayConfig};
use tidegate_store::{FileError, FileStore, LockError, OpenOptions, Store};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::Notify;

/// Calls in flight to one component. A server with more is overwhelmed; the rest is held, within the relay's bounds.
pub(super) const GATE_CAPACITY: usize = 1_024;

/// What may pass, beyond the drain's deadline, until it is known what became of an old server: its end by force.
const PROOF_MARGIN: Duration = Duration::from_secs(15);

/// How a daemon ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Everything was drained and stopped.
    Drained,
    /// An unsafe call outlived the deadline, and its server was left to itself.
    LeftRunning {
        /// What to do about it.
        message: String,
    },
}

/// A daemon that could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ServeError {
    #[error("failed to make the state directory {path}: {source}; check the path and its permissions")]
    StateDir { path: PathBuf, source: io::Error },
    #[error("nothing can be granted from this state directory: {why}")]
    Copied { why: String },
    #[error("another daemon uses this state directory: {0}")]
    Taken(#[source] LockError),
    #[error(
        "the state directory can't be locked: {0}; it has to be on a local disk with room, and writable by you"
    )]
    Unlockable(#[source] LockError),
    #[error(transparent)]
    Store(#[from] FileError),
    #[error("the policy can't be served: {0}")]
    Policy(#[from] PolicyError),
    #[error(
        "the socket's path has {} bytes, the kernel takes {MAX_SOCKET_PATH}: {path}; choose a shorter directory for [state] store, or \
         start from nearer to it with a relative --config",
        path.as_os_str().len()
    )]
    SocketPath { path: PathBuf },
    #[error("failed to listen at {path}: {source}")]
    Listen { path: PathBuf, source: io::Error },
    #[error("failed to supervise processes: {0}")]
    Supervise(#[source] io::Error),
    #[error("failed to read the machine's clock or processes: {0}")]
    Host(#[from] HostError),
    #[error("no [[component]] is configured in {path}; add one, there is nothing to serve")]
    NoComponent { path: PathBuf },
}

impl From<LockError> for ServeError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Busy { .. } => Self::Taken(error),
            _ => Self::Unlockable(error),
        }
    }
}

/// Serves until a signal ends it.
pub(crate) async fn serve(config: Config) -> Result<Ended, ServeError> {
    if config.components.is_empty() {
        return Err(ServeError::NoComponent { path: config.path });
    }
    let path = config.socket();
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(ServeError::SocketPath { path });
    }
    let signals = Signals::listen().map_err(ServeError::Supervise)?;
    // A write beyond the limit on file sizes is an error then, and not the end of the daemon.
    let _heard = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(ServeError::Supervise)?;
    make_state_dir(&config.state_dir)?;
    let _alone = hold(&config.state_dir)?;
    let (store, opened) = FileStore::open(&config.state_dir, OpenOptions::new().create(true))?;
    if let Some(torn) = &opened.torn {
        say(&format!("the journal's torn tail was cut: {torn}"));
    }
    if let Some(why) = opened.adopt {
        return Err(ServeError::Copied { why });
    }
    let daemon = build(&config, Arc::new(store))?;
    grumble("what sessions have left could not be settled", daemon.ctx.upkeep.settle_left().await);
    detach_all(&daemon).await;
    expect_old_servers(&daemon).await;
    let failed = |source| ServeError::Listen { path: path.clone(), source };
    let socket = Arc::new(Socket::new(&config.state_dir, path.clone()).map_err(failed)?);
    let listener = socket.listen().map_err(failed)?;
    tokio::spawn(socket.clone().serve(daemon.clone(), listener));
    say(&format!(
        "tidegate {}, pid {}, serves {} components from {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.components.len(),
        config.path.display()
    ));
    crate::log::ready(&path);
    operations::recover(&daemon).await;
    daemon.plant.hands_on().await;
    tokio::spawn(housekeeping::run(daemon.clone()));
    let ended = tokio::select! {
        () = signals.told_to_end(&daemon) => shut_down(&daemon, &config).await,
        // Its operation has drained and stopped everything.
        () = daemon.taken_over.notified() => Ended::Drained,
    };
    socket.remove();
    say("ended");
    Ok(ended)
}

fn make_state_dir(dir: &Path) -> Result<(), ServeError> {
    let failed = |source| ServeError::StateDir { path: dir.to_owned(), source };
    if !dir.exists() {
        std::fs::create_dir_all(dir).map_err(failed)?;
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

fn build(config: &Config, store: Arc<FileStore>) -> Result<Arc<Daemon>, ServeError> {
    let clock = SystemClock::new()?;
    let probe = ProcProbe::new()?;
    let store = Arc::new(Records::new(store, clock));
    let shared: Arc<dyn Store> = store.clone();
    let clocks: Arc<dyn Clock> = Arc::new(clock);
    let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
    let probes: Arc<dyn Probe> = Arc::new(probe);
    let registry = Arc::new(Registry::new(clock));
    let governor = Governor::new(Parts {
        store: shared.clone(),
        clock: clocks.clone(),
        entropy: entropy.clone(),
        probe: probes.clone(),
        sessions: registry.clone(),
        policy: policy(config),
    })?;
    for warning in governor.policy().check()? {
        say(&warning.to_string());
    }
    // Nobody could renew while there was no daemon, and nobody knows for how long that was.
    let leases = Leases::new(shared.clone(), clocks.clone(), entropy.clone(), probes.clone())
        .with_sessions(registry.clone());
    leases.begin_after(tidegate_leases::MAX_TTL);
    let estate = Estate::open(&config.state_dir, config.policy.drain_deadline + PROOF_MARGIN);
    let estate = estate.map_err(|source| ServeError::StateDir { path: config.state_dir.clone(), source })?;
    let ctx = Arc::new(Context {
        store,
        clock,
        components: Components::new(shared.clone(), entropy.clone()),
        checkpoints: Checkpoints::new(shared.clone(), clocks.clone(), entropy.clone(), probes),
        incidents: Incidents::new(shared.clone(), clocks.clone(), entropy.clone()),
        upkeep: Upkeep::new(shared, clocks, entropy),
        leases,
        registry: registry.clone(),
        spawner: Spawner::new(estate.dir()).map_err(ServeError::Supervise)?,
        launcher: Launcher::default(),
        settings: Settings::new(config),
        estate,
        drain_deadline: config.policy.drain_deadline,
    });
    let plant = Arc::new(Plant::new(ctx.clone(), config.clone()));
    let credentials = Credentials::new(config);
    Ok(Arc::new(Daemon {
        ctx,
        credentials,
        governor,
        plant,
        registry,
        probe,
        taken_over: Notify::new(),
        active: Mutex::default(),
    }))
}

/// The policy of a configuration.
pub(crate) fn policy(config: &Config) -> Policy {
    let policy = &config.policy;
    Policy {
        approvals: policy.approvals,
        approvers: policy.approvers.iter().map(ToString::to_string).collect(),
        operator_approvals: policy.operator_approvals,
        drain_deadline: policy.drain_deadline,
        request_ttl: policy.request_ttl,
        operators: config.operators.iter().map(|c| c.name.clone()).collect(),
        principals: config.principals.iter().map(|c| c.name.clone()).collect(),
    }
}

/// How a component's relay works.
pub(super) fn relay(hold: Duration, component: &ComponentConfig) -> RelayConfig {
    let rules = component
        .tools
        .iter()
        .map(|rule| (rule.pattern.clone(), Classified { class: rule.class, replay: rule.replay }));
    RelayConfig {
        hold,
        call_timeout: component.call_timeout,
        classifier: Classifier::new(rules, component.trust_annotations),
        leases: component.leases.clone(),
        sharing: component.sharing,
    }
}

/// No connection survives a daemon: what its predecessor recorded as connected isn't. What it owed them is still owed.
async fn detach_all(daemon: &Daemon) {
    let sessions = match daemon.ctx.checkpoints.list().await {
        Ok(sessions) => sessions,
        Err(error) => return say(&format!("the sessions can't be read: {error}")),
    };
    for checkpoint in sessions.into_iter().filter(|c| c.ended.is_none()) {
        daemon.registry.set_unsure(&checkpoint.session, checkpoint.has_to_verify());
        if !checkpoint.is_attached() {
            continue;
        }
        if let Err(error) = daemon.ctx.checkpoints.detach(&checkpoint.session, None).await {
            say(&format!("the session {} can't be detached: {error}", checkpoint.session));
        }
    }
}

/// Servers of earlier daemons may still be working, and late answers may come of that.
async fn expect_old_servers(daemon: &Daemon) {
    let left =
        grumble("the components can't be read", daemon.ctx.components.list().await).unwrap_or_default();
    daemon.plant.remember(&left);
    for process in left.into_iter().filter_map(|component| component.process) {
        daemon.ctx.estate.expect(&process.nonce);
    }
    daemon.ctx.estate.sweep(&daemon.ctx.now());
}

/// What an operator's signals say. Listened to from the beginning: one that comes while the daemon still starts waits, and doesn't
/// end it where it stands.
struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn told_to_end(mut self, daemon: &Arc<Daemon>) {
        let told = loop {
            tokio::select! {
                _ = self.terminate.recv() => break "SIGTERM",
                _ = self.interrupt.recv() => break "SIGINT",
                _ = self.hangup.recv() => super::reload::on_hangup(daemon).await,
            }
        };
        say(&format!("told to end by {told}: draining"));
    }
}

/// A signal is an operation over all components, bound by drain safety alone.
async fn shut_down(daemon: &Arc<Daemon>, config: &Config) -> Ended {
    daemon.plant.hands_off().await;
    let scope: Vec<ComponentName> = config.components.iter().map(|c| c.name.clone()).collect();
    match drained(daemon, scope.clone()).await {
        Ok(Operation { phase: Phase::Completed, .. }) => Ended::Drained,
        Ok(operation) => left_running(daemon, &scope, &operation).await,
        Err(error) => {
            say(&format!("the daemon could not be drained ({error})"));
            Ended::LeftRunning { message: format!("the daemon ended without a drain: {error}") }
        }
    }
}

async fn drained(daemon: &Daemon, scope: Vec<ComponentName>) -> Result<Operation, GovernorError> {
    // An operation that is under way has its components until it has ended, which it does in bounded time.
    loop {
        let changed = daemon.governor.changed();
        let operations = daemon.governor.list().await?;
        if !operations.iter().any(|o| o.phase.is_running() || o.is_to_reopen()) {
            break;
        }
        changed.await;
    }
    let id: OperationId = OsEntropy.id("op").parse().map_err(|_| GovernorError::NotASignal)?;
    let operation =
        daemon.governor.request(&Caller::signal(), &Ask::shutdown(id, scope), &*daemon.plant).await?;
    daemon.governor.run(&operation.id, &*daemon.plant).await
}

/// The drain was refused: what is safe to stop is stopped, what isn't is left, and said.
async fn left_running(daemon: &Daemon, scope: &[ComponentName], operation: &Operation) -> Ended {
    let busy: BTreeSet<&ComponentName> = operation.holders.iter().map(|h| &h.component).collect();
    let idle = scope.iter().filter(|name| !busy.contains(name)).filter_map(|name| daemon.plant.site(name));
    for handle in idle.flat_map(Site::handles).filter(|handle| handle.gate.in_flight() == 0) {
        handle.ask(|proof| Msg::Stop { proof }).await;
    }
    let names = busy.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let title = format!("the daemon was told to end while unsafe calls were running in {names}");
    let mut report = Report::new(
        IncidentKind::UnsafeAfterSignal,
        operation.id.as_str(),
        Severity::Critical,
        title.as_str(),
    );
    report.operation = Some(operation.id.clone());
    report.next_prompt = Some(format!(
        "{title}. Their servers go on until those calls have ended; the next daemon waits for that and passes late answers on. Start \
         it again; what it can't find out is in the holders of operation {}.",
        operation.id
    ));
    let incident = daemon.ctx.report(&report).await;
    let incident = incident.map_or_else(String::new, |id| format!("; see incident {id}"));
    Ended::LeftRunning { message: format!("{title}; the drain's deadline has passed{incident}") }
}
