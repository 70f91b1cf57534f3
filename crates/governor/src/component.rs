//! The component's record: its generation, its process, whether something unsafe may be running in it.
//!
//! A generation is begun only when no process is recorded any more, and a process is forgotten only on proof of death:
//! two servers of one component never run side by side. Nothing here starts or stops anything.

use crate::{Replacement, Stamp, lock};
use serde::{Deserialize, Serialize};
use tidegate_core::planted::is_planted;
use tidegate_core::{
    ComponentName, Generation, IncidentId, NextAction, OperationId, ProcessIdentity, SessionId,
};
use tidegate_store::{Decision, Key, ReadError, Scope, StoreError, Txn, View};

/// Where components are kept.
pub(crate) const PREFIX: &str = "component/";

/// What a component does, as last recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ComponentState {
    /// A server is being started, or none has been yet.
    #[default]
    Starting,
    /// It serves.
    Ready,
    /// Its gate is closed and work is running out.
    Draining,
    /// Its server is being stopped, or has been and nothing follows.
    Stopping,
    /// Its server runs and has not answered its handshake yet.
    Verifying,
    /// It can't be started.
    Unavailable,
}

/// What is durable about one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Its name.
    pub name: ComponentName,
    /// Whose server it is, where it is one session's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whether each session has a server for itself, with a record of its own; this one then has no process while it serves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_session: bool,
    /// The newest generation that was begun; 0 before the first.
    pub generation: Generation,
    /// The process of that generation, until its death is proved.
    #[serde(default)]
    pub process: Option<ProcessIdentity>,
    /// What it does, as last recorded.
    pub state: ComponentState,
    /// Whether a non-read call may have been written to this generation. Sticky, because it is written once and not
    /// per call: cleared with the generation, or lazily when nothing is in flight.
    #[serde(default)]
    pub unsafe_possible: bool,
    /// How many generations were begun after the first one.
    #[serde(default)]
    pub restarts: u64,
    /// The command that it was upgraded to, in place of the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replacement>,
    /// Why it is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<IncidentId>,
    /// A number of the write that began this generation.
    #[serde(default)]
    pub stamp: String,
    /// Fields of newer minor versions, kept when rewritten.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Component {
    /// A component that was never started.
    #[must_use]
    pub fn new(name: ComponentName) -> Self {
        Self {
            name,
            session: None,
            per_session: false,
            generation: Generation::default(),
            process: None,
            state: ComponentState::default(),
            unsafe_possible: false,
            restarts: 0,
            replaced: None,
            incident: None,
            stamp: String::new(),
            extra: serde_json::Map::new(),
        }
    }

    /// The key of the component `name`.
    #[must_use]
    pub fn key(name: &ComponentName) -> Key {
        #[allow(clippy::expect_used)] // A name is at most 128 bytes without control characters.
        Key::new(&format!("{PREFIX}{name}")).expect("a component's key is valid")
    }

    /// The component as `view` shows it, or one that was never started.
    ///
    /// # Errors
    /// [`ReadError::Malformed`].
    pub fn read(view: &View, name: &ComponentName) -> Result<Self, ReadError> {
        Ok(view.read(&Self::key(name))?.unwrap_or_else(|| Self::new(name.clone())))
    }

    /// The next generation: nothing runs in it and nothing unsafe has been written to it.
    pub(crate) fn begin(&mut self, stamp: &Stamp) {
        if self.generation > Generation::default() {
            self.restarts += 1;
        }
        self.generation = self.generation.next();
        self.state = ComponentState::Starting;
        self.unsafe_possible = false;
        self.incident = None;
        self.stamp = stamp.to_string();
    }

    pub(crate) fn put(&self, view: &View) -> Txn {
        Txn::new().put(view, &Self::key(&self.name), self)
    }
}

/// A change of a component's record that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentError {
    /// An operation owns it.
    #[error(
        "{component} belongs to operation {operation}, which starts and stops it; wait until that one has ended"
    )]
    Owned {
        /// The component.
        component: ComponentName,
        /// The owner.
        operation: OperationId,
    },
    /// The predecessor's death isn't proved.
    #[error("generation {generation} of {component} may still be running (pid {}); prove its death before the next start", process.pid)]
    StillRunning {
        /// The component.
        component: ComponentName,
        /// Its generation.
        generation: Generation,
        /// Its process.
        process: Box<ProcessIdentity>,
    },
    /// The word comes from a generation that isn't the newest.
    #[error(
        "generation {given} of {component} is over: the newest is {newest}; end what still acts for the old one"
    )]
    Stale {
        /// The component.
        component: ComponentName,
        /// The generation that the caller spoke of.
        given: Generation,
        /// The newest one.
        newest: Generation,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ReadError> for ComponentError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

impl ComponentError {
    /// What the caller does next.
    #[must_use]
    pub fn next_action(&self) -> NextAction {
        match self {
            Self::Owned { component, operation } => NextAction::WaitForRestart {
                component: component.clone(),
                operation: Some(operation.clone()),
                retry_after_ms: crate::RETRY_AFTER_MS,
            },
            _ => NextAction::ContactOperator { incident: None },
        }
    }
}

/// What the decisions on one component read.
#[must_use]
pub fn component_scope(name: &ComponentName) -> Scope {
    lock::scope(Scope::new().key(&Component::key(name)), std::slice::from_ref(name))
}

/// Records whether each session has a server for itself.
///
/// # Errors
/// [`ComponentError::Store`] when the record can't be read.
pub fn decide_per_session(
    view: &View,
    name: &ComponentName,
    per_session: bool,
) -> Result<Decision<()>, ComponentError> {
    let component = Component::read(view, name)?;
    let shared = Component { per_session, ..component.clone() };
    Ok(if shared == component { Decision::reply(()) } else { Decision::write(shared.put(view), ()) })
}

/// Records whose server this is, before its first generation.
///
/// # Errors
/// [`ComponentError::Store`] when the record can't be read.
pub fn decide_belongs(
    view: &View,
    name: &ComponentName,
    session: &SessionId,
) -> Result<Decision<()>, ComponentError> {
    let component = Component::read(view, name)?;
    let owned = Component { session: Some(session.clone()), ..component.clone() };
    Ok(if owned == component { Decision::reply(()) } else { Decision::write(owned.put(view), ()) })
}

/// Forgets a server whose session is over.
///
/// # Errors
/// [`ComponentError::StillRunning`] while it has a process.
pub fn decide_forget(view: &View, name: &ComponentName) -> Result<Decision<()>, ComponentError> {
    let component = Component::read(view, name)?;
    none_runs(&component)?;
    Ok(Decision::write(Txn::new().delete(view, &Component::key(name)), ()))
}

/// Begins the next generation outside operations: the first start, or the one after a crash.
///
/// # Errors
/// [`ComponentError::Owned`] while an operation owns the component, [`ComponentError::StillRunning`] until the
/// predecessor's death was recorded with [`decide_stopped`].
pub fn decide_begin_generation(
    view: &View,
    name: &ComponentName,
    stamp: &Stamp,
) -> Result<Decision<Component>, ComponentError> {
    let mut component = Component::read(view, name)?;
    if component.stamp == *stamp {
        return Ok(Decision::reply(component));
    }
    if let Some(operation) = lock::owner(view, name)? {
        return Err(ComponentError::Owned { component: name.clone(), operation });
    }
    none_runs(&component)?;
    component.begin(stamp);
    let txn = component.put(view).expect(view, &lock::key(name));
    Ok(Decision::write(txn, component))
}

/// Records the process of a generation, before its program runs.
///
/// # Errors
/// [`ComponentError::Stale`] for any generation but the newest, [`ComponentError::StillRunning`] when another process
/// is recorded for it.
pub fn decide_record_identity(
    view: &View,
    name: &ComponentName,
    generation: Generation,
    process: &ProcessIdentity,
) -> Result<Decision<()>, ComponentError> {
    let component = current(view, name, generation)?;
    match &component.process {
        Some(recorded) if recorded == process => Ok(Decision::reply(())),
        Some(_) => none_runs(&component).map(Decision::reply),
        None => {
            let component = Component { process: Some(process.clone()), ..component };
            Ok(Decision::write(component.put(view), ()))
        }
    }
}

/// Records the proved death of a generation's process. `state` is what the component is without it.
///
/// # Errors
/// [`ComponentError::Stale`] for any generation but the newest.
pub fn decide_stopped(
    view: &View,
    name: &ComponentName,
    generation: Generation,
    state: ComponentState,
) -> Result<Decision<Component>, ComponentError> {
    let component = current(view, name, generation)?;
    let stopped = Component { process: None, unsafe_possible: false, state, ..component.clone() };
    Ok(write_if_changed(view, &component, stopped))
}

/// Records what a component does now.
///
/// # Errors
/// [`ComponentError::Stale`] for any generation but the newest, [`ComponentError::Owned`] while an operation, which
/// records the state itself, owns the component.
pub fn decide_state(
    view: &View,
    name: &ComponentName,
    generation: Generation,
    state: ComponentState,
    incident: Option<&IncidentId>,
) -> Result<Decision<Component>, ComponentError> {
    if let Some(operation) = lock::owner(view, name)? {
        return Err(ComponentError::Owned { component: name.clone(), operation });
    }
    let component = current(view, name, generation)?;
    let unsaid = state == ComponentState::Unavailable && is_planted("an-old-server-is-not-on-record");
    let state = if unsaid { component.state } else { state };
    let now = Component { state, incident: incident.cloned(), ..component.clone() };
    Ok(write_if_changed(view, &component, now))
}

/// Marks that a non-read call may be written to this generation. To be durable before the first one is.
///
/// # Errors
/// [`ComponentError::Stale`] for any generation but the newest.
pub fn decide_mark_unsafe(
    view: &View,
    name: &ComponentName,
    generation: Generation,
) -> Result<Decision<Component>, ComponentError> {
    let component = current(view, name, generation)?;
    let marked =
        Component { unsafe_possible: !is_planted("the-unsafe-mark-is-not-made"), ..component.clone() };
    Ok(write_if_changed(view, &component, marked))
}

/// Clears the mark. Only for a caller that knows that no non-read call is in flight and holds admission closed, or
/// marks again before the next one.
///
/// # Errors
/// [`ComponentError::Stale`] for any generation but the newest.
pub fn decide_clear_unsafe(
    view: &View,
    name: &ComponentName,
    generation: Generation,
) -> Result<Decision<Component>, ComponentError> {
    let component = current(view, name, generation)?;
    let cleared = Component { unsafe_possible: false, ..component.clone() };
    Ok(write_if_changed(view, &component, cleared))
}

fn none_runs(component: &Component) -> Result<(), ComponentError> {
    match &component.process {
        None => Ok(()),
        Some(process) => Err(ComponentError::StillRunning {
            component: component.name.clone(),
            generation: component.generation,
            process: Box::new(process.clone()),
        }),
    }
}

fn current(view: &View, name: &ComponentName, given: Generation) -> Result<Component, ComponentError> {
    let component = Component::read(view, name)?;
    if component.generation == given {
        return Ok(component);
    }
    Err(ComponentError::Stale { component: name.clone(), given, newest: component.generation })
}

fn write_if_changed(view: &View, before: &Component, after: Component) -> Decision<Component> {
    if *before == after { Decision::reply(after) } else { Decision::write(after.put(view), after) }
}
