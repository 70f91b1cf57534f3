//! Ending a tree of processes, and the proof that it has ended.
//!
//! Every wait is bounded. Success is only ever reported with proof; what can't be proved is an error that names the
//! processes. It never decides whether a tree may be ended: an unsafe call may be running in it, and only callers know.

use super::census::{census, signal};
use super::stdin::ServerStdin;
use super::tree::{Member, Members};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::time::Duration;
use tidegate_core::ProcessIdentity;
use tidegate_host::{HostError, boot_id, pid_namespace};
use tokio::sync::watch;
use tokio::time::Instant;

/// What a tree gets between SIGTERM and SIGKILL: enough to flush files, short against a drain.
const TERM_WAIT: Duration = Duration::from_secs(5);
/// How long the kernel may take to end what was killed: only a process stuck in a device takes longer.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long members that nothing vouches for are waited for: most often they are on their way out, and show nothing of
/// themselves any more.
const DOUBT_WAIT: Duration = Duration::from_secs(2);
/// What children get once the server's own process has exited: it is the one that was to wait for them.
const ORPHAN_GRACE: Duration = Duration::from_millis(250);
/// The first pause between two looks at the tree; each is twice as long as the one before…
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// …up to this: a look reads every process of the machine.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// What was done to end a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Its input was closed.
    CloseInput,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

impl fmt::Display for StopStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CloseInput => "closed its input",
            Self::Terminate => "SIGTERM",
            Self::Kill => "SIGKILL",
        })
    }
}

/// A tree that has ended, proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopReport {
    /// It had to be signalled.
    pub(crate) unclean: bool,
    /// What was done, in order.
    pub(crate) steps: Vec<StopStep>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// A tree of which it isn't proved that it has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StopError {
    /// Some of it runs on.
    #[error("processes {pids:?} of the server are still running; end them by hand, then start it again")]
    TreeSurvived {
        /// Which.
        pids: Vec<u32>,
    },
    /// It was started in another pid namespace.
    #[error("the server was started in another pid namespace (container): its end can't be proved from here")]
    OutOfSight,
    /// `/proc` can't be read.
    #[error("whether the server has ended can't be told")]
    Blind(#[source] io::Error),
}

impl StopError {
    /// The stop itself was cut short, so that there is no proof.
    pub(crate) fn cut_short(error: &dyn fmt::Display) -> Self {
        Self::Blind(io::Error::other(error.to_string()))
    }
}

impl From<HostError> for StopError {
    fn from(error: HostError) -> Self {
        Self::Blind(io::Error::other(error))
    }
}

/// What is known of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreeState {
    /// Proved gone.
    Gone,
    /// These run, or nobody can say that they aren't of it.
    Running {
        /// Their pids.
        pids: Vec<u32>,
    },
}

/// What to do with members of the tree's group that nothing vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The daemon has seen the leader live and die: the group's number can't have been given away yet.
    IsOurs,
    /// The number may be a stranger's by now: it blocks the proof, and is never signalled.
    IsSpared,
}

/// Whether the tree of a server that an earlier daemon has started is gone, after waiting for that at most `limit`.
///
/// # Cancel safety
/// Safe: it only looks.
///
/// # Errors
/// [`StopError::OutOfSight`], [`StopError::Blind`]: cannot tell, which counts as alive.
pub(crate) async fn await_old_tree(
    leader: &ProcessIdentity,
    limit: Duration,
) -> Result<TreeState, StopError> {
    if !is_of_this_boot(leader)? {
        return Ok(TreeState::Gone);
    }
    let mut tree = Tree { leader, doubt: Doubt::IsSpared, known: BTreeSet::new() };
    let pids = tree.left_after(limit).await?;
    Ok(if pids.is_empty() { TreeState::Gone } else { TreeState::Running { pids } })
}

/// Ends the tree of a server that an earlier daemon has started: SIGTERM, SIGKILL, proof.
///
/// Not to be called while an unsafe call may be running in it.
///
/// # Cancel safety
/// Steps taken stay taken; call it again.
///
/// # Errors
/// [`StopError`] when there is no proof.
pub(crate) async fn end_old_tree(leader: &ProcessIdentity) -> Result<StopReport, StopError> {
    let began = Instant::now();
    if !is_of_this_boot(leader)? {
        return Ok(StopReport { unclean: false, steps: Vec::new(), took: Duration::ZERO });
    }
    let mut tree = Tree { leader, doubt: Doubt::IsSpared, known: BTreeSet::new() };
    let mut steps = Vec::new();
    tree.force(&mut steps).await?;
    Ok(report(steps, began))
}

/// Ends a server of this daemon. `exit` tells of the end of its own process.
pub(super) async fn stop(
    leader: &ProcessIdentity,
    stdin: &ServerStdin,
    exit: &watch::Receiver<Option<super::Exit>>,
    grace: Duration,
    doubt: Doubt,
) -> Result<StopReport, StopError> {
    let began = Instant::now();
    let mut tree = Tree { leader, doubt, known: BTreeSet::new() };
    // Once before anything ends: descendants are told by their parents.
    tree.look().await?;
    stdin.close().await;
    let mut steps = vec![StopStep::CloseInput];
    // An error: nobody waits for the process any more; the census will tell.
    let _ = tokio::time::timeout(grace, exit.clone().wait_for(Option::is_some)).await;
    let orphans = ORPHAN_GRACE.min(grace.saturating_sub(began.elapsed()));
    if !tree.left_after(orphans).await?.is_empty() {
        tree.force(&mut steps).await?;
    }
    Ok(report(steps, began))
}

fn report(steps: Vec<StopStep>, began: Instant) -> StopReport {
    let unclean = steps.iter().any(|step| *step != StopStep::CloseInput);
    StopReport { unclean, steps, took: began.elapsed() }
}

/// Whether a proof by `/proc` says anything; no: everything of that boot is gone.
fn is_of_this_boot(leader: &ProcessIdentity) -> Result<bool, StopError> {
    if leader.boot != boot_id()? {
        return Ok(false);
    }
    if leader.pid_ns != pid_namespace(std::process::id())? {
        return Err(StopError::OutOfSight);
    }
    Ok(true)
}

struct Tree<'a> {
    leader: &'a ProcessIdentity,
    doubt: Doubt,
    /// Everybody who was surely of it at any time.
    known: BTreeSet<Member>,
}

impl Tree<'_> {
    /// One census, on a thread that may block; remembers who was seen.
    async fn look(&mut self) -> Result<Members, StopError> {
        let (leader, known) = (self.leader.clone(), self.known.clone());
        let looked = tokio::task::spawn_blocking(move || census(&leader, &known)).await;
        let mut found = looked.map_err(|e| StopError::Blind(e.into()))??;
        if self.doubt == Doubt::IsOurs {
            found.group_is_ours |= !found.doubtful.is_empty();
            found.ours.append(&mut found.doubtful);
        }
        self.known.extend(&found.ours);
        Ok(found)
    }

    /// Looks until nothing is left, at most `limit`; says who is.
    async fn left_after(&mut self, limit: Duration) -> Result<Vec<u32>, StopError> {
        let left = self.looks(limit, Members::is_empty, |_, _| {}).await?;
        Ok(left.pids())
    }

    /// Looks until `done`, doing something about what was found each time; gives what was found last.
    async fn looks(
        &mut self,
        limit: Duration,
        done: fn(&Members) -> bool,
        each: fn(&ProcessIdentity, &Members),
    ) -> Result<Members, StopError> {
        let until = Instant::now() + limit;
        let mut pause = FIRST_LOOK;
        loop {
            let found = self.look().await?;
            if done(&found) {
                return Ok(found);
            }
            each(self.leader, &found);
            if Instant::now() >= until {
                return Ok(found);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// SIGTERM once, then SIGKILL until nothing is left that may be signalled.
    async fn force(&mut self, steps: &mut Vec<StopStep>) -> Result<(), StopError> {
        let nobody_to_signal = |found: &Members| found.ours.is_empty();
        let found = self.look().await?;
        if !found.ours.is_empty() {
            steps.push(StopStep::Terminate);
            signal(self.leader, &found.ours, found.group_is_ours, Signal::TERM);
        }
        let mut left = self.looks(TERM_WAIT, nobody_to_signal, |_, _| {}).await?;
        if !left.ours.is_empty() {
            steps.push(StopStep::Kill);
            let kill = |leader: &ProcessIdentity, found: &Members| {
                signal(leader, &found.ours, found.group_is_ours, Signal::KILL);
            };
            left = self.looks(KILL_WAIT, nobody_to_signal, kill).await?;
        }
        if left.ours.is_empty() {
            left = self.looks(DOUBT_WAIT, Members::is_empty, |_, _| {}).await?;
        }
        if left.is_empty() { Ok(()) } else { Err(StopError::TreeSurvived { pids: left.pids() }) }
    }
}
