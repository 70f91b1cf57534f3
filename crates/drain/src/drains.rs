//! The shell: runs the decisions against a store and makes the gates follow. Decides nothing itself.

use crate::decide::{decide_begin, decide_end, decide_recover};
use crate::record::{scope, scope_of_all};
use crate::{
    Begin, Begun, DrainError, DrainRecord, DrainState, Drainer, End, Gate, Holder, Recovery, Verdict,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::{Clock, ComponentName, DrainId, Timer};
use tidegate_store::{Store, transact};

/// How a whole drain went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drained {
    /// Nothing unsafe is in flight and the gates are closed: restart, then [`Drains::reopen`].
    Drained {
        /// The record.
        record: DrainRecord,
        /// Read-only work that outlived the deadline.
        read_only: Vec<Holder>,
    },
    /// Refused, and the gates are open again; the record names the holders.
    Refused(DrainRecord),
    /// Somebody else's drain is under way on that scope.
    Already(DrainRecord),
}

/// Durable drains over the gates of all components of a process.
pub struct Drains {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    timer: Arc<dyn Timer>,
    gates: BTreeMap<ComponentName, Gate>,
}

impl Drains {
    /// Drains over these gates.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        timer: Arc<dyn Timer>,
        gates: impl IntoIterator<Item = Gate>,
    ) -> Self {
        let gates = gates.into_iter().map(|gate| (gate.component().clone(), gate)).collect();
        Self { store, clock, timer, gates }
    }

    /// Begins a drain durably, then closes the gates.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a begun drain with open gates: begin again with the same id, or recover.
    ///
    /// # Errors
    /// [`DrainError`].
    pub async fn begin(&self, begin: &Begin) -> Result<Begun, DrainError> {
        let known: Vec<ComponentName> = self.gates.keys().cloned().collect();
        let done = transact(&*self.store, &scope(&begin.scope), |view| {
            decide_begin(view, begin, &known, &self.clock.now())
        })
        .await?;
        if let Begun::Started(record) = &done.reply
            && record.state.is_closed()
        {
            self.close(record);
        }
        Ok(done.reply)
    }

    /// Waits for the verdict on a drain that has begun.
    ///
    /// # Cancel safety
    /// Dropping the future stops the waiting; waiting again goes on with the recorded deadline.
    pub async fn wait(&self, record: &DrainRecord, progress: impl FnMut(&[Holder])) -> Verdict {
        let gates = self.gates_of(record);
        let (clock, timer) = (&*self.clock, &*self.timer);
        Drainer { gates: &gates, deadline: record.deadline, clock, timer }.run(progress).await
    }

    /// Records how a drain ended, then opens the gates where that is the consequence.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the end recorded and the gates closed: say it again.
    ///
    /// # Errors
    /// [`DrainError`]; the gates stay as they are.
    pub async fn end(
        &self,
        components: &[ComponentName],
        id: &DrainId,
        end: &End,
    ) -> Result<DrainRecord, DrainError> {
        let done = transact(&*self.store, &scope(components), |view| {
            decide_end(view, components, id, end, &self.clock.now())
        })
        .await?;
        if !done.reply.state.is_closed() {
            self.open(&done.reply);
        }
        Ok(done.reply)
    }

    /// A whole drain: begin, wait, record. Refused, it has reopened the gates.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the drain under way: ask again with the same id, or recover.
    ///
    /// # Errors
    /// [`DrainError`].
    pub async fn drain(&self, begin: &Begin, progress: impl FnMut(&[Holder])) -> Result<Drained, DrainError> {
        let record = match self.begin(begin).await? {
            Begun::Already(record) => return Ok(Drained::Already(record)),
            Begun::Started(record) => record,
        };
        match record.state {
            DrainState::Closed | DrainState::Drained => {}
            DrainState::Refused => return Ok(Drained::Refused(record)),
            DrainState::Reopened => {
                let component = record.scope.first().cloned().ok_or(DrainError::EmptyScope)?;
                return Err(DrainError::NotUnderWay { id: record.id, component });
            }
        }
        match self.wait(&record, progress).await {
            Verdict::Refused { holders } => {
                self.end(&record.scope, &record.id, &End::Refused { holders }).await.map(Drained::Refused)
            }
            Verdict::Drained { read_only } => {
                let record = self.end(&record.scope, &record.id, &End::Drained).await?;
                Ok(Drained::Drained { record, read_only })
            }
            Verdict::Wait => unreachable!("a drainer returns once it has decided"),
        }
    }

    /// Opens the gates again, durably recorded first.
    ///
    /// # Errors
    /// [`DrainError::NotUnderWay`] when the drain is over or another has taken its place.
    pub async fn reopen(&self, record: &DrainRecord, reason: &str) -> Result<DrainRecord, DrainError> {
        self.end(&record.scope, &record.id, &End::Reopened { reason: reason.to_owned() }).await
    }

    /// After a crash: drains whose deadline lasts have their gates closed again, the others are recorded as reopened.
    ///
    /// The gates of a fresh process are empty: whatever may still be executing from before has to be admitted again
    /// before this is called. Go on with a resumed drain by asking for it again ([`Drains::drain`], same id).
    ///
    /// # Errors
    /// [`DrainError`].
    pub async fn recover(&self) -> Result<Vec<(DrainRecord, Recovery)>, DrainError> {
        let done =
            transact(&*self.store, &scope_of_all(), |view| decide_recover(view, &self.clock.now())).await?;
        for (record, recovery) in &done.reply {
            match recovery {
                Recovery::Resume => self.close(record),
                Recovery::Reopen => self.open(record),
            }
        }
        Ok(done.reply)
    }

    fn gates_of(&self, record: &DrainRecord) -> Vec<Gate> {
        record.scope.iter().filter_map(|component| self.gates.get(component)).cloned().collect()
    }

    /// The record is the decision; a gate that another drain closed meanwhile is that drain's.
    fn close(&self, record: &DrainRecord) {
        for gate in self.gates_of(record) {
            let _ = gate.close(record.id.clone());
        }
    }

    fn open(&self, record: &DrainRecord) {
        for gate in self.gates_of(record) {
            let _ = gate.reopen(&record.id);
        }
    }
}
