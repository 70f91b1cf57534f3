//! The record of a lease: who holds what, until when, under which fence, and how it came to that.
//!
//! It keeps what it is told. Which changes are allowed is decided elsewhere, one file per command.

use crate::key::PREFIX;
use crate::{LeaseKey, Outcome};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tidegate_core::planted::is_planted;
use tidegate_core::{
    Deadline, Fence, HeldLease, Now, ProcessIdentity, SessionId, WallTime, WorkClass, millis, opt_millis,
};
use tidegate_store::{ReadError, Record, View};

/// The shortest time to live: three times [`SWEEP_EVERY`](crate::SWEEP_EVERY), so that a manager that misses a whole ttl
/// has not just swept late.
pub const MIN_TTL: Duration = Duration::from_secs(3);

/// The longest time to live, and the longest `max_ttl`: a day. Whoever needs a resource for longer shows once a day that
/// they are still there.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How many events of its past a record keeps: enough to see who had it around an incident.
pub const MAX_HISTORY: usize = 16;

/// The longest note of an event, in bytes: a sentence. Longer ones are cut.
pub const MAX_NOTE_BYTES: usize = 256;

/// How long the record of a lease that has ended is kept, so that its session can be told what became of it.
pub const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);

/// Who holds a lease. The session owns it; its process is evidence of life, nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// The client's process, where it is one on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
}

/// What has become of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// It has a holder.
    Held,
    /// It was taken from its holder: its time ran out, or the holder was proved dead.
    Expired,
    /// Its holder can't be asked, and nobody else may have it until an operator adopts it.
    Orphaned,
    /// Its holder, or an operator, gave it back.
    Released,
}

impl LeaseState {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::Orphaned)
    }
}

/// What happened to a lease at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When, for people.
    pub at: WallTime,
    /// What.
    pub event: Event,
    /// The session that got the lease or lost it.
    pub session: SessionId,
    /// The fence it ended, where it ended one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// Why, or by whose word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The events of a lease's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The session got the free lease.
    Granted,
    /// The session got it from whoever had it, under a new fence.
    Adopted,
    /// The session kept it through a restart.
    CarriedOver,
    /// The session lost it.
    Expired,
    /// The session can't be asked.
    Orphaned,
    /// The session gave it back.
    Released,
}

/// The restart or the sweep that decided about a lease last: doing it again, after an uncertain commit, changes nothing
/// and says the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settled {
    pub(crate) by: String,
    pub(crate) outcome: Outcome,
}

/// A lease as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What is leased.
    pub key: LeaseKey,
    /// Who holds it, or held it last.
    pub owner: Owner,
    /// What the holder does under it.
    pub class: WorkClass,
    /// How long a renewal lasts.
    #[serde(rename = "ttl_ms", with = "millis")]
    pub ttl: Duration,
    /// How long it lasts at most, whatever is renewed.
    #[serde(rename = "max_ttl_ms", default, with = "opt_millis", skip_serializing_if = "Option::is_none")]
    pub max_ttl: Option<Duration>,
    /// When the last renewal runs out.
    pub deadline: Deadline,
    /// When `max_ttl` runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deadline: Option<Deadline>,
    /// What has become of it.
    pub state: LeaseState,
    /// Its fencing token. A record leaves it out when the commit that wrote it is the one that granted the lease;
    /// [`load`] puts it back, so that every lease a caller sees has the real one.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub fence: Fence,
    /// The number of the request that was granted: the same again is the same request.
    pub nonce: String,
    /// When the record may be dropped, once the lease has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget: Option<Deadline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settled: Option<Settled>,
    /// What happened to it, the newest last, at most [`MAX_HISTORY`].
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
    /// Fields of a newer version, kept when the record is rewritten.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

fn is_unset(fence: &Fence) -> bool {
    *fence == Fence::default()
}

impl Lease {
    /// Whether somebody holds it or may still be holding it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// When the last renewal runs out, by the clock of `now`'s boot.
    ///
    /// A deadline of an earlier boot means nothing now. The last renewal was at the latest at the beginning of this
    /// boot, so a whole ttl from there takes nothing from a holder on another host.
    #[must_use]
    pub fn deadline_on(&self, now: &Now) -> Deadline {
        on(self.deadline, self.ttl, now)
    }

    /// When `max_ttl` runs out, by the clock of `now`'s boot; as [`Lease::deadline_on`].
    #[must_use]
    pub fn max_deadline_on(&self, now: &Now) -> Option<Deadline> {
        self.max_deadline.map(|d| on(d, self.max_ttl.unwrap_or(self.ttl), now))
    }

    /// As whoever admits work under it sees it; `None` when nobody holds it.
    #[must_use]
    pub fn held(&self, now: &Now) -> Option<HeldLease> {
        if self.state != LeaseState::Held {
            return None;
        }
        // Only proof of its holder's death ends a mutating one, or its longest time.
        let renewed = (self.class != WorkClass::Mutating).then(|| self.deadline_on(now));
        let until = renewed.into_iter().chain(self.max_deadline_on(now)).map(|deadline| deadline.at_ms);
        let until_ms = until.min().filter(|_| !is_planted("what-has-run-out-still-admits"));
        Some(HeldLease { session: self.owner.session.clone(), fence: self.fence, until_ms })
    }

    /// The lease as the JSON object of the public contract, with its history.
    #[must_use]
    pub fn to_json(&self, now: &Now) -> serde_json::Value {
        let left = u64::try_from(self.deadline_on(now).remaining(now).as_millis()).unwrap_or(u64::MAX);
        serde_json::json!({
            "key": self.key, "session": self.owner.session, "fence": self.fence, "class": self.class,
            "expires_in_ms": if self.is_live() { left } else { 0 }, "state": self.state, "history": self.history,
        })
    }

    /// Renews: a whole ttl from now, within `max_ttl`.
    pub(crate) fn extend(&mut self, now: &Now) {
        self.max_deadline = self.max_deadline_on(now);
        let deadline = now.deadline(self.ttl);
        self.deadline = self.max_deadline.map_or(deadline, |max| deadline.min(max));
    }

    /// Writes down what happened; the oldest events go.
    pub(crate) fn log(&mut self, now: &Now, event: Event, note: &str) {
        let fence = (event != Event::Granted && !is_unset(&self.fence)).then_some(self.fence);
        let mut end = note.len().min(MAX_NOTE_BYTES);
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        let entry = HistoryEntry {
            at: now.wall,
            event,
            session: self.owner.session.clone(),
            fence,
            note: note[..end].to_owned(),
        };
        self.history.push(entry);
        let surplus = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..surplus);
    }

    /// Ends it: from now on anybody may have it.
    pub(crate) fn end(&mut self, now: &Now, state: LeaseState, event: Event, note: &str) {
        self.log(now, event, note);
        self.state = state;
        self.forget = Some(now.deadline(FORGET_AFTER));
    }

    /// Takes it from its holder.
    pub(crate) fn expire(&mut self, why: &str, now: &Now) -> Outcome {
        self.end(now, LeaseState::Expired, Event::Expired, why);
        Outcome::Expired
    }

    /// Gives it to nobody until an operator does.
    pub(crate) fn orphan(&mut self, why: &str, now: &Now) -> Outcome {
        self.log(now, Event::Orphaned, why);
        self.state = LeaseState::Orphaned;
        Outcome::Orphaned
    }

    /// Hands it to `owner` in the commit that is being decided: a new fence, a whole ttl.
    pub(crate) fn hand_to(&mut self, owner: &Owner, nonce: &str, now: &Now, note: &str) {
        self.log(now, Event::Adopted, note);
        self.owner = owner.clone();
        self.nonce = nonce.to_owned();
        self.state = LeaseState::Held;
        self.fence = Fence::default();
        // What was decided about the former grant says nothing of this one.
        (self.forget, self.settled) = (None, None);
        self.max_deadline = self.max_ttl.map(|max| now.deadline(max));
        self.extend(now);
    }
}

fn on(deadline: Deadline, length: Duration, now: &Now) -> Deadline {
    if deadline.boot == now.boot { deadline } else { Now { boot_ms: 0, ..*now }.deadline(length) }
}

/// The lease of a resource, where there is a record of one.
///
/// # Errors
/// [`ReadError::Malformed`] when the record isn't a lease.
pub fn load(view: &View, key: &LeaseKey) -> Result<Option<Lease>, ReadError> {
    let lease = view.read(key.record())?;
    Ok(lease.zip(view.record(key.record())).map(|(lease, record)| with_fence(lease, record)))
}

/// A lease without its past, which is most of a record: enough to see whether it is worth reading whole.
#[derive(Deserialize)]
pub(crate) struct Brief {
    pub(crate) key: LeaseKey,
    pub(crate) owner: Owner,
    pub(crate) state: LeaseState,
    deadline: Deadline,
    #[serde(rename = "ttl_ms", with = "millis")]
    pub(crate) ttl: Duration,
}

impl Brief {
    /// As [`Lease::deadline_on`].
    pub(crate) fn deadline_on(&self, now: &Now) -> Deadline {
        on(self.deadline, self.ttl, now)
    }
}

/// All leases in the view, by key.
///
/// # Errors
/// [`ReadError::Malformed`] naming the first record that isn't a lease.
pub fn load_all(view: &View) -> Result<Vec<Lease>, ReadError> {
    let leases = view.read_under(PREFIX)?;
    Ok(leases.into_iter().map(|(record, lease)| with_fence(lease, &record)).collect())
}

fn with_fence(mut lease: Lease, record: &Record) -> Lease {
    if is_unset(&lease.fence) {
        lease.fence = record.fence;
    }
    lease
}
