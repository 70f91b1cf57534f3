//! What has to happen now and then: leases swept and renewed by activity, requests expired, incidents settled.

use super::Daemon;
use super::context::grumble;
use std::sync::Arc;
use tidegate_checkpoints::{Actions, Clear};
use tidegate_core::{Entropy as _, NextAction};
use tidegate_host::OsEntropy;
use tidegate_incidents::{IncidentKind, Report, Severity, decide_report, fresh_id};
use tidegate_leases::{LeaseEffect, LeaseError, SWEEP_EVERY, decide_sweep, sweep_scope};
use tidegate_store::{Decision, StoreError, View, transact};

/// Incidents that flapped are looked at every so many rounds.
const SETTLE_EVERY: u32 = 15;

/// Runs until the daemon ends.
pub(super) async fn run(daemon: Arc<Daemon>) {
    let mut rounds = 0u32;
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        rounds = rounds.wrapping_add(1);
        for session in daemon.take_active() {
            grumble("activity could not renew leases", daemon.ctx.leases.touch(&session).await);
        }
        grumble("leases could not be swept", sweep(&daemon).await);
        let expired = grumble("requests could not be expired", daemon.governor.expire_due().await);
        for operation in expired.unwrap_or_default() {
            let over = Actions::clear([Clear::Operation(operation.id.clone())]);
            daemon.ctx.act(operation.session, &over).await;
        }
        if rounds.is_multiple_of(SETTLE_EVERY) {
            grumble("incidents could not be settled", daemon.ctx.incidents.settle().await);
        }
    }
}

/// Writes down what has run out; what is orphaned by it gets its incident in the same commit.
async fn sweep(daemon: &Daemon) -> Result<(), LeaseError> {
    daemon.ctx.leases.observe();
    let id = OsEntropy.id("sweep");
    let fresh: Vec<_> =
        std::iter::repeat_with(|| fresh_id(&OsEntropy)).take(tidegate_leases::SWEEP_BATCH).collect();
    let decide = |view: &View| -> Result<Decision<(), LeaseEffect>, LeaseError> {
        let now = daemon.ctx.now();
        let facts = daemon.ctx.leases.facts(view, &now).map_err(StoreError::Read)?;
        let swept = decide_sweep(view, &id, &facts, &now).map_err(StoreError::Read)?;
        let mut txn = swept.txn;
        for (report, fresh) in swept.effects.iter().filter_map(orphaned).zip(&fresh) {
            // A report that can't be decided is of a record that can't be read; the lease's record still says it.
            if let Ok(reported) = decide_report(view, &report, fresh, &now) {
                txn = txn.and(reported.txn);
            }
        }
        Ok(Decision { txn, reply: (), effects: swept.effects })
    };
    let scope = sweep_scope().and(tidegate_incidents::scope());
    let done = transact(&*daemon.ctx.store, &scope, decide).await?;
    tell_losers(daemon, &done.effects).await;
    Ok(())
}

/// Tells whom it concerns what became of leases.
pub(super) async fn lease_effects(daemon: &Daemon, effects: &[LeaseEffect]) {
    for report in effects.iter().filter_map(orphaned) {
        daemon.ctx.report(&report).await;
    }
    tell_losers(daemon, effects).await;
}

async fn tell_losers(daemon: &Daemon, effects: &[LeaseEffect]) {
    for effect in effects {
        if let LeaseEffect::Lost { key, session, .. } = effect {
            let lost = Actions::add([NextAction::ReacquireLease { lease: key.to_string() }]);
            daemon.ctx.act([session.clone()], &lost).await;
        }
    }
}

fn orphaned(effect: &LeaseEffect) -> Option<Report> {
    let LeaseEffect::Orphaned { key, session, fence, why } = effect else { return None };
    let title = format!("the lease {key} of {session} is orphaned");
    let mut report = Report::new(IncidentKind::LeaseOrphaned, key.as_str(), Severity::Warning, title)
        .evidence("fence", fence.to_string())
        .evidence("why", why);
    report.session = Some(session.clone());
    report.next_prompt = Some(format!(
        "The lease {key} is kept, because {why}. Look at what was done under it, then give it to a session: `tidegate leases \
         adopt {key} --session NAME`."
    ));
    Some(report)
}
