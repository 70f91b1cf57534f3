//! What has to happen now and then: leases swept and renewed by activity, requests expired, incidents settled.

use super::Daemon;
use std::sync::Arc;
use tidegate_checkpoints::Actions;
use tidegate_core::NextAction;
use tidegate_governor::of_orphan;
use tidegate_leases::{LeaseEffect, SWEEP_EVERY};

/// Incidents that flapped are looked at every so many rounds.
const SETTLE_EVERY: u32 = 15;

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
        let swept = ctx.grumble("leases could not be swept", ctx.upkeep.sweep(&ctx.leases).await);
        tell_losers(daemon, &swept.unwrap_or_default()).await;
        ctx.grumble("requests could not be expired", daemon.governor.expire_due().await);
        super::operations::drive_left(daemon).await;
        if rounds.is_multiple_of(SETTLE_EVERY) {
            ctx.grumble("incidents could not be settled", ctx.incidents.settle().await);
        }
    }
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
            let lost = Actions::add([NextAction::ReacquireLease { lease: key.to_string(), unnamed: false }]);
            daemon.ctx.act([session.clone()], &lost).await;
        }
    }
}
