//! The decisions about the durable record: begin, end, recover. Pure; the gates follow what is decided here.

use crate::record::{MAX_RECORDED_HOLDERS, MAX_SCOPE, PREFIX, key};
use crate::{DrainError, DrainRecord, DrainState, Holder};
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_core::{ComponentName, DrainId, Now, OperationId, PrincipalName};
use tidegate_store::{Decision, ReadError, Txn, View};

/// A drain asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Its id, new with every request; asking again with the same one is the same request.
    pub id: DrainId,
    /// The operation it belongs to.
    pub operation: Option<OperationId>,
    /// What to close.
    pub scope: Vec<ComponentName>,
    /// Who asks.
    pub requested_by: PrincipalName,
    /// How long work in flight has.
    pub deadline: Duration,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is under way; close the gates.
    Started(DrainRecord),
    /// One of the components already drains, for this one. There is one drain, and this says whose.
    Already(DrainRecord),
}

/// How a drain, or what it was for, ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Nothing unsafe is in flight; the gates stay closed.
    Drained,
    /// Refused by these; the gates open once this is durable.
    Refused {
        /// Everything in flight.
        holders: Vec<Holder>,
    },
    /// The gates open once this is durable.
    Reopened {
        /// Why, for people.
        reason: String,
    },
}

/// What to do about a drain found after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Its deadline lasts: close the gates again and go on waiting.
    Resume,
    /// Its deadline is over, or the host has been rebooted since: record that it reopened.
    Reopen,
}

/// Begins a drain of components that exist (`known`), unless one is under way on any of them.
///
/// # Errors
/// [`DrainError`]: an empty or unknown scope, an id that is another drain's, an unreadable record.
pub fn decide_begin(
    view: &View,
    begin: &Begin,
    known: &[ComponentName],
    now: &Now,
) -> Result<Decision<Begun>, DrainError> {
    let mut scope = begin.scope.clone();
    scope.sort();
    scope.dedup();
    if scope.is_empty() {
        return Err(DrainError::EmptyScope);
    }
    if scope.len() > MAX_SCOPE {
        return Err(DrainError::ScopeTooLarge { given: scope.len(), max: MAX_SCOPE });
    }
    if let Some(component) = scope.iter().find(|component| !known.contains(component)) {
        return Err(DrainError::UnknownComponent { component: component.clone(), known: known.to_vec() });
    }
    for component in &scope {
        let Some(last) = view.read::<DrainRecord>(&key(component))? else { continue };
        if last.id == begin.id {
            return if last.scope == scope {
                Ok(Decision::reply(Begun::Started(last)))
            } else {
                Err(DrainError::IdInUse { id: last.id, scope: last.scope })
            };
        }
        if last.state.is_closed() {
            return Ok(Decision::reply(Begun::Already(last)));
        }
    }
    let record = DrainRecord {
        id: begin.id.clone(),
        operation: begin.operation.clone(),
        scope,
        requested_by: begin.requested_by.clone(),
        began: now.wall,
        deadline: now.deadline(begin.deadline),
        state: DrainState::Closed,
        changed: now.wall,
        holders: Vec::new(),
        holder_count: 0,
        reason: None,
        extra: serde_json::Map::new(),
    };
    Ok(Decision::write(written(view, &record), Begun::Started(record)))
}

/// Moves the drain `id` on. Saying the same twice is saying it once.
///
/// # Errors
/// [`DrainError::NotUnderWay`] when another drain has taken its place, or it is over.
pub fn decide_end(
    view: &View,
    scope: &[ComponentName],
    id: &DrainId,
    end: &End,
    now: &Now,
) -> Result<Decision<DrainRecord>, DrainError> {
    let component = scope.first().ok_or(DrainError::EmptyScope)?;
    let not_under_way = || DrainError::NotUnderWay { id: id.clone(), component: component.clone() };
    let mut record = view
        .read::<DrainRecord>(&key(component))?
        .filter(|record| record.id == *id)
        .ok_or_else(not_under_way)?;
    let target = match end {
        End::Drained => DrainState::Drained,
        End::Refused { .. } => DrainState::Refused,
        End::Reopened { .. } => DrainState::Reopened,
    };
    if record.state == target {
        return Ok(Decision::reply(record));
    }
    let allowed = match target {
        DrainState::Drained | DrainState::Refused => record.state == DrainState::Closed,
        _ => record.state.is_closed(),
    };
    if !allowed {
        return Err(not_under_way());
    }
    record.state = target;
    record.changed = now.wall;
    match end {
        End::Drained => {}
        End::Refused { holders } => {
            record.holder_count = holders.len();
            record.holders = holders.iter().take(MAX_RECORDED_HOLDERS).cloned().collect();
        }
        End::Reopened { reason } => record.reason = Some(reason.clone()),
    }
    Ok(Decision::write(written(view, &record), record))
}

/// What to do about every drain that a crash left under way, by id. Reads the view of
/// [`scope_of_all`](crate::scope_of_all).
///
/// # Errors
/// [`ReadError::Malformed`] names the record.
pub fn recover(view: &View, now: &Now) -> Result<Vec<(DrainRecord, Recovery)>, ReadError> {
    let mut found = BTreeMap::new();
    for (_, record) in view.read_under::<DrainRecord>(PREFIX)? {
        if record.state.is_closed() {
            let recovery = if record.deadline.passed(now) { Recovery::Reopen } else { Recovery::Resume };
            found.insert(record.id.clone(), (record, recovery));
        }
    }
    Ok(found.into_values().collect())
}

/// [`recover`], and the record that those past their deadline have reopened.
///
/// # Errors
/// As [`recover`].
pub fn decide_recover(view: &View, now: &Now) -> Result<Decision<Vec<(DrainRecord, Recovery)>>, DrainError> {
    let mut txn = Txn::new();
    let mut found = recover(view, now)?;
    for (record, _) in found.iter_mut().filter(|(_, recovery)| *recovery == Recovery::Reopen) {
        let end = End::Reopened { reason: "its deadline had passed when the process came back".to_owned() };
        let decision = decide_end(view, &record.scope, &record.id, &end, now)?;
        *record = decision.reply;
        txn = txn.and(decision.txn);
    }
    Ok(Decision::write(txn, found))
}

fn written(view: &View, record: &DrainRecord) -> Txn {
    record.scope.iter().fold(Txn::new(), |txn, component| txn.put(view, &key(component), record))
}
