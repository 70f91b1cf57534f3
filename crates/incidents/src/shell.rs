//! The shell: reads, lets the pure decisions decide, commits. It decides nothing itself.

use crate::record::{OUTBOX_PREFIX, PREFIX};
use crate::{
    Actor, Incident, IncidentError, IncidentKind, IncidentState, Outbox, Report, Reported,
    decide_acknowledge, decide_recovered, decide_report, decide_resolve, decide_settle, key, scope,
};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tidegate_core::{Clock, Entropy, IncidentId};
use tidegate_store::{ReadError, Store, StoreError, View, transact};

/// The incidents of one store. Cheap to clone.
#[derive(Clone)]
pub struct Incidents {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Incidents {
    /// Incidents kept in `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { store, clock, entropy }
    }

    /// Takes a report. Durable when it returns.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the report was counted; reporting again counts once more.
    ///
    /// # Errors
    /// The store's.
    pub async fn report(&self, report: &Report) -> Result<Reported, IncidentError> {
        let fresh = fresh_id(&*self.entropy);
        let decide = |view: &View| decide_report(view, report, &fresh, &self.clock.now());
        Ok(transact(&*self.store, &scope(), decide).await?.reply)
    }

    /// Notes that what was reported is over by itself, and `how` that was seen. Answers the incident's state, `None` if there is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn recovered(
        &self,
        kind: IncidentKind,
        dedup: &str,
        how: &str,
    ) -> Result<Option<IncidentState>, IncidentError> {
        let decide = |view: &View| decide_recovered(view, kind, dedup, how, &self.clock.now());
        Ok(transact(&*self.store, &scope(), decide).await?.reply)
    }

    /// Resolves what flapped and has been quiet since. Answers their ids. Call it now and then.
    ///
    /// # Errors
    /// The store's.
    pub async fn settle(&self) -> Result<Vec<IncidentId>, IncidentError> {
        let decide = |view: &View| decide_settle(view, &self.clock.now());
        Ok(transact(&*self.store, &scope(), decide).await?.reply)
    }

    /// Records that somebody has seen it.
    ///
    /// # Errors
    /// As [`decide_acknowledge`], and the store's.
    pub async fn acknowledge(
        &self,
        id: &IncidentId,
        by: &Actor,
        note: &str,
    ) -> Result<Incident, IncidentError> {
        let decide = |view: &View| decide_acknowledge(view, id, by, note, &self.clock.now());
        Ok(transact(&*self.store, &scope(), decide).await?.reply)
    }

    /// Records that nothing is left to do.
    ///
    /// # Errors
    /// As [`decide_resolve`], and the store's.
    pub async fn resolve(&self, id: &IncidentId, by: &Actor, note: &str) -> Result<Incident, IncidentError> {
        let decide = |view: &View| decide_resolve(view, id, by, note, &self.clock.now());
        Ok(transact(&*self.store, &scope(), decide).await?.reply)
    }

    /// One incident.
    ///
    /// # Errors
    /// [`IncidentError::NoSuchIncident`], and the store's.
    pub async fn get(&self, id: &IncidentId) -> Result<Incident, IncidentError> {
        let key = key(id);
        let record = self.store.get(&key).await.map_err(StoreError::Read)?;
        let view = View::new(Default::default(), Default::default(), record);
        view.read(&key)?.ok_or_else(|| IncidentError::NoSuchIncident { id: id.clone() })
    }

    /// All incidents, in the order in which they were first seen.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<Incident>, IncidentError> {
        list(&*self.store).await
    }

    /// What is to be delivered to trackers.
    ///
    /// # Errors
    /// The store's.
    pub async fn outbox(&self) -> Result<Vec<Outbox>, IncidentError> {
        read_all(&*self.store, OUTBOX_PREFIX).await
    }
}

/// An unused id for a report.
#[must_use]
pub fn fresh_id(entropy: &dyn Entropy) -> IncidentId {
    // A prefix, a dash and twenty letters and digits are always a name.
    #[allow(clippy::expect_used)]
    IncidentId::new(&entropy.id("inc")).expect("an id is a name")
}

/// All incidents in the order in which they were first seen, with nothing but the store.
///
/// # Errors
/// The store's.
pub async fn list(store: &dyn Store) -> Result<Vec<Incident>, IncidentError> {
    let mut incidents: Vec<Incident> = read_all(store, PREFIX).await?;
    incidents.sort_by(|a, b| (a.first_seen, &a.id).cmp(&(b.first_seen, &b.id)));
    Ok(incidents)
}

async fn read_all<T: DeserializeOwned>(store: &dyn Store, prefix: &str) -> Result<Vec<T>, IncidentError> {
    let listing = store.list(prefix).await.map_err(StoreError::Read)?;
    let view = View::new(listing.epoch, listing.revision, listing.records);
    let records: Result<Vec<(_, T)>, ReadError> = view.read_under(prefix);
    Ok(records?.into_iter().map(|(_, record)| record).collect())
}
