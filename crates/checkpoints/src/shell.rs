//! The shell: reads, lets the pure decisions decide, commits. It decides nothing itself.

use crate::record::PREFIX;
use crate::{
    Actions, Attach, Attached, Checkpoint, CheckpointError, Draft, Fact, Known, NextAction, Resume, clients,
    decide_actions, decide_attach, decide_checkpoint, decide_detach, decide_end, decide_facts, key,
    may_resume, scope, scope_of_principal,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::{Clock, Entropy, Liveness, PrincipalName, Probe, SessionId, SessionName};
use tidegate_store::{ReadError, Store, StoreError, View, transact};

/// The sessions of one store. Cheap to clone.
#[derive(Clone)]
pub struct Checkpoints {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    probe: Arc<dyn Probe>,
}

impl Checkpoints {
    /// Sessions kept in `store`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        probe: Arc<dyn Probe>,
    ) -> Self {
        Self { store, clock, entropy, probe }
    }

    /// Makes a connection part of a session. Durable when it returns.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the connection is attached; attaching it again changes nothing.
    ///
    /// # Errors
    /// As [`decide_attach`], and the store's.
    pub async fn attach(&self, attach: &Attach) -> Result<Attached, CheckpointError> {
        let fresh = self.fresh_name();
        let decide = |view: &View| {
            let liveness = clients(view, &attach.wanted.owner)?
                .into_iter()
                .map(|(name, client)| (name, self.probe.liveness(&client)))
                .collect();
            decide_attach(view, attach, &fresh, &liveness, &self.clock.now())
        };
        Ok(transact(&*self.store, &attach.scope(), decide).await?.reply)
    }

    /// Takes a connection out of a session; `None` takes out all that a predecessor left.
    ///
    /// # Errors
    /// The store's.
    pub async fn detach(&self, session: &SessionId, stream: Option<&str>) -> Result<(), CheckpointError> {
        let decide = |view: &View| decide_detach(view, session, stream, &self.clock.now());
        transact(&*self.store, &scope([session]), decide).await?;
        Ok(())
    }

    /// Adds facts to a session's record, all or none. Durable when it returns.
    ///
    /// # Errors
    /// As [`decide_facts`], and the store's.
    pub async fn record(&self, session: &SessionId, facts: &[Fact]) -> Result<(), CheckpointError> {
        let decide = |view: &View| decide_facts(view, session, facts, &self.clock.now());
        transact(&*self.store, &scope([session]), decide).await?;
        Ok(())
    }

    /// Keeps a note of a session. Durable when it returns.
    ///
    /// # Errors
    /// As [`decide_facts`], and the store's.
    pub async fn note(&self, session: &SessionId, text: &str) -> Result<(), CheckpointError> {
        let note = Fact::Note { id: self.entropy.id("note"), text: text.to_owned() };
        self.record(session, &[note]).await
    }

    /// Writes the checkpoints of many sessions in one commit. Answers the next action of each.
    ///
    /// # Errors
    /// As [`decide_checkpoint`], and the store's.
    pub async fn checkpoint(
        &self,
        drafts: &[Draft],
    ) -> Result<BTreeMap<SessionId, NextAction>, CheckpointError> {
        let decide = |view: &View| decide_checkpoint(view, drafts, &self.clock.now());
        Ok(transact(&*self.store, &scope(drafts.iter().map(|d| &d.session)), decide).await?.reply)
    }

    /// Changes the pending actions of many sessions in one commit. Answers the next action of each.
    ///
    /// # Errors
    /// The store's.
    pub async fn change_actions(
        &self,
        changes: &BTreeMap<SessionId, Actions>,
    ) -> Result<BTreeMap<SessionId, NextAction>, CheckpointError> {
        let decide = |view: &View| decide_actions(view, changes, &self.clock.now());
        Ok(transact(&*self.store, &scope(changes.keys()), decide).await?.reply)
    }

    /// What a session is told when it comes back. Reads only: the session may ask as often as it likes.
    ///
    /// # Errors
    /// [`CheckpointError::NoSuchSession`], and the store's.
    pub async fn resume(&self, session: &SessionId) -> Result<Resume, CheckpointError> {
        resume(&*self.store, session).await
    }

    /// As [`Checkpoints::resume`], for a client that names a session other than its own: one of the same principal whose
    /// client is dead.
    ///
    /// # Errors
    /// [`CheckpointError::NoSuchSession`], [`CheckpointError::Name`], and the store's.
    pub async fn resume_other(
        &self,
        caller: &PrincipalName,
        session: &SessionId,
    ) -> Result<Resume, CheckpointError> {
        let resume = self.resume(session).await?;
        let liveness = resume.facts.client.as_ref().map_or(Liveness::Unknown, |c| self.probe.liveness(c));
        may_resume(caller, session, &Known::of(&resume.facts, liveness))?;
        Ok(resume)
    }

    /// Takes out the news that `resume` told, once the session has it. What is not cleared is told again.
    ///
    /// # Errors
    /// The store's.
    pub async fn told(&self, resume: &Resume) -> Result<(), CheckpointError> {
        let told = Actions::clear([crate::Clear::ToldUpTo(resume.tells_up_to)]);
        self.change_actions(&BTreeMap::from([(resume.session.clone(), told)])).await.map(drop)
    }

    /// The record of a session.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, session: &SessionId) -> Result<Option<Checkpoint>, CheckpointError> {
        get(&*self.store, session).await
    }

    /// The records of all sessions, ended ones too, by principal and name.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<Checkpoint>, CheckpointError> {
        list(&*self.store).await
    }

    /// Ends a session. Answers the connections to close; ending it again changes nothing and answers the same.
    ///
    /// # Errors
    /// As [`decide_end`], and the store's.
    pub async fn end(
        &self,
        session: &SessionId,
        by: &PrincipalName,
        operator: bool,
        reason: &str,
    ) -> Result<Vec<String>, CheckpointError> {
        let decide = |view: &View| decide_end(view, session, by, operator, reason, &self.clock.now());
        Ok(transact(&*self.store, &scope_of_principal(&session.principal), decide).await?.reply)
    }

    fn fresh_name(&self) -> SessionName {
        // A prefix, a dash and twenty letters and digits are always a name.
        #[allow(clippy::expect_used)]
        SessionName::new(&self.entropy.id("s")).expect("an id is a name")
    }
}

/// What a session is told when it comes back, with nothing but the store.
///
/// # Errors
/// [`CheckpointError::NoSuchSession`], and the store's.
pub async fn resume(store: &dyn Store, session: &SessionId) -> Result<Resume, CheckpointError> {
    let checkpoint = get(store, session).await?;
    checkpoint.map(Resume::of).ok_or_else(|| CheckpointError::NoSuchSession { session: session.clone() })
}

/// The record of a session, with nothing but the store.
///
/// # Errors
/// The store's.
pub async fn get(store: &dyn Store, session: &SessionId) -> Result<Option<Checkpoint>, CheckpointError> {
    let key = key(session);
    let record = store.get(&key).await.map_err(StoreError::Read)?;
    let view = View::new(Default::default(), Default::default(), record);
    Ok(view.read(&key)?)
}

/// The records of all sessions, with nothing but the store.
///
/// # Errors
/// The store's.
pub async fn list(store: &dyn Store) -> Result<Vec<Checkpoint>, CheckpointError> {
    let listing = store.list(PREFIX).await.map_err(StoreError::Read)?;
    let view = View::new(listing.epoch, listing.revision, listing.records);
    let records: Result<Vec<(_, Checkpoint)>, ReadError> = view.read_under(PREFIX);
    Ok(records?.into_iter().map(|(_, c)| c).collect())
}
