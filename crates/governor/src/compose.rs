//! One step, one commit: what the state machine wants written, joined from the decisions of the four crates.

use crate::component::{Component, ComponentState};
use crate::step::{Join, Step};
use crate::{
    Change, Effect, Event, GovernorError, Operation, Stamp, effect_of, incident, lock, ruling, step,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidegate_checkpoints::{Actions, Clear, Draft, decide_actions, decide_checkpoint};
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, NextAction, Now, SessionId};
use tidegate_drain::{Begin, Begun, DrainError, End, decide_begin, decide_end};
use tidegate_leases::{Facts, LeaseEffect, Settle, decide_settle};
use tidegate_store::{Decision, Scope, Txn, View};

/// What a step of `operation` reads when `event` has happened to it.
#[must_use]
pub fn step_scope(operation: &Operation, event: &Event) -> Scope {
    let gathered = match event {
        Event::Gathered(drafts) => drafts.iter().map(|draft| draft.session.clone()).collect(),
        _ => BTreeSet::new(),
    };
    let scope =
        lock::scope(tidegate_incidents::scope(), &operation.scope).key(&Operation::key(&operation.id));
    let scope = operation
        .scope
        .iter()
        .fold(scope, |scope, name| scope.key(&Component::key(name)).key(&tidegate_drain::key(name)));
    let scope = gathered
        .union(&operation.sessions)
        .filter(|session| operation.session.as_ref() != Some(session))
        .fold(scope, |scope, session| scope.key(&tidegate_checkpoints::key(session)));
    let scope = with_requester(scope, operation.session.as_ref());
    if event.may_settle_leases() { scope.prefix(tidegate_leases::PREFIX) } else { scope }
}

/// The record of the session that asks, added to what a decision reads.
pub(crate) fn with_requester(scope: Scope, session: Option<&SessionId>) -> Scope {
    session.into_iter().fold(scope, |scope, session| scope.key(&tidegate_checkpoints::key(session)))
}

/// That nobody waits for an approval of the operation any more.
pub(crate) fn answered(view: &View, operation: &Operation, now: &Now) -> Result<Txn, GovernorError> {
    let over = Actions::clear([Clear::Operation(operation.id.clone())]);
    let told = operation.session.iter().map(|session| (session.clone(), over.clone())).collect();
    Ok(decide_actions(view, &told, now)?.txn)
}

/// Moves an operation on: the next phase, everything that belongs to it, in one commit; and what to do then.
///
/// `known` is the operation that the event is an answer to: one that somebody else has ended since is left alone, and
/// the effect is what it asks for now. `leases` is what was seen of the leases' owners, where
/// [`Event::may_settle_leases`].
///
/// # Errors
/// [`GovernorError::Superseded`] when another governor drives the operation; those of the four crates' decisions.
pub fn decide_step(
    view: &View,
    known: &Operation,
    event: &Event,
    leases: &Facts,
    now: &Now,
    stamp: &Stamp,
) -> Result<Decision<Operation, Effect>, GovernorError> {
    let operation = ruling::find(view, &known.id)?;
    let (written, unchanged) = (operation.stamp == *stamp, operation.stamp == known.stamp);
    if !written && !unchanged && !operation.phase.is_end() {
        return Err(GovernorError::Superseded { operation: known.id.clone() });
    }
    let step = if unchanged { step::step(&operation, event, now, stamp) } else { None };
    let Some(step) = step else {
        let effect = effect_of(&operation);
        return Ok(Decision { txn: Txn::new(), reply: operation, effects: vec![effect] });
    };
    let (txn, operation) = match compose(view, step, leases, now, stamp) {
        Err(error @ GovernorError::Draining { .. }) => {
            let closed = step::step(&operation, &Event::NotClosed(error.to_string()), now, stamp);
            compose(view, closed.ok_or(error)?, leases, now, stamp)?
        }
        composed => composed?,
    };
    let too_early = is_planted("stopped-before-that-is-durable") && operation.phase == crate::Phase::Stopping;
    let txn = if too_early { Txn::new() } else { txn };
    let effect = effect_of(&operation);
    Ok(Decision { txn, reply: operation, effects: vec![effect] })
}

/// The one transaction of a step.
pub(crate) fn compose(
    view: &View,
    step: Step,
    leases: &Facts,
    now: &Now,
    stamp: &Stamp,
) -> Result<(Txn, Operation), GovernorError> {
    let mut commit = Commit::new(view, step.operation, leases, now, stamp)?;
    for join in step.joins {
        commit.join(join)?;
    }
    commit.finish()
}

struct Commit<'a> {
    view: &'a View,
    operation: Operation,
    leases: &'a Facts,
    now: &'a Now,
    stamp: &'a Stamp,
    txn: Txn,
    components: BTreeMap<ComponentName, Component>,
    drafts: Vec<Draft>,
    actions: BTreeMap<SessionId, Actions>,
    incidents: usize,
}

impl<'a> Commit<'a> {
    fn new(
        view: &'a View,
        operation: Operation,
        leases: &'a Facts,
        now: &'a Now,
        stamp: &'a Stamp,
    ) -> Result<Self, GovernorError> {
        let mut components = BTreeMap::new();
        for name in &operation.scope {
            components.insert(name.clone(), Component::read(view, name)?);
        }
        let (txn, drafts, actions) = (Txn::new(), Vec::new(), BTreeMap::new());
        Ok(Self { view, operation, leases, now, stamp, txn, components, drafts, actions, incidents: 0 })
    }

    fn add(&mut self, txn: Txn) {
        self.txn = std::mem::take(&mut self.txn).and(txn);
    }

    fn join(&mut self, join: Join) -> Result<(), GovernorError> {
        match join {
            Join::BeginDrain => self.begin_drain(),
            Join::EndDrain(end) => self.end_drain(&end),
            Join::Checkpoint(drafts) => {
                self.drafts = drafts.into_iter().map(|draft| self.told_to_wait(draft)).collect();
                Ok(())
            }
            Join::Tell => {
                self.tell();
                Ok(())
            }
            Join::SettleLeases => self.settle_leases(),
            Join::Incident(trouble) => {
                let id = self.report(&incident::of_trouble(&self.operation, trouble))?;
                self.operation.incident = Some(id);
                Ok(())
            }
            Join::Dead(names) => {
                for name in names {
                    self.components.entry(name).and_modify(|component| {
                        component.process = None;
                        component.unsafe_possible = false;
                    });
                }
                Ok(())
            }
            Join::BeginGenerations => {
                self.begin_generations();
                Ok(())
            }
            Join::State(names, state) => {
                for name in names {
                    self.components.entry(name).and_modify(|component| component.state = state);
                }
                Ok(())
            }
            Join::Restore => {
                self.restore();
                Ok(())
            }
            Join::Release => {
                self.add(lock::release(self.view, &self.operation)?);
                Ok(())
            }
        }
    }

    fn begin_drain(&mut self) -> Result<(), GovernorError> {
        let Some(drain) = &self.operation.drain else { return Ok(()) };
        for (name, component) in &self.components {
            self.operation.generations.entry(name.clone()).or_default().before = component.generation;
        }
        let begin = Begin {
            id: drain.id.clone(),
            operation: Some(self.operation.id.clone()),
            scope: self.operation.scope.clone(),
            requested_by: self.operation.requested_by.clone(),
            deadline: self.operation.drain_deadline,
        };
        let decision = decide_begin(self.view, &begin, &self.operation.scope, self.now)?;
        match decision.reply {
            Begun::Started(_) => {
                self.add(decision.txn);
                Ok(())
            }
            Begun::Already(other) => Err(GovernorError::Draining { drain: other.id, by: other.requested_by }),
        }
    }

    fn end_drain(&mut self, end: &End) -> Result<(), GovernorError> {
        let Some(drain) = &self.operation.drain else { return Ok(()) };
        match decide_end(self.view, &self.operation.scope, &drain.id, end, self.now) {
            Ok(decision) => self.add(decision.txn),
            // Over already: nothing is left to end. Going on to stop servers on it would be another matter.
            Err(DrainError::NotUnderWay { .. }) if *end != End::Drained => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// From this commit until the operation's end the session's next action is to wait.
    fn told_to_wait(&self, mut draft: Draft) -> Draft {
        let waits = self.operation.scope.iter().filter(|name| draft.covers.contains(*name));
        let waits: Vec<NextAction> = waits
            .map(|component| NextAction::WaitForRestart {
                component: component.clone(),
                operation: Some(self.operation.id.clone()),
                retry_after_ms: crate::RETRY_AFTER_MS,
            })
            .collect();
        draft.actions.add.extend(waits);
        draft
    }

    /// The waiting is over: other tools are news, and what is missing is an operator's business.
    fn tell(&mut self) {
        let mut add: Vec<NextAction> = Vec::new();
        for (component, verified) in &self.operation.verified {
            if !verified.added.is_empty() || !verified.removed.is_empty() {
                add.push(NextAction::RefreshTools {
                    component: component.clone(),
                    added: verified.added.clone(),
                    removed: verified.removed.clone(),
                });
            }
        }
        if !self.operation.failures.is_empty() {
            add.push(NextAction::ContactOperator { incident: self.operation.incident.clone() });
        }
        for session in &self.operation.sessions {
            let actions = self.actions.entry(session.clone()).or_default();
            if !is_planted("the-wait-outlives-the-restart") {
                actions.clear.push(Clear::Operation(self.operation.id.clone()));
            }
            actions.add.extend(add.iter().cloned());
        }
    }

    fn settle_leases(&mut self) -> Result<(), GovernorError> {
        let Some(drain) = &mut self.operation.drain else { return Ok(()) };
        let since = if drain.deadline.boot == self.now.boot { drain.settled_ms } else { self.now.boot_ms };
        drain.settled_ms = self.now.boot_ms;
        let settle = Settle {
            restart: format!("{}@{}", self.operation.id, self.operation.phase),
            sessions: self.operation.sessions.clone(),
            held: Duration::from_millis(self.now.since(since)),
        };
        let decision = decide_settle(self.view, &settle, self.leases, self.now)?;
        self.add(decision.txn);
        for effect in &decision.effects {
            if let Some(report) = incident::of_orphan(effect, Some(&self.operation.id)) {
                self.report(&report)?;
            }
            if let LeaseEffect::Lost { key, session, .. } = effect {
                let lost = NextAction::ReacquireLease { lease: key.as_str().to_owned(), unnamed: false };
                self.actions.entry(session.clone()).or_default().add.push(lost);
            }
        }
        Ok(())
    }

    fn report(
        &mut self,
        report: &tidegate_incidents::Report,
    ) -> Result<tidegate_core::IncidentId, GovernorError> {
        let (txn, id) = incident::report(self.view, report, self.stamp, self.incidents, self.now)?;
        self.incidents += 1;
        self.add(txn);
        Ok(id)
    }

    fn begin_generations(&mut self) {
        for name in &self.operation.pending {
            if let Some(component) = self.components.get_mut(name) {
                component.begin(self.stamp);
                self.operation.generations.entry(name.clone()).or_default().after =
                    Some(component.generation);
            }
        }
    }

    /// What each component is when the gates open: what the operation made of it, or else what it was.
    fn restore(&mut self) {
        for (name, component) in &mut self.components {
            if self.operation.failures.contains_key(name) {
                component.state = ComponentState::Unavailable;
                component.incident = self.operation.incident.clone();
            } else if self.operation.intent.ends_daemon() && component.process.is_none() {
                component.state = ComponentState::Stopping;
            } else {
                let there = component.per_session || component.process.is_some();
                let serves = there && component.incident.is_none();
                component.state = if serves { ComponentState::Ready } else { ComponentState::Unavailable };
            }
            if self.operation.phase == crate::Phase::Completed {
                match self.operation.upgrade.changes.get(name) {
                    Some(Change::Command(replacement)) => component.replaced = Some(replacement.clone()),
                    Some(Change::Configured) => component.replaced = None,
                    None => {}
                }
            }
        }
    }

    fn finish(mut self) -> Result<(Txn, Operation), GovernorError> {
        if self.operation.phase.is_end()
            && let Some(session) = &self.operation.session
        {
            let over = Clear::Operation(self.operation.id.clone());
            self.actions.entry(session.clone()).or_default().clear.push(over);
        }
        // One record, one write: what is to be told of leases goes into the session's draft where there is one.
        for draft in &mut self.drafts {
            if let Some(actions) = self.actions.remove(&draft.session) {
                draft.actions.clear.extend(actions.clear);
                draft.actions.add.extend(actions.add);
            }
        }
        let checkpoints = decide_checkpoint(self.view, &self.drafts, self.now)?.txn;
        let told = decide_actions(self.view, &self.actions, self.now)?.txn;
        self.add(checkpoints.and(told));
        for component in self.components.values() {
            if *component != Component::read(self.view, &component.name)? {
                let txn = component.put(self.view);
                self.txn = std::mem::take(&mut self.txn).and(txn);
            }
        }
        let key = Operation::key(&self.operation.id);
        Ok((self.txn.put(self.view, &key, &self.operation), self.operation))
    }
}
