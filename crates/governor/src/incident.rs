//! The incidents of operations: what each says, and who is next. One per operation that ends badly.

use crate::step::Trouble;
use crate::{GovernorError, Operation, Stamp};
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, IncidentId, Now, OperationId};
use tidegate_drain::Holder;
use tidegate_incidents::{IncidentKind, Report, Severity, WhoIsNext, decide_report};
use tidegate_leases::LeaseEffect;
use tidegate_store::{Txn, View};

/// Between the names of components in a dedup key.
const AND: &str = "+";

/// Reports it within the write `stamp`, as its `nth` incident. Replies with the id: of an open one about the same
/// thing, where there is one.
pub(crate) fn report(
    view: &View,
    report: &Report,
    stamp: &Stamp,
    nth: usize,
    now: &Now,
) -> Result<(Txn, IncidentId), GovernorError> {
    let decision = decide_report(view, report, &stamp.incident(nth), now)?;
    Ok((decision.txn, decision.reply.id))
}

/// The incident of an operation that ends in `trouble`.
pub(crate) fn of_trouble(operation: &Operation, trouble: Trouble) -> Report {
    let scope = names(&operation.scope);
    let retry = format!(
        "`tidegate restart request {} --reason …`",
        operation.scope.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(" ")
    );
    let (kind, severity, title, prompt) = match trouble {
        Trouble::Refused => (
            IncidentKind::DrainRefused,
            Severity::Warning,
            format!("the restart of {scope} was refused: unsafe calls outlived the drain's deadline"),
            format!(
                "The restart {} of {scope} was refused because these calls may still be changing something: {}. Nothing \
                 was stopped and the gate is open again. See to it that they end (ask their sessions, look at what the \
                 tool works on), then request the restart again: {retry}.",
                operation.id,
                holders(&operation.holders)
            ),
        ),
        Trouble::Blocked => (
            IncidentKind::DrainRefused,
            Severity::Warning,
            format!("the restart of {scope} was refused: an old server is still there"),
            format!(
                "The restart {} of {scope} was refused: {}. Nothing was stopped and the gate is open again. Look what those \
                 processes do, end them when it is safe, then request the restart again: {retry}.",
                operation.id, operation.note
            ),
        ),
        Trouble::NotClosed => (
            IncidentKind::RestartFailed,
            Severity::Warning,
            format!("the restart of {scope} could not begin: {}", operation.note),
            format!(
                "The restart {} of {scope} could not close its gates ({}). Nothing was stopped. Wait until that drain has \
                 ended, then request the restart again: {retry}.",
                operation.id, operation.note
            ),
        ),
        Trouble::Interrupted => (
            IncidentKind::OperationInterrupted,
            Severity::Warning,
            format!("the restart of {scope} was interrupted before anything was stopped"),
            format!(
                "The restart {} of {scope} was given up: {}. The gate is open again. Find out why (the daemon's log), \
                 then request the restart again: {retry}.",
                operation.id, operation.note
            ),
        ),
        Trouble::NotRestarted => (
            IncidentKind::RestartFailed,
            Severity::Critical,
            format!("the restart of {scope} failed: {}", operation.note),
            format!(
                "The restart {} of {scope} failed. {}. What could not be brought back answers `unavailable`. Read what it \
                 said (the evidence), repair it, then request the restart again: {retry}.",
                operation.id, operation.note
            ),
        ),
        Trouble::RolledBack => (
            IncidentKind::RolledBack,
            Severity::Warning,
            format!("the upgrade of {scope} was rolled back: {}", operation.note),
            format!(
                "The operation {} ({scope}) did not come up as asked for: {}. The old command serves again as a new \
                 generation. Read what the new one said (the evidence), repair it, then request the upgrade again.",
                operation.id, operation.note
            ),
        ),
        Trouble::Abandoned => (
            IncidentKind::BreakGlass,
            Severity::Critical,
            format!("{} had unsafe calls of {scope} cut", operation.requested_by),
            format!(
                "Operation {} cut these calls in the middle: {}. Their outcome is unknown, and their sessions are told so. \
                 Find out whether they took effect, repair what is half done, then resolve this.",
                operation.id,
                holders(&operation.abandoned)
            ),
        ),
    };
    let about = match trouble {
        // Of its own, beside the one that says that the glass was broken.
        Trouble::Abandoned => format!("{} abandoned", operation.id),
        _ => dedup(operation),
    };
    let mut report = Report::new(kind, about, severity, title);
    report.scope = operation.scope.first().filter(|_| operation.scope.len() == 1).cloned();
    report.operation = Some(operation.id.clone());
    report.next_prompt = Some(prompt);
    // Not under the components' names: one that sounds like a secret would be redacted whole.
    for (index, (name, said)) in operation.failures.iter().enumerate() {
        report = report.evidence(format!("failure_{}", index + 1), format!("{name}: {said}"));
    }
    for (index, (name, said)) in operation.upgrade.rejected.iter().enumerate() {
        report = report.evidence(format!("rejected_{}", index + 1), format!("{name}: {said}"));
    }
    for (index, holder) in operation.holders.iter().chain(&operation.abandoned).take(8).enumerate() {
        report = report.evidence(format!("holder_{}", index + 1), holder.to_string());
    }
    report.evidence("reason", &operation.reason).evidence("requested_by", operation.requested_by.as_str())
}

/// The incident of a restart that skipped its approvals.
pub(crate) fn of_broken_glass(operation: &Operation) -> Report {
    let by = &operation.requested_by;
    let title = format!("{by} restarts {} without approvals", names(&operation.scope));
    let mut report = Report::new(IncidentKind::BreakGlass, operation.id.as_str(), Severity::Info, title);
    report.scope = operation.scope.first().filter(|_| operation.scope.len() == 1).cloned();
    report.operation = Some(operation.id.clone());
    report.next_prompt = Some(format!(
        "{by} broke the glass for operation {} ({}): nobody else approved it. Look whether that was right, then resolve this.",
        operation.id, operation.reason
    ));
    report.evidence("reason", &operation.reason)
}

/// The incident of a lease that is left without a holder that can be asked, by a restart or by time; `None` for any other
/// effect.
#[must_use]
pub fn of_orphan(effect: &LeaseEffect, operation: Option<&OperationId>) -> Option<Report> {
    if is_planted("orphaned-without-an-incident") {
        return None;
    }
    let LeaseEffect::Orphaned { key, session, fence, why } = effect else { return None };
    let title = format!("the lease {} of {session} is orphaned", key.as_str());
    let mut report = Report::new(IncidentKind::LeaseOrphaned, key.as_str(), Severity::Warning, title);
    report.operation = operation.cloned();
    report.session = Some(session.clone());
    report.who_is_next = WhoIsNext::Operator;
    report.next_prompt = Some(format!(
        "The lease {0} is kept, because {why}. Look at what {session} did under it, then give it to a session: `tidegate leases \
         adopt {0} --session NAME`.",
        key.as_str()
    ));
    Some(report.evidence("fence", fence.to_string()).evidence("why", why))
}

/// The same components in the same trouble are one incident, whichever operation ran into it.
fn dedup(operation: &Operation) -> String {
    operation.scope.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(AND)
}

/// The components in such a key.
pub(crate) fn names_in(dedup: &str) -> impl Iterator<Item = &str> {
    dedup.split(AND)
}

fn names(scope: &[ComponentName]) -> String {
    match scope {
        [] => "nothing".to_owned(),
        scope => scope.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(", "),
    }
}

fn holders(holders: &[Holder]) -> String {
    let blocking: Vec<&Holder> = holders.iter().filter(|holder| holder.blocks()).collect();
    let named: Vec<String> = blocking.iter().take(8).map(ToString::to_string).collect();
    let more = blocking.len().saturating_sub(named.len());
    if more == 0 { named.join("; ") } else { format!("{}; and {more} more", named.join("; ")) }
}
