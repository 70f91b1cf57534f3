//! What a daemon records outside of operations, several crates' records in one commit: leases that ran out with the
//! incidents of those that are orphaned, and calls whose outcome is unknown with what their sessions are to do.

use crate::{GovernorError, Stamp, of_orphan};
use std::sync::Arc;
use tidegate_checkpoints::{CallFact, CallState, Draft, decide_checkpoint, scope as scope_of_sessions};
use tidegate_core::planted::is_planted;
use tidegate_core::{Clock, ComponentName, Entropy, IncidentId, NextAction, SessionId, WorkClass};
use tidegate_incidents::{IncidentKind, Report, Severity, WhoIsNext, decide_report};
use tidegate_leases::{LeaseEffect, Leases, decide_sweep, sweep_scope};
use tidegate_store::{Decision, Store, View, transact};

/// A call that was written to a server and will never be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCall {
    /// Whose.
    pub session: SessionId,
    /// Where.
    pub component: ComponentName,
    /// The tool, or the method of what is no tool call.
    pub tool: String,
    /// Its class.
    pub class: WorkClass,
    /// Its id, unique for the session and the component.
    pub id: String,
}

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
    pub async fn unknown(&self, call: &UnknownCall) -> Result<IncidentId, GovernorError> {
        let stamp = Stamp::fresh(&*self.entropy);
        let (report, draft) = (report_of(call), draft_of(call));
        let decide = |view: &View| -> Result<Decision<IncidentId>, GovernorError> {
            let now = self.clock.now();
            let reported = decide_report(view, &report, &stamp.incident(0), &now)?;
            let told = decide_checkpoint(view, std::slice::from_ref(&draft), &now)?;
            if is_planted("the-unknown-is-not-recorded") {
                return Ok(Decision::write(reported.txn, reported.reply.id));
            }
            Ok(Decision::write(reported.txn.and(told.txn), reported.reply.id))
        };
        let scope = scope_of_sessions([&call.session]).and(tidegate_incidents::scope());
        Ok(transact(&*self.store, &scope, decide).await?.reply)
    }
}

fn report_of(call: &UnknownCall) -> Report {
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
    report.next_action =
        NextAction::VerifyThenRetry { component: call.component.clone(), tool: call.tool.clone() };
    report
}

fn draft_of(call: &UnknownCall) -> Draft {
    let mut draft = Draft::new(call.session.clone());
    draft.calls.push(CallFact {
        id: call.id.clone(),
        component: call.component.clone(),
        tool: call.tool.clone(),
        class: call.class,
        state: CallState::Unknown,
    });
    draft
}
