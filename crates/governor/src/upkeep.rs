//! What a daemon records outside of operations, several crates' records in one commit: leases that ran out with the
//! incidents of those that are orphaned, and calls whose client or whose server is gone, with what their sessions are to do.

use crate::incident::names_in;
use crate::{GovernorError, Stamp, of_orphan};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_checkpoints::{
    CallFact, CallState, Checkpoint, Draft, decide_answered_late, decide_checkpoint,
    scope as scope_of_sessions,
};
use tidegate_core::planted::is_planted;
use tidegate_core::{
    Clock, ComponentName, Entropy, Generation, IncidentId, LateAnswer, NextAction, Now, OpenCall, SessionId,
};
use tidegate_incidents::{
    Incident, IncidentKind, IncidentState, Report, Severity, WhoIsNext, decide_recovered, decide_report, find,
};
use tidegate_leases::{LeaseEffect, Leases, decide_sweep, sweep_scope};
use tidegate_store::{Decision, Scope, Store, View, transact};

/// Records what happens outside of operations. Cheap to clone.
#[derive(Clone)]
pub struct Upkeep {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Upkeep {
    /// Records kept in `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { store, clock, entropy }
    }

    /// Writes down which leases have run out; what is orphaned by it gets its incident in the same commit. To be called
    /// every [`SWEEP_EVERY`](tidegate_leases::SWEEP_EVERY). Answers whom it concerns.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it was written, all or nothing; the next sweep goes on from there.
    ///
    /// # Errors
    /// The store's.
    pub async fn sweep(&self, leases: &Leases) -> Result<Vec<LeaseEffect>, GovernorError> {
        leases.observe();
        let stamp = Stamp::fresh(&*self.entropy);
        let decide = |view: &View| -> Result<Decision<(), LeaseEffect>, GovernorError> {
            let now = self.clock.now();
            let swept = decide_sweep(view, stamp.as_str(), &leases.facts(view, &now)?, &now)?;
            let mut txn = swept.txn;
            for (nth, report) in swept.effects.iter().filter_map(|effect| of_orphan(effect, None)).enumerate()
            {
                txn = txn.and(decide_report(view, &report, &stamp.incident(nth), &now)?.txn);
            }
            Ok(Decision { txn, reply: (), effects: swept.effects })
        };
        let scope = sweep_scope().and(tidegate_incidents::scope());
        Ok(transact(&*self.store, &scope, decide).await?.effects)
    }

    /// Records that a call's outcome will never be known: its incident, and what its session is to do about it, in one
    /// commit. To be durable before the session is answered.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it was recorded; recording it again counts the incident once more.
    ///
    /// # Errors
    /// The store's.
    pub async fn unknown(&self, call: &OpenCall) -> Result<IncidentId, GovernorError> {
        let stamp = Stamp::fresh(&*self.entropy);
        let draft = draft_of(call, CallState::Unknown);
        let decide = |view: &View| -> Result<Decision<IncidentId>, GovernorError> {
            let now = self.clock.now();
            let report = match has_ended(view, &call.session)? {
                true => report_to_operator(call, "the server ended before it answered"),
                false => report_of(call),
            };
            let reported = decide_report(view, &report, &stamp.incident(0), &now)?;
            let told = decide_checkpoint(view, std::slice::from_ref(&draft), &now)?;
            if is_planted("the-unknown-is-not-recorded") {
                return Ok(Decision::write(reported.txn, reported.reply.id));
            }
            Ok(Decision::write(reported.txn.and(told.txn), reported.reply.id))
        };
        Ok(transact(&*self.store, &scope_of(call), decide).await?.reply)
    }

    /// Records that the client of a call is gone while the server works on it: whoever comes back in that session is told
    /// to look before they repeat it. Nobody comes back to a session that has been ended: then it is an operator's business,
    /// by an incident in the same commit, which is answered. To be durable before the client counts as gone.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it was recorded, all or nothing; recording it again changes nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn detached(&self, call: &OpenCall) -> Result<Option<IncidentId>, GovernorError> {
        let stamp = Stamp::fresh(&*self.entropy);
        let draft = draft_of(call, CallState::Detached);
        let decide = |view: &View| -> Result<Decision<Option<IncidentId>>, GovernorError> {
            let now = self.clock.now();
            let told = decide_checkpoint(view, std::slice::from_ref(&draft), &now)?;
            if !has_ended(view, &call.session)? {
                return Ok(Decision::write(told.txn, None));
            }
            let report = report_to_operator(call, "the server may still be working on it");
            if let Some(known) = find(view, report.kind, &report.dedup)? {
                return Ok(Decision::write(told.txn, Some(known.id)));
            }
            let reported = decide_report(view, &report, &stamp.incident(0), &now)?;
            Ok(Decision::write(reported.txn.and(told.txn), Some(reported.reply.id)))
        };
        Ok(transact(&*self.store, &scope_of(call), decide).await?.reply)
    }

    /// Records what a session that has been ended leaves running: `calls` are those in flight that are its. Each that goes on
    /// without a client is an operator's business from now on; answers their incidents, those that were there already too. To
    /// be durable before anybody is told that the session has ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves some of it recorded; recording it again changes nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn left_running(
        &self,
        calls: &[(OpenCall, CallState)],
    ) -> Result<Vec<IncidentId>, GovernorError> {
        let goes_on = |(call, state): &&(OpenCall, CallState)| {
            call.class.is_unsafe() && *state == CallState::Detached && !is_planted("an-end-forgets-what-runs")
        };
        let mut incidents = Vec::new();
        for (call, _) in calls.iter().filter(goes_on) {
            incidents.extend(self.detached(call).await?);
        }
        Ok(incidents)
    }

    /// Records that a call was answered whose client is gone: its outcome is known now, and told to whoever comes back.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it was recorded, all or nothing; recording it again changes nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn answered_late(&self, call: &OpenCall, answer: LateAnswer) -> Result<(), GovernorError> {
        let fact = CallFact::of(call, CallState::Answered);
        let how = match answer {
            LateAnswer::Result => "the server answered the call with a result",
            LateAnswer::Error => "the server answered the call with an error",
        };
        let decide = |view: &View| -> Result<Decision<()>, GovernorError> {
            let now = self.clock.now();
            let told = decide_answered_late(view, &call.session, &fact, answer, &now)?;
            let settled = decide_recovered(view, IncidentKind::OutcomeUnknown, &of_ended(call), how, &now)?;
            Ok(Decision::write(told.txn.and(settled.txn), ()))
        };
        transact(&*self.store, &scope_of(call), decide).await?;
        Ok(())
    }

    /// Resolves the incidents of restarts that had failed and whose components all serve again: those in `ready`, as somebody has
    /// just seen, with their generations. Answers which. To be called now and then.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it was recorded; the next call goes on from there.
    ///
    /// # Errors
    /// The store's.
    pub async fn settle_restarts(
        &self,
        ready: &BTreeMap<ComponentName, Generation>,
    ) -> Result<Vec<IncidentId>, GovernorError> {
        let decide = |view: &View| decide_settle_restarts(view, ready, &self.clock.now());
        Ok(transact(&*self.store, &tidegate_incidents::scope(), decide).await?.reply)
    }

    /// Settles what an earlier daemon has left: nobody hears an answer any more to calls whose clients were gone already.
    /// Answers how many there were. To be called before any client comes.
    ///
    /// # Errors
    /// The store's. What was settled by then stays so.
    pub async fn settle_left(&self) -> Result<usize, GovernorError> {
        let mut settled = 0;
        for checkpoint in tidegate_checkpoints::list(&*self.store).await? {
            for call in checkpoint.calls.into_iter().filter(is_left) {
                self.unknown(&open_call(&checkpoint.session, call)).await?;
                settled += 1;
            }
        }
        Ok(settled)
    }
}

fn decide_settle_restarts(
    view: &View,
    ready: &BTreeMap<ComponentName, Generation>,
    now: &Now,
) -> Result<Decision<Vec<IncidentId>>, GovernorError> {
    let mut decision = Decision::reply(Vec::new());
    for (_, failed) in view.read_under::<Incident>(tidegate_incidents::PREFIX)? {
        if !failed.is_open() || failed.kind != IncidentKind::RestartFailed {
            continue;
        }
        let serves = |name: &str| {
            let (name, generation) = ready.get_key_value(&name.parse::<ComponentName>().ok()?)?;
            Some(format!("{name} serves as generation {generation}"))
        };
        let Some(serve) = names_in(&failed.dedup).map(serves).collect::<Option<Vec<_>>>() else { continue };
        let settled = decide_recovered(view, failed.kind, &failed.dedup, &serve.join(", "), now)?;
        decision.txn = decision.txn.and(settled.txn);
        if settled.reply == Some(IncidentState::Resolved) {
            decision.reply.push(failed.id);
        }
    }
    Ok(decision)
}

fn scope_of(call: &OpenCall) -> Scope {
    scope_of_sessions([&call.session]).and(tidegate_incidents::scope())
}

fn has_ended(view: &View, session: &SessionId) -> Result<bool, GovernorError> {
    let checkpoint: Option<Checkpoint> = view.read(&tidegate_checkpoints::key(session))?;
    let has_ended = checkpoint.is_some_and(|checkpoint| checkpoint.ended.is_some());
    Ok(has_ended && !is_planted("a-write-of-an-ended-session-is-nobodys"))
}

/// Whether its client is gone and its server isn't.
fn is_left(call: &CallFact) -> bool {
    call.is_unanswered() && call.state == CallState::Detached
}

fn open_call(session: &SessionId, call: CallFact) -> OpenCall {
    let CallFact { id, component, tool, class, .. } = call;
    OpenCall { session: session.clone(), component, tool, class, id }
}

fn report_of(call: &OpenCall) -> Report {
    let mut report = Report::new(
        IncidentKind::OutcomeUnknown,
        format!("{}/{}", call.component, call.session),
        Severity::Warning,
        format!("the outcome of {} on {} is unknown", call.tool, call.component),
    )
    .evidence("tool", &call.tool)
    .evidence("class", call.class.to_string());
    report.scope = Some(call.component.clone());
    report.session = Some(call.session.clone());
    report.who_is_next = WhoIsNext::Session;
    report.next_action = NextAction::VerifyThenRetry {
        component: call.component.clone(),
        tool: call.tool.clone(),
        answer: None,
    };
    report
}

/// What makes two reports about one call of a session that was ended the same incident.
fn of_ended(call: &OpenCall) -> String {
    format!("{}/{}/{}", call.component, call.session, call.id)
}

/// There is no session any more that could be told.
fn report_to_operator(call: &OpenCall, why: &str) -> Report {
    let OpenCall { session, component, tool, class, .. } = call;
    let title = format!("{session} was ended in the middle of {tool} on {component}");
    let mut report =
        Report::new(IncidentKind::OutcomeUnknown, of_ended(call), Severity::Warning, title.as_str())
            .evidence("tool", tool)
            .evidence("class", class.to_string())
            .evidence("why", why);
    report.scope = Some(component.clone());
    report.session = Some(session.clone());
    report.next_prompt = Some(format!(
        "{title}, and its outcome is unknown: {why}. Whoever takes that work up starts anew and knows nothing of it: look with a \
         read-only call whether it took effect, before anybody repeats it. An answer that comes resolves this by itself."
    ));
    report
}

fn draft_of(call: &OpenCall, state: CallState) -> Draft {
    let mut draft = Draft::new(call.session.clone());
    draft.calls.push(CallFact::of(call, state));
    draft
}
