//! The durable records as a fresh process would read them: the synced state of the store and nothing else, read with the
//! crates' own types.

use super::{Coverage, Rule, Violation};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_checkpoints::Checkpoint;
use tidegate_core::{ComponentName, Fence, IncidentId, OperationId, Revision, SessionId};
use tidegate_drain::DrainRecord;
use tidegate_governor::{Component, Operation};
use tidegate_incidents::Incident;
use tidegate_leases::{Lease, load_all};
use tidegate_store::{Key, MemoryStore, Record, View};

/// What is durable.
#[derive(Default)]
pub(crate) struct Durable {
    revision: Revision,
    fences: BTreeMap<Key, Fence>,
    pub(crate) checkpoints: BTreeMap<SessionId, Checkpoint>,
    pub(crate) operations: BTreeMap<OperationId, Operation>,
    pub(crate) incidents: BTreeMap<IncidentId, Incident>,
    pub(crate) leases: BTreeMap<String, Lease>,
    /// What each lease has been, and from which step on.
    holders: BTreeMap<String, Vec<(u64, Lease)>>,
    pub(crate) components: BTreeMap<ComponentName, Component>,
    pub(crate) drains: BTreeMap<ComponentName, DrainRecord>,
    /// A lease whose fence has fallen, which none ever may.
    pub(crate) fallen_fence: Option<String>,
}

impl Durable {
    /// Reads what has changed; whether anything has.
    pub(crate) fn refresh(
        &mut self,
        memory: &MemoryStore,
        step: u64,
        coverage: &mut Coverage,
    ) -> Result<bool, Violation> {
        let revision = memory.stable_revision();
        if revision == self.revision {
            return Ok(false);
        }
        if revision < self.revision {
            let what = format!("the durable revision fell from {} to {}", self.revision.0, revision.0);
            return Err(Violation::new(Rule::Bullet(5), what));
        }
        self.revision = revision;
        let listing = memory.stable("");
        let mut gone: BTreeSet<Key> = self.fences.keys().cloned().collect();
        for record in &listing.records {
            gone.remove(&record.key);
            if self.fences.insert(record.key.clone(), record.fence) != Some(record.fence) {
                self.read(record, step, coverage)
                    .map_err(|what| Violation::new(Rule::Bullet(10), format!("{}: {what}", record.key)))?;
            }
        }
        for key in gone {
            self.fences.remove(&key);
            self.forget(&key);
        }
        Ok(true)
    }

    fn read(&mut self, record: &Record, step: u64, coverage: &mut Coverage) -> Result<(), String> {
        let (prefix, name) = record.key.as_str().split_once('/').unwrap_or_default();
        let view = View::new(record.fence.epoch, record.fence.revision, [record.clone()]);
        match prefix {
            "checkpoint" => {
                let checkpoint: Checkpoint = parse(record)?;
                coverage.actions(&checkpoint);
                self.checkpoints.insert(checkpoint.session.clone(), checkpoint);
            }
            "operation" => {
                let operation: Operation = parse(record)?;
                coverage.phase(&operation);
                self.operations.insert(operation.id.clone(), operation);
            }
            "incident" => {
                let incident: Incident = parse(record)?;
                coverage.incident(&incident);
                self.incidents.insert(incident.id.clone(), incident);
            }
            "lease" => {
                for lease in load_all(&view).map_err(|error| error.to_string())? {
                    coverage.lease(&lease);
                    let fence = lease.fence;
                    let before = self.lease_is(name, step, lease);
                    if before.is_some_and(|before| before.fence > fence) {
                        self.fallen_fence = Some(name.to_owned());
                    }
                }
            }
            "component" => {
                let component: Component = parse(record)?;
                self.components.insert(component.name.clone(), component);
            }
            "drain" => {
                let component = name.parse().map_err(|_| "is no component".to_owned())?;
                self.drains.insert(component, parse(record)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// A lease is this, from `step` on; what it was before.
    pub(crate) fn lease_is(&mut self, key: &str, step: u64, lease: Lease) -> Option<Lease> {
        self.holders.entry(key.to_owned()).or_default().push((step, lease.clone()));
        self.leases.insert(key.to_owned(), lease)
    }

    /// What was durable of a lease in the step before `step`, `None` where nothing was, and in any since.
    pub(crate) fn lease_since(&self, key: &str, step: u64) -> impl Iterator<Item = Option<&Lease>> {
        let all = self.holders.get(key).map(Vec::as_slice).unwrap_or_default();
        let (before, since) = all.split_at(all.partition_point(|(at, _)| *at < step));
        std::iter::once(before.last())
            .chain(since.iter().map(Some))
            .map(|known| known.map(|(_, lease)| lease))
    }

    /// Changes whenever anything durable does.
    pub(crate) fn version(&self) -> u64 {
        self.revision.0
    }

    fn forget(&mut self, key: &Key) {
        let (prefix, name) = key.as_str().split_once('/').unwrap_or_default();
        match prefix {
            "checkpoint" => drop(name.parse().map(|session: SessionId| self.checkpoints.remove(&session))),
            "operation" => drop(name.parse().map(|id: OperationId| self.operations.remove(&id))),
            "incident" => drop(name.parse().map(|id: IncidentId| self.incidents.remove(&id))),
            "lease" => drop(self.leases.remove(name)),
            _ => {}
        }
    }

    /// The operation whose drain this is.
    pub(crate) fn of_drain(&self, drain: &tidegate_core::DrainId) -> Option<&Operation> {
        self.operations.values().find(|o| o.drain.as_ref().is_some_and(|it| it.id == *drain))
    }

    /// The operation that is stopping this component, by what is durable.
    pub(crate) fn stopping(&self, component: &ComponentName) -> Option<&Operation> {
        self.operations
            .values()
            .find(|o| o.phase == tidegate_governor::Phase::Stopping && o.scope.contains(component))
    }
}

fn parse<T: serde::de::DeserializeOwned>(record: &Record) -> Result<T, String> {
    serde_json::from_slice(&record.value).map_err(|error| error.to_string())
}
