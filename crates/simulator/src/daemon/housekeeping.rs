//! What has to happen now and then: leases swept and renewed by activity, requests expired, incidents settled.

use super::Daemon;
use std::sync::Arc;
use tidegate_checkpoints::Actions;
use tidegate_core::NextAction;
use tidegate_incidents::{IncidentKind, Report, Severity, decide_report, fresh_id};
use tidegate_leases::{LeaseEffect, LeaseError, SWEEP_EVERY, decide_sweep, sweep_scope};
use tidegate_core::Entropy as _;
use tidegate_store::{Decision, StoreError, View, transact};

/// Incidents that flapped are looked at every so many rounds.
const SETTLE_EVERY: u32 = 15;
/// How many leases of one sweep can be orphaned in these worlds.
const MAX_ORPHANS: usize = 8;

/// Runs until the daemon dies.
pub(super) async fn run(daemon: &Arc<Daemon>) {
    let ctx = &daemon.ctx;
    let every_ms = u64::try_from(SWEEP_EVERY.as_millis()).unwrap_or(u64::MAX);
    let mut rounds = 0u32;
    loop {
        ctx.world.executor.sleep(every_ms).await;
        rounds = rounds.wrapping_add(1);
        for session in daemon.take_active() {
            ctx.grumble("activity could not renew leases", ctx.leases.touch(&session).await);
        }
        ctx.grumble("leases could not be swept", sweep(daemon).await);
        let expired = ctx.grumble("requests could not be expired", daemon.governor.expire_due().await);
        for operation in expired.into_iter().flatten() {
            super::control::over(daemon, &operation).await;
        }
        if rounds.is_multiple_of(SETTLE_EVERY) {
            ctx.grumble("incidents could not be settled", ctx.incidents.settle().await);
        }
    }
}

/// Writes down what has run out; what is orphaned by it gets its incident in the same commit.
async fn sweep(daemon: &Daemon) -> Result<(), LeaseError> {
    let ctx = &daemon.ctx;
    ctx.leases.observe();
    let id = ctx.world.ids.id("sweep");
    let fresh: Vec<_> =
        std::iter::repeat_with(|| fresh_id(&*ctx.world.ids)).take(MAX_ORPHANS).collect();
    let decide = |view: &View| -> Result<Decision<(), LeaseEffect>, LeaseError> {
        let now = ctx.now();
        let facts = ctx.leases.facts(view, &now).map_err(StoreError::Read)?;
        let swept = decide_sweep(view, &id, &facts, &now).map_err(StoreError::Read)?;
        let mut txn = swept.txn;
        for (report, fresh) in swept.effects.iter().filter_map(orphaned).zip(&fresh) {
            if let Ok(reported) = decide_report(view, &report, fresh, &now) {
                txn = txn.and(reported.txn);
            }
        }
        Ok(Decision { txn, reply: (), effects: swept.effects })
    };
    let scope = sweep_scope().and(tidegate_incidents::scope());
    let done = transact(&*ctx.store, &scope, decide).await?;
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
    Some(report)
}
