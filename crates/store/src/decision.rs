//! What a pure decision returns.

use crate::Txn;

/// What to write, what to answer once that is durable, and what to do then.
///
/// Writes of several decisions made from one view join into one commit with [`Txn::and`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<R, E = std::convert::Infallible> {
    /// What to write, with the conditions it rests on.
    pub txn: Txn,
    /// What to answer.
    pub reply: R,
    /// What to do once the writes are durable, in order.
    pub effects: Vec<E>,
}

impl<R, E> Decision<R, E> {
    /// Answers without writing anything.
    #[must_use]
    pub fn reply(reply: R) -> Self {
        Self { txn: Txn::new(), reply, effects: Vec::new() }
    }

    /// Writes, then answers.
    #[must_use]
    pub fn write(txn: Txn, reply: R) -> Self {
        Self { txn, reply, effects: Vec::new() }
    }
}
