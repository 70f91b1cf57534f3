//! What has to happen now and then: leases swept and renewed by activity, requests expired, incidents settled.

use super::Daemon;
use super::context::grumble;
use std::sync::Arc;
use std::time::Duration;
use tidegate_checkpoints::{Actions, Clear};
use tidegate_core::NextAction;
use tidegate_incidents::{IncidentKind, Report, Severity};
use tidegate_leases::LeaseEffect;

/// Short against every ttl, long against the work.
const EVERY: Duration = Duration::from_secs(1);
/// Incidents that flapped are looked at less often.
const SETTLE_EVERY: u32 = 15;

/// Runs until the daemon ends.
pub(super) async fn run(daemon: Arc<Daemon>) {
    let mut rounds = 0u32;
    loop {
        tokio::time::sleep(EVERY).await;
        rounds = rounds.wrapping_add(1);
        for session in daemon.take_active() {
            grumble("activity could not renew leases", daemon.ctx.leases.touch(&session).await);
        }
        if let Some((_, effects)) = grumble("leases could not be swept", daemon.ctx.leases.sweep().await) {
            lease_effects(&daemon, effects).await;
        }
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

/// Tells whom it concerns what became of leases.
pub(super) async fn lease_effects(daemon: &Daemon, effects: Vec<LeaseEffect>) {
    for effect in effects {
        match effect {
            LeaseEffect::Orphaned { key, session, fence, why } => {
                let title = format!("the lease {key} of {session} is orphaned");
                let mut report =
                    Report::new(IncidentKind::LeaseOrphaned, key.as_str(), Severity::Warning, title)
                        .evidence("fence", fence.to_string())
                        .evidence("why", &why);
                report.session = Some(session);
                report.next_prompt = Some(format!(
                    "The lease {key} is kept, because {why}. Look at what was done under it, then give it to a session: \
                     `tidegate leases adopt {key} --session NAME`."
                ));
                daemon.ctx.report(&report).await;
            }
            LeaseEffect::Lost { key, session, .. } => {
                let lost = Actions::add([NextAction::ReacquireLease { lease: key.to_string() }]);
                daemon.ctx.act([session], &lost).await;
            }
            _ => {}
        }
    }
}
