//! The shell around the component's record. It decides nothing itself.

use crate::component::{
    self, Component, ComponentError, ComponentState, component_scope, decide_begin_generation,
    decide_belongs, decide_clear_unsafe, decide_forget, decide_mark_unsafe, decide_per_session,
    decide_record_identity, decide_state, decide_stopped,
};
use crate::{RecordIdentity, Stamp};
use std::sync::Arc;
use tidegate_core::{BoxFuture, ComponentName, Entropy, Generation, IncidentId, ProcessIdentity, SessionId};
use tidegate_store::{Decision, Store, View, transact};

/// The components of one store. Cheap to clone.
#[derive(Clone)]
pub struct Components {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
}

impl Components {
    /// The components kept in `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>) -> Self {
        Self { store, entropy }
    }

    /// One component; one that was never started where there is no record.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, name: &ComponentName) -> Result<Component, ComponentError> {
        self.decide(name, |view| Ok(Decision::reply(Component::read(view, name)?))).await
    }

    /// All components that have a record, by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<Component>, ComponentError> {
        let listing = self.store.list(component::PREFIX).await?;
        let view = View::new(listing.epoch, listing.revision, listing.records);
        Ok(view.read_under(component::PREFIX)?.into_iter().map(|(_, component)| component).collect())
    }

    /// Records whose server `name` is. Durable when it returns.
    ///
    /// # Errors
    /// The store's.
    pub async fn belongs(&self, name: &ComponentName, session: &SessionId) -> Result<(), ComponentError> {
        self.decide(name, |view| decide_belongs(view, name, session)).await
    }

    /// Records whether each session has a server of this component for itself.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_per_session(
        &self,
        name: &ComponentName,
        per_session: bool,
    ) -> Result<(), ComponentError> {
        self.decide(name, |view| decide_per_session(view, name, per_session)).await
    }

    /// Forgets a server whose session is over.
    ///
    /// # Errors
    /// As [`decide_forget`], and the store's.
    pub async fn forget(&self, name: &ComponentName) -> Result<(), ComponentError> {
        self.decide(name, |view| decide_forget(view, name)).await
    }

    /// Begins the next generation outside operations: the first start, or the one after a crash. Durable when it
    /// returns; only then may anything be started.
    ///
    /// # Errors
    /// As [`decide_begin_generation`], and the store's.
    pub async fn begin_generation(&self, name: &ComponentName) -> Result<Component, ComponentError> {
        let stamp = Stamp::fresh(&*self.entropy);
        self.decide(name, |view| decide_begin_generation(view, name, &stamp)).await
    }

    /// Records who the process of a generation is. Durable when it returns; only then may its program run.
    ///
    /// # Errors
    /// As [`decide_record_identity`], and the store's.
    pub async fn record_identity(
        &self,
        name: &ComponentName,
        generation: Generation,
        process: &ProcessIdentity,
    ) -> Result<(), ComponentError> {
        self.decide(name, |view| decide_record_identity(view, name, generation, process)).await
    }

    /// Records the proved death of a generation's process.
    ///
    /// # Errors
    /// As [`decide_stopped`], and the store's.
    pub async fn stopped(
        &self,
        name: &ComponentName,
        generation: Generation,
        state: ComponentState,
    ) -> Result<Component, ComponentError> {
        self.decide(name, |view| decide_stopped(view, name, generation, state)).await
    }

    /// Records what a component does now, outside operations.
    ///
    /// # Errors
    /// As [`decide_state`], and the store's.
    pub async fn set_state(
        &self,
        name: &ComponentName,
        generation: Generation,
        state: ComponentState,
        incident: Option<&IncidentId>,
    ) -> Result<Component, ComponentError> {
        self.decide(name, |view| decide_state(view, name, generation, state, incident)).await
    }

    /// Marks that a non-read call may be written to this generation. Durable when it returns.
    ///
    /// # Errors
    /// As [`decide_mark_unsafe`], and the store's.
    pub async fn mark_unsafe(
        &self,
        name: &ComponentName,
        generation: Generation,
    ) -> Result<Component, ComponentError> {
        self.decide(name, |view| decide_mark_unsafe(view, name, generation)).await
    }

    /// Clears that mark.
    ///
    /// # Errors
    /// As [`decide_clear_unsafe`], and the store's.
    pub async fn clear_unsafe(
        &self,
        name: &ComponentName,
        generation: Generation,
    ) -> Result<Component, ComponentError> {
        self.decide(name, |view| decide_clear_unsafe(view, name, generation)).await
    }

    /// What to hand to whoever starts this generation.
    #[must_use]
    pub fn recorder(&self, name: &ComponentName, generation: Generation) -> impl RecordIdentity + use<> {
        Recorder { components: self.clone(), name: name.clone(), generation }
    }

    async fn decide<T>(
        &self,
        name: &ComponentName,
        decide: impl FnMut(&View) -> Result<Decision<T>, ComponentError>,
    ) -> Result<T, ComponentError> {
        Ok(transact(&*self.store, &component_scope(name), decide).await?.reply)
    }
}

struct Recorder {
    components: Components,
    name: ComponentName,
    generation: Generation,
}

impl RecordIdentity for Recorder {
    fn record<'a>(&'a self, process: &'a ProcessIdentity) -> BoxFuture<'a, Result<(), ComponentError>> {
        Box::pin(self.components.record_identity(&self.name, self.generation, process))
    }
}
