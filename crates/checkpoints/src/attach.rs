//! A session's connections: attach, detach, end. What is acknowledged here is durable.
//!
//! Never decides who is alive: that is given, per session name.

use crate::change::{change, load};
use crate::name::same_process;
use crate::record::{prefix_of, scope_of_principal};
use crate::{
    Checkpoint, CheckpointError, Ended, Known, NextAction, Resolution, Steal, StreamFact, Wanted, key,
    next_action, resolve_name,
};
use std::collections::BTreeMap;
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, Liveness, Now, PrincipalName, ProcessIdentity, SessionId, SessionName};
use tidegate_store::{Decision, Scope, Txn, View};

/// The most connections of one session: one client process doesn't talk to more servers.
pub const MAX_STREAMS: usize = 64;

/// The most sessions of one principal that haven't ended. Every one is read to resolve a name.
pub const MAX_SESSIONS: usize = 256;

/// How many ended sessions of one principal are kept to look at.
pub const MAX_ENDED: usize = 64;

/// How many take-overs of a session are kept, the newest ones.
pub const MAX_STEALS: usize = 16;

/// A connection to be made part of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// Who asks, and for which session.
    pub wanted: Wanted,
    /// The connection's id, never used twice: attaching one that is attached changes nothing.
    pub stream: String,
    /// Where it leads; `None` is the control endpoint.
    pub component: Option<ComponentName>,
}

impl Attach {
    /// The connection `stream` to `component`, for the session that is wanted.
    #[must_use]
    pub fn new(wanted: Wanted, stream: impl Into<String>, component: Option<ComponentName>) -> Self {
        Self { wanted, stream: stream.into(), component }
    }

    /// What [`decide_attach`] must read.
    #[must_use]
    pub fn scope(&self) -> Scope {
        scope_of_principal(&self.wanted.owner)
    }
}

/// What came of attaching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The session it is now part of.
    pub session: SessionId,
    /// How that was found.
    pub resolution: Resolution,
    /// Connections of a former client that are no longer the session's: close them. Each connection of a client is told, not the
    /// first one alone: none is served before all that the former client has left is on record.
    pub cut: Vec<String>,
    /// What the session is to do first.
    pub next_action: NextAction,
}

/// What is to be known about the processes of a principal's clients before [`decide_attach`].
///
/// # Errors
/// When a record can't be read.
pub fn clients(
    view: &View,
    owner: &PrincipalName,
) -> Result<BTreeMap<SessionName, ProcessIdentity>, CheckpointError> {
    Ok(sessions_of(view, owner)?.into_iter().filter_map(|c| Some((c.session.name, c.client?))).collect())
}

/// Finds the session that a connection belongs to and records both. `fresh` is an unused name, `liveness` what is
/// known of the [`clients`]; one that is missing counts as "cannot tell".
///
/// # Errors
/// [`CheckpointError::Name`], [`CheckpointError::Full`], [`CheckpointError::TooManySessions`].
pub fn decide_attach(
    view: &View,
    attach: &Attach,
    fresh: &SessionName,
    liveness: &BTreeMap<SessionName, Liveness>,
    now: &Now,
) -> Result<Decision<Attached>, CheckpointError> {
    let wanted = &attach.wanted;
    let sessions = sessions_of(view, &wanted.owner)?;
    if let Some(done) = sessions.iter().find(|c| c.streams.iter().any(|s| s.stream == attach.stream)) {
        return Ok(Decision::reply(already(done, attach)));
    }
    let known =
        |c: &Checkpoint| Known::of(c, liveness.get(&c.session.name).copied().unwrap_or(Liveness::Unknown));
    let known = sessions.iter().map(|c| (c.session.name.clone(), known(c))).collect();
    let resolution = resolve_name(&known, wanted, fresh)?;
    let session = SessionId::new(wanted.owner.clone(), resolution.name().clone());

    let before = sessions.iter().find(|c| c.session == session);
    let mut txn = match before.filter(|c| c.ended.is_none()) {
        Some(_) => Txn::new(),
        None => make_room(view, &sessions, &wanted.owner, now)?,
    };
    let known = before.filter(|c| c.ended.is_none() && !is_planted("coming-back-begins-anew"));
    let mut after = known.cloned().unwrap_or_else(|| Checkpoint {
        version: before.map_or(0, |c| c.version),
        ..Checkpoint::new(session.clone(), now)
    });
    let cut = hand_over(&mut after, &resolution, attach, now);
    if after.streams.len() >= MAX_STREAMS {
        return Err(CheckpointError::Full {
            session,
            what: "connections",
            limit: MAX_STREAMS,
            remedy: "close some of them",
        });
    }
    let (stream, component) = (attach.stream.clone(), attach.component.clone());
    after.streams.push(StreamFact { stream, component, cut });
    after.version += 1;
    after.updated_at = now.wall;
    txn = txn.put(view, &key(&session), &after);
    let reply = Attached { session, resolution, cut: replaced(&after), next_action: next_action(&after) };
    Ok(Decision::write(txn, reply))
}

/// Takes one connection (or, at a daemon's start, all that its predecessor left) out of a session.
///
/// # Errors
/// When the record can't be read.
pub fn decide_detach(
    view: &View,
    session: &SessionId,
    stream: Option<&str>,
    now: &Now,
) -> Result<Decision<()>, CheckpointError> {
    let Some(before) = load(view, session)? else { return Ok(Decision::reply(())) };
    if is_planted("leaving-is-forgetting") {
        return Ok(Decision::write(Txn::new().delete(view, &key(session)), ()));
    }
    let txn = change(view, before, now, |c| {
        c.streams.retain(|s| stream.is_some_and(|gone| s.stream != gone));
        Ok(())
    })?;
    Ok(Decision::write(txn, ()))
}

/// Ends a session: its record is kept to look at, the next client of its name starts anew. Own sessions only, but for
/// operators. Answers the connections to close, to whoever ends it again too: the first one may never have heard.
///
/// # Errors
/// [`CheckpointError::NoSuchSession`], [`CheckpointError::NotAllowed`].
pub fn decide_end(
    view: &View,
    session: &SessionId,
    by: &PrincipalName,
    operator: bool,
    reason: &str,
    now: &Now,
) -> Result<Decision<Vec<String>>, CheckpointError> {
    if session.principal != *by && !operator {
        return Err(CheckpointError::NotAllowed { session: session.clone() });
    }
    let sessions = sessions_of(view, &session.principal)?;
    let Some(before) = sessions.iter().find(|c| c.session == *session) else {
        return Err(CheckpointError::NoSuchSession { session: session.clone() });
    };
    if let Some(ended) = &before.ended {
        return Ok(Decision::reply(ended.cut.clone()));
    }
    let cut = before.streams.iter().map(|s| s.stream.clone()).collect();
    let txn = change(view, before.clone(), now, |c| {
        end(c, by, reason, now);
        Ok(())
    })?;
    Ok(Decision::write(txn.and(forget_oldest(view, &sessions)), cut))
}

fn end(checkpoint: &mut Checkpoint, by: &PrincipalName, reason: &str, now: &Now) {
    checkpoint.client = None;
    checkpoint.ended = Some(Ended {
        at: now.wall,
        by: by.clone(),
        reason: crate::bounds::cut(reason, crate::MAX_NOTE_BYTES),
        cut: take_streams(checkpoint),
    });
}

fn take_streams(checkpoint: &mut Checkpoint) -> Vec<String> {
    std::mem::take(&mut checkpoint.streams).into_iter().map(|s| s.stream).collect()
}

fn sessions_of(view: &View, owner: &PrincipalName) -> Result<Vec<Checkpoint>, CheckpointError> {
    Ok(view.read_under(&prefix_of(owner))?.into_iter().map(|(_, c)| c).collect())
}

/// The answer to a connection that is already attached: an uncertain commit that did happen.
fn already(done: &Checkpoint, attach: &Attach) -> Attached {
    let name = done.session.name.clone();
    let stolen = done.steals.last().is_some_and(|steal| steal.stream == attach.stream);
    let resolution = match &attach.wanted.name {
        _ if stolen => Resolution::Stolen(name),
        Some(asked) if *asked != name => Resolution::Suffixed { wanted: asked.clone(), name },
        _ => Resolution::Same(name),
    };
    Attached {
        session: done.session.clone(),
        resolution,
        cut: replaced(done),
        next_action: next_action(done),
    }
}

/// The connections of a former client that those of this one have replaced.
fn replaced(checkpoint: &Checkpoint) -> Vec<String> {
    let newest = checkpoint.streams.len().saturating_sub(1);
    let passed_over = if is_planted("only-the-first-connection-waits") { newest } else { 0 };
    checkpoint.streams.iter().skip(passed_over).flat_map(|stream| stream.cut.clone()).collect()
}

/// Makes the session the new client's. Answers the connections of the old one.
fn hand_over(
    checkpoint: &mut Checkpoint,
    resolution: &Resolution,
    attach: &Attach,
    now: &Now,
) -> Vec<String> {
    let client = &attach.wanted.client;
    if same_process(&checkpoint.client, client) {
        return Vec::new();
    }
    let from = std::mem::replace(&mut checkpoint.client, client.clone());
    let cut = take_streams(checkpoint);
    if matches!(resolution, Resolution::Stolen(_)) {
        let by = attach.wanted.caller.clone();
        let stream = attach.stream.clone();
        checkpoint.steals.push(Steal { at: now.wall, by, from, stream, cut: cut.clone() });
        let surplus = checkpoint.steals.len().saturating_sub(MAX_STEALS);
        checkpoint.steals.drain(..surplus);
    }
    cut
}

/// Room for one more session: when there are too many, one that isn't in use is ended, rather one without news, and
/// rather the one that was longest without a change. Its record stays with the ended ones.
fn make_room(
    view: &View,
    sessions: &[Checkpoint],
    principal: &PrincipalName,
    now: &Now,
) -> Result<Txn, CheckpointError> {
    let live = || sessions.iter().filter(|c| c.ended.is_none());
    if live().count() < MAX_SESSIONS {
        return Ok(Txn::new());
    }
    let idle = live().filter(|c| !c.is_in_use()).min_by_key(|c| (c.has_news(), c.updated_at));
    let Some(idle) = idle else {
        return Err(CheckpointError::TooManySessions { principal: principal.clone(), limit: MAX_SESSIONS });
    };
    let txn = change(view, idle.clone(), now, |c| {
        end(c, principal, "made room for another session: it was not in use", now);
        Ok(())
    })?;
    Ok(txn.and(forget_oldest(view, sessions)))
}

/// Deletes the records of the sessions that ended first, so that one more fits.
fn forget_oldest(view: &View, sessions: &[Checkpoint]) -> Txn {
    let mut ended: Vec<_> =
        sessions.iter().filter_map(|c| Some((c.ended.as_ref()?.at, &c.session))).collect();
    ended.sort();
    let surplus = (ended.len() + 1).saturating_sub(MAX_ENDED);
    ended.iter().take(surplus).fold(Txn::new(), |txn, (_, session)| txn.delete(view, &key(session)))
}
