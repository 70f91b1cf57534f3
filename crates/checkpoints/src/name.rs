//! Which session a client gets that asks for a name. A pure decision on names, processes and their liveness.
//!
//! A name is a claim within a principal. Process identity is evidence for it: only a client that is *proved* dead
//! makes room for another one, "cannot tell" counts as alive.

use crate::Checkpoint;
use std::collections::BTreeMap;
use tidegate_core::{Liveness, PrincipalName, ProcessIdentity, SessionId, SessionName};

/// The highest number that a second client's name gets (`NAME.2` … `NAME.64`). More living clients that insist on one
/// name are a configuration that wants names of its own.
pub const MAX_SUFFIX: u32 = 64;

/// What is known of a name that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The client that has it, where it has a process.
    pub client: Option<ProcessIdentity>,
    /// Whether that process is alive. Means nothing without a client.
    pub liveness: Liveness,
    /// Whether it is connected.
    pub attached: bool,
    /// Whether the session has ended.
    pub ended: bool,
}

impl Known {
    /// What a record says, and what is known of its client's process.
    #[must_use]
    pub fn of(checkpoint: &Checkpoint, liveness: Liveness) -> Self {
        Self {
            client: checkpoint.client.clone(),
            liveness,
            attached: checkpoint.is_attached(),
            ended: checkpoint.ended.is_some(),
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Who asks.
    pub caller: PrincipalName,
    /// Whether the caller is an operator.
    pub operator: bool,
    /// Whose session it is to be; the caller's own but for operators who steal or have stolen.
    pub owner: PrincipalName,
    /// The name, where one was given.
    pub name: Option<SessionName>,
    /// The client's process, where it has one.
    pub client: Option<ProcessIdentity>,
    /// Whether to take the name from a living client.
    pub steal: bool,
}

impl Wanted {
    /// A session of the caller's own; one that is already somebody else's is left alone.
    #[must_use]
    pub fn own(caller: PrincipalName, name: Option<SessionName>, client: Option<ProcessIdentity>) -> Self {
        Self { owner: caller.clone(), caller, operator: false, name, client, steal: false }
    }
}

/// The session that a client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// A new session of this name (or the name of one that has ended).
    Fresh(SessionName),
    /// The session that was already there: of the same client, or of one that is dead.
    Same(SessionName),
    /// Another session, because a living client has the name.
    Suffixed {
        /// What was asked for.
        wanted: SessionName,
        /// What it got: a new session, or by the same rule one that was already there.
        name: SessionName,
    },
    /// The session of a living client, taken from it.
    Stolen(SessionName),
}

impl Resolution {
    /// The name that the client got.
    #[must_use]
    pub fn name(&self) -> &SessionName {
        match self {
            Self::Fresh(name) | Self::Same(name) | Self::Stolen(name) | Self::Suffixed { name, .. } => name,
        }
    }

    /// What the client has to be told about it.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Fresh(_) | Self::Same(_) => None,
            Self::Suffixed { wanted, name, .. } => Some(format!(
                "Another client that is alive has the session {wanted}, so this is the session {name}. Use `--session` \
                 with a name of its own, or `--steal` to take {wanted} over."
            )),
            Self::Stolen(name) => {
                Some(format!("The session {name} was taken over from another client; this is recorded."))
            }
        }
    }
}

/// A name that can't be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameRefusal {
    /// Another principal's session.
    #[error("session {session} belongs to another principal; only an operator takes it over, with `--steal`")]
    NotYours {
        /// Which.
        session: SessionId,
    },
    /// An operator wants to take over what isn't there.
    #[error("there is no session {session} to take over; `tidegate sessions` lists those that there are")]
    NothingToSteal {
        /// Which.
        session: SessionId,
    },
    /// Another principal's session, without saying which.
    #[error("which session of {owner} is to be taken over? name it with `--session`")]
    NoName {
        /// Whose.
        owner: PrincipalName,
    },
    /// A session of the same principal that somebody else is in.
    #[error(
        "session {session} has a client that may be alive; end that client first, or take the session over with `--steal`"
    )]
    Alive {
        /// Which.
        session: SessionId,
    },
    /// Living clients have all the names.
    #[error(
        "living clients have {name} and all its numbers up to {MAX_SUFFIX} that fit; use `--session` with another name"
    )]
    AllTaken {
        /// The name.
        name: SessionName,
    },
}

/// Decides which session a client gets. `known` holds the sessions of `wanted.owner`, `fresh` is an unused name.
///
/// Without a name, all connections of one client process are one session. With a name: the same name after the client
/// is dead is the same session; while it lives a second client gets the first of `NAME.2`, `NAME.3`, … that is free by
/// the same rule, or, with `steal`, takes the name over. Whoever has got a number keeps it for all its connections,
/// whatever has become free since: one client that asks for one name is one session.
///
/// # Errors
/// [`NameRefusal`], when the session is another principal's or no name is free.
pub fn resolve_name(
    known: &BTreeMap<SessionName, Known>,
    wanted: &Wanted,
    fresh: &SessionName,
) -> Result<Resolution, NameRefusal> {
    if wanted.owner != wanted.caller {
        return foreign(known, wanted);
    }
    let is_mine = |k: &Known| belongs_to_client(k, wanted);
    let Some(name) = &wanted.name else {
        let mine = known.iter().find(|(_, k)| is_mine(k));
        return Ok(
            mine.map_or_else(|| Resolution::Fresh(fresh.clone()), |(name, _)| Resolution::Same(name.clone()))
        );
    };
    if !wanted.steal
        && !known.get(name).is_some_and(is_mine)
        && let Some(kept) = numbered(name).find(|it| known.get(it).is_some_and(is_mine))
    {
        return Ok(Resolution::Suffixed { wanted: name.clone(), name: kept });
    }
    match claim(known.get(name), wanted) {
        Claim::New => Ok(Resolution::Fresh(name.clone())),
        Claim::Mine => Ok(Resolution::Same(name.clone())),
        Claim::Taken if wanted.steal => Ok(Resolution::Stolen(name.clone())),
        Claim::Taken => suffixed(known, wanted, name),
    }
}

/// Decides whether `caller` may be told what another session was told: one of its own whose client is dead.
///
/// # Errors
/// [`NameRefusal::NotYours`], [`NameRefusal::Alive`].
pub fn may_resume(caller: &PrincipalName, session: &SessionId, known: &Known) -> Result<(), NameRefusal> {
    if session.principal != *caller {
        Err(NameRefusal::NotYours { session: session.clone() })
    } else if !known.ended && occupied(known) {
        Err(NameRefusal::Alive { session: session.clone() })
    } else {
        Ok(())
    }
}

fn foreign(known: &BTreeMap<SessionName, Known>, wanted: &Wanted) -> Result<Resolution, NameRefusal> {
    let Some(name) = &wanted.name else {
        return Err(NameRefusal::NoName { owner: wanted.owner.clone() });
    };
    let session = || SessionId::new(wanted.owner.clone(), name.clone());
    // What an operator has taken over is the operator's for all connections of the client, and when they come back.
    if wanted.operator && known.get(name).is_some_and(|k| belongs_to_client(k, wanted)) {
        return Ok(Resolution::Same(name.clone()));
    }
    if !(wanted.operator && wanted.steal) {
        return Err(NameRefusal::NotYours { session: session() });
    }
    match known.get(name) {
        Some(k) if !k.ended => Ok(Resolution::Stolen(name.clone())),
        _ => Err(NameRefusal::NothingToSteal { session: session() }),
    }
}

/// Whether a session is that of the client that asks.
fn belongs_to_client(known: &Known, wanted: &Wanted) -> bool {
    !known.ended && same_process(&known.client, &wanted.client)
}

enum Claim {
    New,
    Mine,
    Taken,
}

fn claim(known: Option<&Known>, wanted: &Wanted) -> Claim {
    match known {
        None => Claim::New,
        Some(k) if k.ended => Claim::New,
        Some(k) if same_process(&k.client, &wanted.client) || !occupied(k) => Claim::Mine,
        Some(_) => Claim::Taken,
    }
}

/// Whether a living client may have it. A client without a process is alive as long as it is connected.
fn occupied(known: &Known) -> bool {
    if known.client.is_some() { !known.liveness.is_proved_dead() } else { known.attached }
}

/// Whether both are known and one incarnation of one process. The nonce is left out: it belongs to processes that we
/// start, and clients aren't among them.
pub(crate) fn same_process(a: &Option<ProcessIdentity>, b: &Option<ProcessIdentity>) -> bool {
    matches!((a, b), (Some(a), Some(b))
        if (a.boot, a.pid_ns, a.pid, a.start_ticks) == (b.boot, b.pid_ns, b.pid, b.start_ticks))
}

fn suffixed(
    known: &BTreeMap<SessionName, Known>,
    wanted: &Wanted,
    name: &SessionName,
) -> Result<Resolution, NameRefusal> {
    let free = numbered(name).find(|it| !matches!(claim(known.get(it), wanted), Claim::Taken));
    match free {
        Some(free) => Ok(Resolution::Suffixed { wanted: name.clone(), name: free }),
        None => Err(NameRefusal::AllTaken { name: name.clone() }),
    }
}

/// `NAME.2`, `NAME.3`, …: those that fit.
fn numbered(name: &SessionName) -> impl Iterator<Item = SessionName> {
    (2..=MAX_SUFFIX).map_while(move |number| SessionName::new(&format!("{name}.{number}")).ok())
}
