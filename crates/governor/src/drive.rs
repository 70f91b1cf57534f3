//! Drives an operation: commits a step, does what it asks for, feeds what came of it into the next step.
//!
//! It acts on nothing that isn't durable, and keeps nothing that a crash could take: dropped at any await and picked up
//! by [`Governor::recover`], here or in another process, the operation is completed or undone.

use crate::compose::{decide_step, step_scope};
use crate::{
    Actuator, Changes, CloseError, Effect, Event, Governor, GovernorError, LaunchIdentity, Launches,
    Operation, Phase, join, list_operations, step,
};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, Deadline, DrainId, Generation, OperationId};
use tidegate_drain::Holder;
use tidegate_leases::Facts;
use tidegate_store::{View, transact};

/// The most that is kept of an error's message, and of the end of a failed server's stderr, in bytes each.
pub const MAX_SAID_BYTES: usize = 2_048;

impl Governor {
    /// Carries an approved operation out, to its end. Answers at once for one that waits or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future is a crash of the governor: call [`settle`](Self::settle), or [`recover`](Self::recover) in
    /// the next process.
    ///
    /// # Errors
    /// [`GovernorError::AlreadyDriven`]; the store's and the four crates'. What was reached is durable then, and gates
    /// that were closed stay closed until [`settle`](Self::settle) succeeds.
    pub async fn run(&self, id: &OperationId, actuator: &dyn Actuator) -> Result<Operation, GovernorError> {
        let operation = self.get(id).await?;
        // Anything but a beginning was begun by somebody who is gone.
        let begins = operation.phase == Phase::Approved;
        self.drive(id, if begins { Event::Changed } else { Event::Interrupted }, actuator).await
    }

    /// Brings one operation that nobody drives any more to its end: undone, with an incident, where nothing was
    /// stopped yet, and otherwise carried forward. To be called again, after a while, when it fails.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn settle(
        &self,
        id: &OperationId,
        actuator: &dyn Actuator,
    ) -> Result<Operation, GovernorError> {
        self.drive(id, Event::Interrupted, actuator).await
    }

    /// [Settles](Self::settle) every operation that a crash has left under way. Call it before any gate opens.
    ///
    /// # Errors
    /// The first error, after all have been tried; call it again.
    pub async fn recover(&self, actuator: &dyn Actuator) -> Result<Vec<Operation>, GovernorError> {
        let mut settled = Vec::new();
        let mut failed = None;
        for operation in list_operations(&*self.shared.parts.store).await? {
            let left = operation.phase.is_running() || operation.is_to_reopen();
            if !left || self.is_driven(&operation.id) {
                continue;
            }
            match self.settle(&operation.id, actuator).await {
                Ok(operation) => settled.push(operation),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.mark_recovered();
        Ok(settled)
    }

    async fn drive(
        &self,
        id: &OperationId,
        mut event: Event,
        actuator: &dyn Actuator,
    ) -> Result<Operation, GovernorError> {
        let _driving = self.take(id)?;
        let mut operation = self.get(id).await?;
        let closes = !is_planted("gates-stay-open-after-a-crash");
        if closes && event == Event::Interrupted && operation.phase.is_past_return() {
            self.close_again(&operation, actuator).await?;
        }
        loop {
            let (next, effect) = self.step(&operation, &event).await?;
            operation = next;
            event = match self.perform(&operation, effect, actuator).await {
                Some(event) => event,
                None => return Ok(operation),
            };
        }
    }

    /// A process that comes back to stopped servers closes their gates before it does anything else.
    async fn close_again(&self, operation: &Operation, actuator: &dyn Actuator) -> Result<(), CloseError> {
        match &operation.drain {
            Some(drain) => actuator.close(&operation.scope, &drain.id).await,
            None => Ok(()),
        }
    }

    async fn step(&self, known: &Operation, event: &Event) -> Result<(Operation, Effect), GovernorError> {
        let (parts, stamp) = (&self.shared.parts, self.stamp());
        let decide = |view: &View| {
            let leases = if event.may_settle_leases() {
                Facts::gather(view, &*parts.probe, &*parts.sessions)?
            } else {
                Facts::none()
            };
            decide_step(view, known, event, &leases, &self.now(), &stamp)
        };
        let mut done = transact(&*parts.store, &step_scope(known, event), decide).await?;
        self.tell();
        Ok((done.reply, done.effects.pop().unwrap_or(Effect::None)))
    }

    /// Does what the durable operation asks for; `None` when that is nothing.
    async fn perform(&self, operation: &Operation, effect: Effect, actuator: &dyn Actuator) -> Option<Event> {
        let scope = &operation.scope;
        Some(match effect {
            Effect::None => return None,
            Effect::Identify => {
                let changes = &operation.upgrade.changes;
                let current = self.launches(scope, changes, actuator).await;
                let previous = match changes.is_empty() {
                    true => Launches::new(),
                    false => self.launches(scope, &Changes::new(), actuator).await,
                };
                Event::Identified { current, previous, drain: self.stamp().drain() }
            }
            Effect::Drain { drain, deadline } => self.drain(operation, &drain, deadline, actuator).await,
            Effect::Gather => gather(operation, actuator).await,
            Effect::Stop(names) => {
                let stop = async |name: ComponentName| {
                    let stopped = match operation.abandon_unsafe {
                        true => actuator.abandon(&name).await,
                        false => actuator.stop(&name).await,
                    };
                    (name, stopped.map_err(|error| error.message))
                };
                let stopped = join::all(names.into_iter().map(stop)).await;
                if let (true, Some(drain)) = (is_planted("reopened-while-stopped"), &operation.drain) {
                    actuator.reopen(scope, &drain.id).await;
                }
                Event::Stopped(stopped)
            }
            Effect::Start(launches) => {
                let start = async |(name, generation, launch)| {
                    let result = self.start(&name, generation, &launch, actuator).await;
                    (name, result)
                };
                Event::Started(join::all(launches.into_iter().map(start)).await)
            }
            Effect::Verify(names) => {
                let verify = async |name: ComponentName| {
                    let result = actuator.verify(&name).await;
                    (name, result.map_err(|error| said(&error.message, &error.stderr)))
                };
                Event::Verified(join::all(names.into_iter().map(verify)).await)
            }
            Effect::Reopen { drain, resumed, unavailable } => {
                for resumed in &resumed {
                    actuator.resumed(resumed).await;
                }
                for (name, incident) in &unavailable {
                    actuator.unavailable(name, incident).await;
                }
                actuator.reopen(scope, &drain).await;
                Event::Reopened
            }
        })
    }

    async fn start(
        &self,
        name: &ComponentName,
        generation: Generation,
        launch: &LaunchIdentity,
        actuator: &dyn Actuator,
    ) -> Result<(), String> {
        let recorder = self.components().recorder(name, generation);
        let started = actuator.start(name, generation, launch, &recorder).await;
        started.map_err(|error| said(&error.message, &error.stderr))
    }

    /// Closes the gates and waits for the verdict, or until somebody has ended the operation.
    async fn drain(
        &self,
        operation: &Operation,
        drain: &DrainId,
        deadline: Deadline,
        actuator: &dyn Actuator,
    ) -> Event {
        if is_planted("counted-before-closed") {
            let verdict = actuator.await_drain(&operation.scope, drain, deadline, &|_| {}).await;
            let _ = actuator.session_facts(&operation.scope).await;
            let closed = actuator.close(&operation.scope, drain).await;
            return closed.map_or_else(|e| Event::NotClosed(e.to_string()), |()| Event::Drained(verdict));
        }
        if let Err(error) = actuator.close(&operation.scope, drain).await {
            return Event::NotClosed(error.to_string());
        }
        let progress = |holders: &[Holder]| self.progress(&operation.id, step::bounded(holders));
        let mut verdict = actuator.await_drain(&operation.scope, drain, deadline, &progress);
        loop {
            let changed = self.changed();
            // A store that can't be read says nothing about the drain: its verdict is waited for all the same.
            if self.get(&operation.id).await.is_ok_and(|now| now.phase != operation.phase) {
                return Event::Changed;
            }
            let mut changed = pin!(changed);
            let decided = poll_fn(|context| {
                if let Poll::Ready(verdict) = verdict.as_mut().poll(context) {
                    return Poll::Ready(Some(verdict));
                }
                changed.as_mut().poll(context).map(|()| None)
            })
            .await;
            if let Some(verdict) = decided {
                if is_planted("reopened-before-the-incident-is-durable")
                    && matches!(verdict, tidegate_drain::Verdict::Refused { .. })
                {
                    actuator.reopen(&operation.scope, drain).await;
                }
                return Event::Drained(verdict);
            }
        }
    }
}

/// What earlier servers have left comes first: nothing that serves is stopped as long as nothing can take its place. Whoever
/// cuts unsafe calls, or ends the daemon, stops what can be stopped.
async fn gather(operation: &Operation, actuator: &dyn Actuator) -> Event {
    let waits = !operation.abandon_unsafe && !operation.intent.ends_daemon();
    if let Some(drain) = operation.drain.as_ref().filter(|_| waits) {
        let left = actuator.settle_left(&operation.scope, drain.deadline).await;
        if !left.is_empty() {
            return Event::Blocked(left);
        }
    }
    Event::Gathered(actuator.session_facts(&operation.scope).await)
}

/// What a failed server said, in one text: the beginning of the message and the end of its stderr.
fn said(message: &str, stderr: &str) -> String {
    let message = &message[..message.floor_char_boundary(MAX_SAID_BYTES)];
    let stderr = stderr.trim();
    let stderr = &stderr[stderr.ceil_char_boundary(stderr.len().saturating_sub(MAX_SAID_BYTES))..];
    if stderr.is_empty() { message.to_owned() } else { format!("{message}; stderr: {stderr}") }
}
