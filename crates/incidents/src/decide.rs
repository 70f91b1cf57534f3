//! The rules of an incident's life: one per kind and dedup key, reopened when it recurs, damped when it flaps.
//!
//! Deduplication is a condition of the commit, never a search: all reporters of one thing contend for one key.

use crate::record::{KeyRecord, PREFIX, dedup_key};
use crate::report::line;
use crate::{
    Actor, HistoryEntry, Incident, IncidentError, IncidentKind, IncidentState, MAX_EVIDENCE, MAX_TITLE_BYTES,
    Outbox, Report, Severity, Step, WhoIsNext, key, outbox_key,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_core::planted::is_planted;
use tidegate_core::{IncidentId, NextAction, Now};
use tidegate_store::{Decision, Txn, View};

/// The most incidents that are kept. Resolved ones make room, the one resolved first goes first; with this many open,
/// further ones are counted in one incident of their own ([`IncidentKind::TooManyIncidents`]).
pub const MAX_INCIDENTS: usize = 512;

/// The most entries of one history.
pub const MAX_HISTORY: usize = 64;

/// How many reports are remembered by id: more than can come between an uncertain commit and reading it back.
pub const MAX_RECENT_REPORTS: usize = 16;

/// How many reopenings within [`FLAP_WINDOW`] are flapping.
pub const FLAP_REOPENINGS: usize = 3;

/// How long a reopening counts towards flapping.
pub const FLAP_WINDOW: Duration = Duration::from_secs(60);

/// How long something that flapped must be quiet before it counts as recovered.
pub const FLAP_QUIET: Duration = Duration::from_secs(60);

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A new incident.
    Opened,
    /// One more of an incident that was not resolved.
    Counted,
    /// An incident that had been resolved is open again.
    Reopened,
}

/// The answer to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The incident that now stands for it.
    pub id: IncidentId,
    /// What became of the report. A reopening whose commit was uncertain may be told as [`Outcome::Counted`].
    pub outcome: Outcome,
    /// How often the incident was reported.
    pub count: u64,
    /// Whether it keeps failing and recovering.
    pub flapping: bool,
}

/// Takes a report. `fresh` is an unused id: the incident's, if this opens one, and the report's in any case.
///
/// Two reports of one incident can't be decided from one view: report it once per commit, with all the evidence.
///
/// # Errors
/// When a record can't be read.
pub fn decide_report(
    view: &View,
    report: &Report,
    fresh: &IncidentId,
    now: &Now,
) -> Result<Decision<Reported>, IncidentError> {
    let report = report.clean();
    if let Some(incident) = find(view, report.kind, &report.dedup)? {
        return Ok(again(view, incident, &report, fresh, now));
    }
    let room = match make_room(view)? {
        Some(room) => room,
        None if report.kind == IncidentKind::TooManyIncidents => Txn::new(),
        None => return decide_report(view, &overflow(&report), fresh, now),
    };
    let incident = opened(&report, fresh, now);
    let txn = room
        .put(view, &dedup_key(report.kind, &report.dedup), &KeyRecord { incident: fresh.clone() })
        .and(written(view, &incident, Some(Step::Opened), now));
    Ok(Decision::write(txn, reported(&incident, Outcome::Opened)))
}

/// Notes that what was reported is over, and `how` that was seen: resolves the incident, unless it is flapping; then it stays
/// open until it has been quiet for [`FLAP_QUIET`] ([`decide_settle`]). Replies with its state, `None` if there is none.
///
/// # Errors
/// When a record can't be read.
pub fn decide_recovered(
    view: &View,
    kind: IncidentKind,
    dedup: &str,
    how: &str,
    now: &Now,
) -> Result<Decision<Option<IncidentState>>, IncidentError> {
    let Some(mut incident) = find(view, kind, dedup)? else {
        return Ok(Decision::reply(None));
    };
    if !incident.is_open() || incident.quiet_at.is_some() {
        return Ok(Decision::reply(Some(incident.state)));
    }
    if incident.flapping {
        incident.quiet_at = Some(now.deadline(FLAP_QUIET));
        let txn = written(view, &incident, None, now);
        return Ok(Decision::write(txn, Some(incident.state)));
    }
    resolve(&mut incident, &Actor::Tidegate, how, now);
    let txn = written(view, &incident, Some(Step::Resolved), now);
    Ok(Decision::write(txn, Some(incident.state)))
}

/// Resolves the incidents that flapped, recovered and have been quiet since. Replies with their ids.
///
/// # Errors
/// When a record can't be read.
pub fn decide_settle(view: &View, now: &Now) -> Result<Decision<Vec<IncidentId>>, IncidentError> {
    let mut decision = Decision::reply(Vec::new());
    for (_, mut incident) in view.read_under::<Incident>(PREFIX)? {
        if incident.quiet_at.is_some_and(|quiet| quiet.passed(now)) {
            resolve(&mut incident, &Actor::Tidegate, "quiet after it had flapped", now);
            decision.txn = decision.txn.and(written(view, &incident, Some(Step::Resolved), now));
            decision.reply.push(incident.id);
        }
    }
    Ok(decision)
}

/// Records that somebody has seen it. Anybody may; a second time changes nothing.
///
/// # Errors
/// [`IncidentError::NoSuchIncident`].
pub fn decide_acknowledge(
    view: &View,
    id: &IncidentId,
    by: &Actor,
    note: &str,
    now: &Now,
) -> Result<Decision<Incident>, IncidentError> {
    let mut incident = existing(view, id)?;
    if incident.state != IncidentState::Open {
        return Ok(Decision::reply(incident));
    }
    incident.state = IncidentState::Acknowledged;
    remember(&mut incident, Step::Acknowledged, by, note, now);
    Ok(Decision::write(written(view, &incident, Some(Step::Acknowledged), now), incident))
}

/// Records that nothing is left to do. Operators only; a second time changes nothing.
///
/// # Errors
/// [`IncidentError::NoSuchIncident`], [`IncidentError::NotAllowed`].
pub fn decide_resolve(
    view: &View,
    id: &IncidentId,
    by: &Actor,
    note: &str,
    now: &Now,
) -> Result<Decision<Incident>, IncidentError> {
    let mut incident = existing(view, id)?;
    if !matches!(by, Actor::Operator(_)) {
        return Err(IncidentError::NotAllowed { id: id.clone() });
    }
    if !incident.is_open() {
        return Ok(Decision::reply(incident));
    }
    resolve(&mut incident, by, note, now);
    Ok(Decision::write(written(view, &incident, Some(Step::Resolved), now), incident))
}

/// The incident that a report of this kind about this would be counted in, open or not.
///
/// # Errors
/// When a record can't be read.
pub fn find(view: &View, kind: IncidentKind, dedup: &str) -> Result<Option<Incident>, IncidentError> {
    if is_planted("every-report-is-a-new-incident") {
        return Ok(None);
    }
    match view.read::<KeyRecord>(&dedup_key(kind, &line(dedup, crate::MAX_DEDUP_BYTES)))? {
        Some(record) => Ok(view.read(&key(&record.incident))?),
        None => Ok(None),
    }
}

fn existing(view: &View, id: &IncidentId) -> Result<Incident, IncidentError> {
    view.read(&key(id))?.ok_or_else(|| IncidentError::NoSuchIncident { id: id.clone() })
}

fn reported(incident: &Incident, outcome: Outcome) -> Reported {
    Reported { id: incident.id.clone(), outcome, count: incident.count, flapping: incident.flapping }
}

fn opened(report: &Report, id: &IncidentId, now: &Now) -> Incident {
    let next_action = report.action_for(id);
    let mut incident = Incident {
        id: id.clone(),
        kind: report.kind,
        dedup: report.dedup.clone(),
        state: IncidentState::Open,
        severity: report.severity,
        title: report.title.clone(),
        scope: report.scope.clone(),
        operation: report.operation.clone(),
        session: report.session.clone(),
        count: 1,
        first_seen: now.wall,
        last_seen: now.wall,
        who_is_next: report.who_is_next,
        next_prompt: prompt(report, &next_action),
        next_action,
        evidence: report.evidence.clone(),
        flapping: false,
        recent_reopenings: Vec::new(),
        quiet_at: None,
        recent_reports: vec![id.clone()],
        history: Vec::new(),
        history_dropped: 0,
        extra: serde_json::Map::new(),
    };
    remember(&mut incident, Step::Opened, &Actor::Tidegate, "", now);
    incident
}

/// One more report of an incident that is known.
fn again(
    view: &View,
    before: Incident,
    report: &Report,
    fresh: &IncidentId,
    now: &Now,
) -> Decision<Reported> {
    if before.recent_reports.contains(fresh) {
        let outcome = if before.id == *fresh { Outcome::Opened } else { Outcome::Counted };
        return Decision::reply(reported(&before, outcome));
    }
    let next_action = report.action_for(&before.id);
    let mut incident = Incident {
        title: report.title.clone(),
        scope: report.scope.clone(),
        operation: report.operation.clone(),
        session: report.session.clone(),
        count: before.count + 1,
        last_seen: now.wall,
        who_is_next: report.who_is_next,
        next_prompt: prompt(report, &next_action),
        next_action,
        quiet_at: None,
        ..before
    };
    merge_evidence(&mut incident.evidence, &report.evidence);
    push_bounded(&mut incident.recent_reports, fresh.clone(), MAX_RECENT_REPORTS);
    if incident.is_open() {
        incident.severity = incident.severity.max(report.severity);
        return Decision::write(written(view, &incident, None, now), reported(&incident, Outcome::Counted));
    }
    if !is_planted("what-recurs-stays-resolved") {
        incident.state = IncidentState::Open;
    }
    incident.severity = report.severity;
    let step = reopen(&mut incident, now);
    Decision::write(written(view, &incident, Some(step), now), reported(&incident, Outcome::Reopened))
}

fn prompt(report: &Report, next_action: &NextAction) -> String {
    report.next_prompt.clone().unwrap_or_else(|| next_action.prompt())
}

/// Opens a resolved incident again, and says so when that happens too often.
fn reopen(incident: &mut Incident, now: &Now) -> Step {
    remember(incident, Step::Reopened, &Actor::Tidegate, "", now);
    incident.recent_reopenings.retain(|until| !until.passed(now));
    push_bounded(&mut incident.recent_reopenings, now.deadline(FLAP_WINDOW), FLAP_REOPENINGS);
    if incident.recent_reopenings.len() < FLAP_REOPENINGS {
        return Step::Reopened;
    }
    incident.flapping = true;
    remember(incident, Step::Flapping, &Actor::Tidegate, "", now);
    Step::Flapping
}

fn resolve(incident: &mut Incident, by: &Actor, note: &str, now: &Now) {
    incident.state = IncidentState::Resolved;
    incident.flapping = false;
    incident.quiet_at = None;
    incident.who_is_next = WhoIsNext::Nobody;
    incident.next_action = NextAction::Continue;
    incident.next_prompt = format!("Nothing is left to do: resolved by {by}.");
    remember(incident, Step::Resolved, by, note, now);
}

/// What is kept when a report comes in and there are as many incidents as are kept: all but the one that was resolved
/// first. `None` when all are open.
fn make_room(view: &View) -> Result<Option<Txn>, IncidentError> {
    if view.under(PREFIX).count() < MAX_INCIDENTS {
        return Ok(Some(Txn::new()));
    }
    let incidents = view.read_under::<Incident>(PREFIX)?;
    let oldest = incidents
        .iter()
        .map(|(_, i)| i)
        .filter(|i| !i.is_open())
        .min_by_key(|i| (i.history.last().map(|h| h.at), &i.id));
    Ok(oldest.map(|i| {
        Txn::new()
            .delete(view, &key(&i.id))
            .delete(view, &dedup_key(i.kind, &i.dedup))
            .delete(view, &outbox_key(&i.id))
    }))
}

/// The one incident that stands for all that don't fit.
fn overflow(report: &Report) -> Report {
    Report::new(
        IncidentKind::TooManyIncidents,
        "all",
        Severity::Critical,
        format!("More than {MAX_INCIDENTS} incidents are open; further ones are only counted here"),
    )
    .evidence("last_kind", report.kind.as_str())
    .evidence("last_dedup", report.dedup.clone())
    .evidence("last_title", report.title.clone())
}

/// The newest report's word where several name one thing; what doesn't fit any more is left out.
fn merge_evidence(known: &mut BTreeMap<String, String>, newer: &BTreeMap<String, String>) {
    for (name, value) in newer {
        if known.len() < MAX_EVIDENCE || known.contains_key(name) {
            known.insert(name.clone(), value.clone());
        }
    }
}

fn remember(incident: &mut Incident, step: Step, by: &Actor, note: &str, now: &Now) {
    let note = line(note, MAX_TITLE_BYTES);
    incident.history.push(HistoryEntry { at: now.wall, step, by: by.clone(), note });
    if incident.history.len() > MAX_HISTORY {
        incident.history.remove(1);
        incident.history_dropped += 1;
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T, limit: usize) {
    list.push(item);
    let surplus = list.len().saturating_sub(limit);
    list.drain(..surplus);
}

/// The incident and, where trackers should hear of it, its outbox entry.
fn written(view: &View, incident: &Incident, step: Option<Step>, now: &Now) -> Txn {
    let txn = Txn::new().put(view, &key(&incident.id), incident);
    match step {
        None => txn,
        Some(step) => {
            let delivery =
                format!("{}.{}", incident.id, incident.history.len() as u64 + incident.history_dropped);
            let outbox = Outbox { incident: incident.id.clone(), delivery, step, at: now.wall };
            txn.put(view, &outbox_key(&incident.id), &outbox)
        }
    }
}
