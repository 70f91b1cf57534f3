//! What the streams of a shared server have asked it to remember: subscriptions and log level. So that the next
//! generation can be told, and one session's "stop" doesn't stop another's. Writes nothing itself.

use crate::StreamId;
use std::collections::{BTreeMap, BTreeSet};

/// The most subscriptions of one stream. Beyond it they are forwarded and forgotten.
pub const MAX_SUBSCRIPTIONS: usize = 1_024;

/// Log levels of the protocol, the least verbose first.
const LEVELS: [&str; 8] = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// A change that takes effect when the server has agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Subscribe(String),
    Unsubscribe(String),
    Level(String),
}

/// What one stream has asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// The resources it follows.
    pub subscriptions: BTreeSet<String>,
    /// The log level it set.
    pub log_level: Option<String>,
}

#[derive(Default)]
pub(crate) struct Subscriptions {
    by_stream: BTreeMap<StreamId, StreamFacts>,
}

impl Subscriptions {
    pub(crate) fn of(&self, stream: StreamId) -> StreamFacts {
        self.by_stream.get(&stream).cloned().unwrap_or_default()
    }

    pub(crate) fn restore(&mut self, stream: StreamId, facts: StreamFacts) {
        self.by_stream.insert(stream, facts);
    }

    pub(crate) fn remove(&mut self, stream: StreamId) {
        self.by_stream.remove(&stream);
    }

    /// Whether a wish can be granted without the server, because another stream needs it as it is.
    pub(crate) fn is_local(&self, stream: StreamId, wish: &Wish) -> bool {
        let mut others = self.by_stream.iter().filter(|(other, _)| **other != stream).map(|(_, facts)| facts);
        match wish {
            Wish::Subscribe(_) => false,
            Wish::Unsubscribe(uri) => others.any(|facts| facts.subscriptions.contains(uri)),
            Wish::Level(level) => {
                others.any(|facts| verbosity(facts.log_level.as_deref()) > verbosity(Some(level)))
            }
        }
    }

    /// Grants a wish; says whether that changed anything.
    pub(crate) fn grant(&mut self, stream: StreamId, wish: Wish) -> bool {
        let facts = self.by_stream.entry(stream).or_default();
        match wish {
            Wish::Subscribe(uri) => {
                facts.subscriptions.len() < MAX_SUBSCRIPTIONS && facts.subscriptions.insert(uri)
            }
            Wish::Unsubscribe(uri) => facts.subscriptions.remove(&uri),
            Wish::Level(level) => facts.log_level.replace(level.clone()) != Some(level),
        }
    }

    pub(crate) fn subscribers<'a>(&'a self, uri: &'a str) -> impl Iterator<Item = StreamId> + 'a {
        self.by_stream
            .iter()
            .filter(|(_, facts)| facts.subscriptions.contains(uri))
            .map(|(stream, _)| *stream)
    }

    /// What a new generation has to be told: every resource once, and the most verbose level.
    pub(crate) fn of_all(&self) -> StreamFacts {
        let facts = self.by_stream.values();
        StreamFacts {
            subscriptions: facts.clone().flat_map(|facts| facts.subscriptions.iter().cloned()).collect(),
            log_level: facts
                .filter_map(|facts| facts.log_level.clone())
                .max_by_key(|level| verbosity(Some(level))),
        }
    }
}

/// 0 for none and for what isn't a level.
fn verbosity(level: Option<&str>) -> usize {
    level.and_then(|level| LEVELS.iter().position(|known| *known == level)).map_or(0, |at| at + 1)
}
