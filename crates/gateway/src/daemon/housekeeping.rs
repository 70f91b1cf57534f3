//! What has to happen now and then: leases swept and renewed by activity, requests expired, incidents settled.

use super::Daemon;
use super::context::{grumble, say};
use std::sync::Arc;
use tidegate_checkpoints::{Actions, Clear};
use tidegate_core::NextAction;
use tidegate_governor::of_orphan;
use tidegate_incidents::IncidentKind;
use tidegate_leases::{LeaseEffect, SWEEP_EVERY};

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
        let swept = grumble("leases could not be swept", daemon.ctx.upkeep.sweep(&daemon.ctx.leases).await);
        tell_losers(&daemon, &swept.unwrap_or_default()).await;
        grumble("requests could not be expired", daemon.governor.expire_due().await);
        super::operations::drive_left(&daemon).await;
        settle_restarts(&daemon).await;
        if rounds.is_multiple_of(SETTLE_EVERY) {
            daemon.plant.prune().await;
            grumble("incidents could not be settled", daemon.ctx.incidents.settle().await);
        }
    }
}

/// A restart that had failed is nobody's business any more when everything serves again, whoever has done that.
async fn settle_restarts(daemon: &Daemon) {
    let open = grumble("incidents can't be read", daemon.ctx.incidents.list().await).unwrap_or_default();
    if !open.iter().any(|it| it.is_open() && it.kind == IncidentKind::RestartFailed) {
        return;
    }
    let settled = daemon.ctx.upkeep.settle_restarts(&daemon.plant.ready().await).await;
    let settled = grumble("a recovery could not be recorded", settled).unwrap_or_default();
    if settled.is_empty() {
        return;
    }
    let sessions = grumble("sessions can't be read", daemon.ctx.checkpoints.list().await).unwrap_or_default();
    let over = Actions::clear(settled.into_iter().map(Clear::Incident));
    daemon.ctx.act(sessions.into_iter().map(|it| it.session), &over).await;
}

/// Tells whom it concerns what became of leases.
pub(super) async fn lease_effects(daemon: &Daemon, effects: &[LeaseEffect]) {
    for report in effects.iter().filter_map(|effect| of_orphan(effect, None)) {
        daemon.ctx.report(&report).await;
    }
    tell_losers(daemon, effects).await;
}

async fn tell_losers(daemon: &Daemon, effects: &[LeaseEffect]) {
    for effect in effects {
        if let LeaseEffect::Lost { key, session, .. } = effect {
            say(&format!("{session} has lost the lease {key}"));
            let lost = Actions::add([NextAction::ReacquireLease { lease: key.to_string(), unnamed: false }]);
            daemon.ctx.act([session.clone()], &lost).await;
        }
    }
}
