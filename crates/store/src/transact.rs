//! The shell around a decision: read, decide, commit, and again on conflict. It decides nothing itself.

use crate::{CommitError, Decision, Key, Record, Store, StoreError, View};
use tidegate_core::planted::is_planted;
use tidegate_core::{Epoch, Fence, Revision};

/// How often a decision is taken anew when others keep being faster. With fair luck, 32 losses in a row among four
/// writers have a chance below 1 in 10 000; beyond that the caller should know.
pub const MAX_ATTEMPTS: u32 = 32;

/// What a decision reads: single records and whole prefixes.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    keys: Vec<Key>,
    prefixes: Vec<String>,
}

impl Scope {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also this record.
    #[must_use]
    pub fn key(mut self, key: &Key) -> Self {
        self.keys.push(key.clone());
        self
    }

    /// Also every record under this prefix. A decision that rests on a record being *absent* from a prefix needs a
    /// condition on a key both writers touch: prefixes themselves are not locked.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefixes.push(prefix.into());
        self
    }

    /// Also all that another decision reads.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(other.keys);
        self.prefixes.extend(other.prefixes);
        self
    }
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done<R, E = std::convert::Infallible> {
    /// The decision's answer.
    pub reply: R,
    /// What the caller has to do now that the writes are durable.
    pub effects: Vec<E>,
    /// The commit, where anything was written.
    pub committed: Option<Fence>,
}

/// Reads `scope`, asks `decide`, commits what it wants written; anew on conflict and after an uncertain commit.
///
/// After [`CommitError::Uncertain`] the decision is taken again on what is there now: it must recognise its own writes
/// (by an id or a nonce that it put into them) and answer as it would have the first time.
///
/// # Cancel safety
/// Dropping the future leaves it open whether the writes happened, never half of them.
///
/// # Errors
/// What `decide` refuses, and [`StoreError`]: [`CommitError::Uncertain`] only when reading back fails as well.
pub async fn transact<R, F, E>(
    store: &dyn Store,
    scope: &Scope,
    mut decide: impl FnMut(&View) -> Result<Decision<R, F>, E>,
) -> Result<Done<R, F>, E>
where
    E: From<StoreError>,
{
    let mut last_conflict = None;
    let mut uncertain = None;
    for _ in 0..MAX_ATTEMPTS {
        let view = match read(store, scope).await {
            Ok(view) => view,
            Err(error) => return Err(uncertain.map_or(error, StoreError::Commit).into()),
        };
        let decision = decide(&view)?;
        if decision.txn.is_empty() {
            return Ok(Done { reply: decision.reply, effects: decision.effects, committed: None });
        }
        let Decision { txn, reply, effects } = decision;
        match store.commit(txn).await {
            Ok(committed) => return Ok(Done { reply, effects, committed: Some(committed.fence) }),
            Err(CommitError::Uncertain { .. }) if is_planted("uncertain-is-done") => {
                return Ok(Done { reply, effects, committed: Some(Fence::default()) });
            }
            Err(CommitError::Uncertain { reason }) if is_planted("uncertain-is-rejected") => {
                return Err(StoreError::Commit(CommitError::Rejected { reason }).into());
            }
            Err(CommitError::Conflict { key }) => last_conflict = Some(key),
            Err(error @ CommitError::Uncertain { .. }) => uncertain = Some(error),
            Err(error) => return Err(StoreError::Commit(error).into()),
        }
    }
    Err(match (last_conflict, uncertain) {
        (Some(key), _) => StoreError::Contended { key, attempts: MAX_ATTEMPTS },
        (None, Some(error)) => error.into(),
        (None, None) => unreachable!("every attempt ends in one of the two"),
    }
    .into())
}

async fn read(store: &dyn Store, scope: &Scope) -> Result<View, StoreError> {
    let mut records: Vec<Record> = Vec::new();
    let (mut epoch, mut revision) = (Epoch(0), Revision(0));
    for prefix in &scope.prefixes {
        let listing = store.list(prefix).await?;
        (epoch, revision) = (epoch.max(listing.epoch), revision.max(listing.revision));
        records.extend(listing.records);
    }
    for key in &scope.keys {
        records.extend(store.get(key).await?);
    }
    Ok(View::new(epoch, revision, records))
}
