//! Requests of the server to clients that wait for an answer. Keeps them; who is asked is decided elsewhere.

use crate::{RawId, StreamId};
use std::collections::BTreeMap;
use tidegate_core::SessionId;

/// The most questions of one server that wait for answers. A server that asks more isn't listening.
pub const MAX_ASKS: usize = 256;

pub(crate) struct Ask {
    pub(crate) server_id: RawId,
    pub(crate) stream: StreamId,
    pub(crate) session: SessionId,
    /// The progress token the server gave with it.
    pub(crate) token: Option<RawId>,
}

/// By the id that the client sees.
#[derive(Default)]
pub(crate) struct Asks {
    open: BTreeMap<u64, Ask>,
    last: u64,
}

impl Asks {
    /// Takes a question and gives it an id; `None` when there are too many.
    pub(crate) fn add(&mut self, ask: Ask) -> Option<u64> {
        if self.open.len() >= MAX_ASKS {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, ask);
        Some(self.last)
    }

    /// The question that `stream` answers with `id`.
    pub(crate) fn answered(&mut self, stream: StreamId, id: &RawId) -> Option<Ask> {
        let number = id.as_number()?;
        self.open.get(&number).filter(|ask| ask.stream == stream)?;
        self.open.remove(&number)
    }

    /// The question the server takes back.
    pub(crate) fn withdrawn(&mut self, server_id: &RawId) -> Option<(u64, Ask)> {
        let number = self.open.iter().find(|(_, ask)| ask.server_id == *server_id).map(|(n, _)| *n)?;
        self.open.remove(&number).map(|ask| (number, ask))
    }

    pub(crate) fn has_token(&self, stream: StreamId, token: &RawId) -> bool {
        self.open.values().any(|ask| ask.stream == stream && ask.token.as_ref() == Some(token))
    }

    pub(crate) fn owed_by(&self, session: &SessionId) -> bool {
        self.open.values().any(|ask| ask.session == *session)
    }

    /// All questions to a stream that is gone.
    pub(crate) fn take_of(&mut self, stream: StreamId) -> Vec<Ask> {
        let gone: Vec<u64> =
            self.open.iter().filter(|(_, ask)| ask.stream == stream).map(|(number, _)| *number).collect();
        gone.into_iter().filter_map(|number| self.open.remove(&number)).collect()
    }

    /// All questions of a server that is gone.
    pub(crate) fn take_all(&mut self) -> BTreeMap<u64, Ask> {
        std::mem::take(&mut self.open)
    }
}
