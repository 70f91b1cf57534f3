//! Requests in flight: who asked, was it written, who gets the answer. Pure.
//!
//! One [`Relay`] stands between the streams of many sessions and the one server of a component. Messages and events go
//! in, [`Effect`]s come out, in the order in which they have to be done. It owns the pending map, the queue of held
//! requests and the mapping of ids and progress tokens, and it is the one place that decides what becomes of a call
//! whose server died ([`settle`]). Lines pass byte for byte; only ids, tokens and the handshake are ever rewritten.
//!
//! ```
//! use tidegate_core::{BootId, Now, WallTime};
//! use tidegate_drain::Gate;
//! use tidegate_relay::{Effect, Relay, RelayConfig, StreamId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Now { boot: BootId(1), boot_ms: 0, wall: WallTime(0) };
//! let mut relay = Relay::new(Gate::new("files".parse()?, 64), RelayConfig::default());
//! relay.stream_opened(StreamId(1), "local/s1".parse()?);
//!
//! // A ping is answered without the server; a call waits for one.
//! let effects = relay.client_message(StreamId(1), br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#.to_vec(), &now);
//! let line = br#"{"jsonrpc":"2.0","id":"a","result":{}}"#.to_vec();
//! assert_eq!(effects, [Effect::ToClient { stream: StreamId(1), line }]);
//! let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}"#;
//! assert_eq!(relay.client_message(StreamId(1), call.to_vec(), &now), []);
//! assert_eq!(relay.held(), 1);
//! # Ok(())
//! # }
//! ```

mod asks;
mod classify;
mod client;
mod effect;
mod flow;
mod handshake;
mod hold;
mod ids;
mod introduction;
mod late;
mod leases;
mod lifecycle;
mod lists;
mod message;
mod pending;
mod refusal;
mod relay;
mod server;
mod settle;
mod subscriptions;
mod writing;

pub use asks::MAX_ASKS;
pub use classify::{Annotations, Classified, Classifier};
pub use client::{MAX_TOOL_BYTES, not_spoken_here};
pub use effect::{Counters, Effect};
pub use handshake::{
    HandshakeError, InitializeResult, PROTOCOL_VERSION, PROTOCOL_VERSIONS, initialize_request,
    initialized_notification, request_line,
};
pub use hold::{DEFAULT_HOLD, MAX_HELD, MAX_HELD_BYTES};
pub use ids::{MAX_ID_BYTES, RawId, StreamId};
pub use introduction::{Introduction, Sharing};
pub use late::{Heard, Late, answered_call, sort_reported};
pub use leases::{LeaseRuleError, LeaseRules};
pub use lifecycle::Marked;
pub use lists::{List, ListCache, ListError, MAX_LIST_BYTES, Pages};
pub use message::{Kind, MAX_DEPTH, MAX_LINE_BYTES, Message, MessageError, Rejected, salvage_id};
pub use refusal::{Refusal, RefusalKind};
pub use relay::{REPLAY_DEADLINE, RETRY_AFTER_MS, Relay, RelayConfig, ServerFacts, Unavailable};
pub use settle::{LostFacts, Settled, settle, settle_marked};
pub use subscriptions::{MAX_SUBSCRIPTIONS, StreamFacts};
pub use writing::Writing;
