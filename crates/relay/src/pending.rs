//! The pending map: every request of a client that is held or in flight, by number, by client id and by upstream id.
//! Keeps the indexes consistent; decides nothing.

use crate::message::Message;
use crate::subscriptions::Wish;
use crate::{Classified, RawId, StreamId};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use tidegate_drain::{Permit, WorkInfo};

/// A request between arrival and end.
pub(crate) struct Entry {
    pub(crate) stream: StreamId,
    /// Which line of the stream it was.
    pub(crate) line: Option<NonZero<u64>>,
    pub(crate) client_id: RawId,
    pub(crate) method: String,
    pub(crate) work: Arc<WorkInfo>,
    /// The operator lets an idempotent call be written again.
    pub(crate) replay_allowed: bool,
    /// Kept while the request may still be written; of a call that can't be replayed it goes with the write.
    pub(crate) message: Option<Message>,
    pub(crate) token: Option<RawId>,
    /// What the server will have agreed to when it answers well.
    pub(crate) wish: Option<Wish>,
    pub(crate) arrived_ms: u64,
    /// The deadline that spans hold and replay.
    pub(crate) deadline_ms: u64,
    pub(crate) replayed: bool,
    pub(crate) state: State,
}

/// Where a request stands. Answered, cancelled and unknown ones are not in the map any more.
pub(crate) enum State {
    /// Not written; refused when this time has come.
    Queued { until_ms: u64 },
    /// Written to the current generation.
    Flying(Flight),
}

pub(crate) struct Flight {
    pub(crate) upstream: u64,
    pub(crate) permit: Permit,
    /// The caller has been answered, has cancelled or is gone.
    pub(crate) detached: bool,
    /// How many non-read calls had been admitted with this one.
    pub(crate) unsafe_admissions: u64,
    pub(crate) times_out_ms: Option<u64>,
    /// [`Effect::Unknown`](crate::Effect) has been said of it.
    pub(crate) told_unknown: bool,
    /// [`Effect::Detached`](crate::Effect) has been said of it.
    pub(crate) told_detached: bool,
}

impl Entry {
    pub(crate) fn flight(&self) -> Option<&Flight> {
        match &self.state {
            State::Flying(flight) => Some(flight),
            State::Queued { .. } => None,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.line().len())
    }

    /// Whether it had been written before, and may have changed something then, whatever becomes of it now.
    pub(crate) fn may_have_happened(&self) -> bool {
        self.replayed && self.work.class.is_unsafe()
    }

    /// When something has to be done about it by itself.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        match &self.state {
            State::Queued { until_ms } => Some(*until_ms),
            State::Flying(flight) if flight.detached => None,
            State::Flying(flight) => flight.times_out_ms,
        }
    }
}

#[derive(Default)]
pub(crate) struct Pending {
    entries: BTreeMap<u64, Entry>,
    by_client: BTreeMap<(StreamId, RawId), u64>,
    by_upstream: BTreeMap<u64, u64>,
}

impl Pending {
    pub(crate) fn insert(&mut self, number: u64, entry: Entry) {
        self.by_client.insert((entry.stream, entry.client_id.clone()), number);
        self.entries.insert(number, entry);
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }

    pub(crate) fn of_client(&self, stream: StreamId, id: &RawId) -> Option<u64> {
        self.by_client.get(&(stream, id.clone())).copied()
    }

    pub(crate) fn of_upstream(&self, upstream: u64) -> Option<u64> {
        self.by_upstream.get(&upstream).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// The numbers of those that `wanted` picks, in order of arrival.
    pub(crate) fn numbers(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<u64> {
        self.iter().filter(|(_, entry)| wanted(entry)).map(|(number, _)| number).collect()
    }

    /// The class of an entry that waits is another one by now.
    pub(crate) fn reclassify(&mut self, number: u64, classified: Classified) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.work = Arc::new(WorkInfo { class: classified.class, ..WorkInfo::clone(&entry.work) });
            entry.replay_allowed = classified.replay;
        }
    }

    /// The entry has been written.
    pub(crate) fn fly(&mut self, number: u64, flight: Flight, keep_message: bool) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        self.by_upstream.insert(flight.upstream, number);
        entry.state = State::Flying(flight);
        if !keep_message {
            entry.message = None;
        }
    }

    /// The entry is to be written again; its flight is over.
    pub(crate) fn ground(&mut self, number: u64) -> Option<Flight> {
        let entry = self.entries.get_mut(&number)?;
        entry.replayed = true;
        let until_ms = entry.deadline_ms;
        let State::Flying(flight) = std::mem::replace(&mut entry.state, State::Queued { until_ms }) else {
            return None;
        };
        self.by_upstream.remove(&flight.upstream);
        Some(flight)
    }

    /// Its outcome has been reported as unknown; says whether that is news.
    pub(crate) fn tell_unknown(&mut self, number: u64) -> bool {
        match self.entries.get_mut(&number).map(|entry| &mut entry.state) {
            Some(State::Flying(flight)) => !std::mem::replace(&mut flight.told_unknown, true),
            _ => true,
        }
    }

    /// It has been reported that its client is gone.
    pub(crate) fn tell_detached(&mut self, number: u64) {
        if let Some(State::Flying(flight)) = self.entries.get_mut(&number).map(|entry| &mut entry.state) {
            flight.told_detached = true;
        }
    }

    /// The entry was not written after all; `message` is what it would have been, under whatever id.
    pub(crate) fn unfly(&mut self, number: u64, message: Message, until_ms: u64) -> Option<Flight> {
        let entry = self.entries.get_mut(&number)?;
        let State::Flying(flight) = std::mem::replace(&mut entry.state, State::Queued { until_ms }) else {
            return None;
        };
        entry.message = Some(message);
        self.by_upstream.remove(&flight.upstream);
        Some(flight)
    }

    /// Nobody waits for its answer any more, and the client may use its id again.
    pub(crate) fn detach(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        self.by_client.remove(&(entry.stream, entry.client_id.clone()));
        if let State::Flying(flight) = &mut entry.state {
            flight.detached = true;
            flight.permit.detach();
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        let key = (entry.stream, entry.client_id.clone());
        if self.by_client.get(&key) == Some(&number) {
            self.by_client.remove(&key);
        }
        if let Some(flight) = entry.flight() {
            self.by_upstream.remove(&flight.upstream);
        }
        Some(entry)
    }
}
