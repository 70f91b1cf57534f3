//! What a governor needs done: the hands that close gates, stop servers and start them. Implemented by the gateway
//! and by the simulator; the governor tells them what to do only once it is durable.

use crate::{Change, ComponentError, LaunchIdentity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_checkpoints::Draft;
use tidegate_core::{
    BoxFuture, ComponentName, Deadline, DrainId, Generation, IncidentId, OperationId, ProcessIdentity,
};
use tidegate_drain::{Holder, Verdict};

/// Makes a started process's identity durable. Handed to [`Actuator::start`].
pub trait RecordIdentity: Send + Sync {
    /// Records who the new generation's process is.
    ///
    /// The server's own program must not run before this has returned `Ok`; when it returns an error the process must
    /// be killed without ever having run it.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the identity was recorded.
    ///
    /// # Errors
    /// [`ComponentError`] when the generation isn't the newest one any more or the store failed.
    fn record<'a>(&'a self, process: &'a ProcessIdentity) -> BoxFuture<'a, Result<(), ComponentError>>;
}

/// A gate that another drain has closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the gate of {component} is closed by the drain {by}")]
pub struct CloseError {
    /// Whose gate.
    pub component: ComponentName,
    /// The drain that holds it closed.
    pub by: DrainId,
}

/// A server whose death could not be proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component} could not be stopped: {message}")]
pub struct StopError {
    /// The component.
    pub component: ComponentName,
    /// What was seen: which pid, what is left of its tree.
    pub message: String,
}

/// A server that did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component} could not be started: {message}")]
pub struct StartError {
    /// The component.
    pub component: ComponentName,
    /// What failed.
    pub message: String,
    /// The end of what it wrote to stderr.
    pub stderr: String,
}

/// A server that runs and doesn't answer as a server should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component} did not pass verification: {message}")]
pub struct VerifyError {
    /// The component.
    pub component: ComponentName,
    /// Which step of the handshake or the lists failed, and how.
    pub message: String,
    /// The end of what it wrote to stderr.
    pub stderr: String,
}

/// What a handshake and the lists of a new generation showed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// How many tools it offers.
    pub tools: usize,
    /// The version that the server states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that the generation before stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// Tools that the generation before didn't have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Tools that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// What the sessions of a component are to be told of their new generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// The operation that brought it.
    pub operation: OperationId,
    /// The component.
    pub component: ComponentName,
    /// The generation that serves now.
    pub generation: Generation,
    /// What its verification showed.
    pub verified: Verified,
}

/// The hands of a governor.
///
/// Every method may be called again for the same thing: after a crash the governor repeats the step that it cannot
/// know to have happened. Each says what a repetition has to do. Methods never decide: what fails is reported.
///
/// # Cancel safety
/// Each future may be dropped at any await. Whatever it has done by then must be found by the repetition.
pub trait Actuator: Send + Sync {
    /// What `component` would be started as now, with its executable resolved and hashed; `None` when there is no such component.
    fn launch<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Option<LaunchIdentity>>;

    /// As [`launch`](Self::launch), after `change`. Without an implementation nothing can be changed.
    fn launch_as<'a>(
        &'a self,
        component: &'a ComponentName,
        change: &'a Change,
    ) -> BoxFuture<'a, Option<LaunchIdentity>> {
        let _ = (component, change);
        Box::pin(async { None })
    }

    /// Closes the gates of `scope` for `drain`: all of them or, on an error, none that it had not closed before.
    /// Repeated: a gate that this drain has closed stays closed and is no error.
    ///
    /// # Errors
    /// [`CloseError`] naming a gate that another drain holds.
    fn close<'a>(
        &'a self,
        scope: &'a [ComponentName],
        drain: &'a DrainId,
    ) -> BoxFuture<'a, Result<(), CloseError>>;

    /// Opens the gates that `drain` holds closed and releases, in order, what was held at them. Always the last step.
    /// Repeated: a gate that is open, or that another drain has closed, is left alone.
    fn reopen<'a>(&'a self, scope: &'a [ComponentName], drain: &'a DrainId) -> BoxFuture<'a, ()>;

    /// Waits until the work in flight allows a verdict or `deadline` has passed; never answers `Wait`. Calls `progress` with the holders
    /// when it begins, when they change, and about once a second.
    fn await_drain<'a>(
        &'a self,
        scope: &'a [ComponentName],
        drain: &'a DrainId,
        deadline: Deadline,
        progress: &'a (dyn Fn(&[Holder]) + Send + Sync),
    ) -> BoxFuture<'a, Verdict>;

    /// Ends what earlier servers of `scope` have left, before anything that serves is stopped. One in which an unsafe call may
    /// be running is waited for until `deadline`, and never ended. Answers what isn't proved gone by then, and why. Without
    /// an implementation nothing is ever left. Repeated: proves it again.
    fn settle_left<'a>(
        &'a self,
        scope: &'a [ComponentName],
        deadline: Deadline,
    ) -> BoxFuture<'a, BTreeMap<ComponentName, String>> {
        let _ = (scope, deadline);
        Box::pin(async { BTreeMap::new() })
    }

    /// The facts of every session that has anything to do with `scope`, gathered behind closed gates. Changes nothing.
    ///
    /// A draft says what its session will have lost (`StateReset`); that it is to wait, and for what, is added to it.
    fn session_facts<'a>(&'a self, scope: &'a [ComponentName]) -> BoxFuture<'a, Vec<Draft>>;

    /// Stops the server of `component`. `Ok` is proof of death of its whole tree, and of nothing less.
    /// Repeated: proves it again; a component without a server is proved at once.
    ///
    /// # Errors
    /// [`StopError`] when something of its tree may still be alive, or must not be killed because an unsafe call may be
    /// running in it.
    fn stop<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<(), StopError>>;

    /// As [`stop`](Self::stop), whatever may be running in the server: an operator has said so.
    ///
    /// # Errors
    /// [`StopError`] when something of its tree may still be alive.
    fn abandon<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<(), StopError>> {
        self.stop(component)
    }

    /// Starts `launch` as `generation` of `component`, recording the process's identity before its program runs.
    /// Never called before the predecessor's death was proved. A component that has several servers starts them all, and
    /// keeps their identities itself.
    ///
    /// # Errors
    /// [`StartError`] when it could not be started; `stop` is called before the next start.
    fn start<'a>(
        &'a self,
        component: &'a ComponentName,
        generation: Generation,
        launch: &'a LaunchIdentity,
        identity: &'a dyn RecordIdentity,
    ) -> BoxFuture<'a, Result<(), StartError>>;

    /// Verifies a started server by a handshake and its lists, never by a tool call.
    ///
    /// # Errors
    /// [`VerifyError`] when it didn't answer as a server should.
    fn verify<'a>(&'a self, component: &'a ComponentName) -> BoxFuture<'a, Result<Verified, VerifyError>>;

    /// Hands the component over to its new generation: replays read-only calls, tells the sessions. The gate is still
    /// closed. Repeated, or when that generation doesn't run here any more: does nothing.
    fn resumed<'a>(&'a self, resumed: &'a Resumed) -> BoxFuture<'a, ()>;

    /// From now on `component` answers `unavailable` with this incident, until it is started again. Repeated: the same.
    fn unavailable<'a>(&'a self, component: &'a ComponentName, incident: &'a IncidentId)
    -> BoxFuture<'a, ()>;
}
