//! What goes wrong, and when. Decides; does nothing itself.

use crate::Txn;
use tidegate_core::Entropy;

/// What becomes of one commit whose conditions may or may not hold. A conflict is never made up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing goes wrong.
    None,
    /// [`CommitError::Rejected`](crate::CommitError::Rejected): nothing happens.
    Reject,
    /// [`CommitError::Busy`](crate::CommitError::Busy): nothing happens.
    Busy,
    /// [`CommitError::Uncertain`](crate::CommitError::Uncertain), and it did happen.
    UncertainApplied,
    /// [`CommitError::Uncertain`](crate::CommitError::Uncertain), and it did not happen.
    UncertainLost,
    /// Appended, but not synced until [`MemoryStore::sync`](crate::MemoryStore::sync): the commit, and every answer that
    /// rests on it, waits.
    Delay,
    /// Appended, and its sync fails: uncertain, and no later commit succeeds until
    /// [`MemoryStore::rewrite`](crate::MemoryStore::rewrite).
    FailSync,
}

/// Chooses the faults. Every `FnMut(&Txn) -> Fault` is one. It is asked in the middle of a commit, so it must not use the
/// store itself.
pub trait Faults: Send {
    /// The fault of the commit that is about to happen.
    fn commit(&mut self, txn: &Txn) -> Fault;

    /// Whether the read that is about to happen is answered with `Unavailable`.
    fn read_fails(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(&Txn) -> Fault + Send> Faults for F {
    fn commit(&mut self, txn: &Txn) -> Fault {
        self(txn)
    }
}

/// Faults drawn from an injected source: the same source gives the same faults.
#[derive(Debug, Clone)]
pub struct SeededFaults<E> {
    entropy: E,
    per_thousand: u16,
    menu: Vec<Fault>,
}

impl<E: Entropy> SeededFaults<E> {
    /// About `per_thousand` of a thousand commits get a fault, each of those on `menu` equally often.
    pub fn new(entropy: E, per_thousand: u16, menu: impl IntoIterator<Item = Fault>) -> Self {
        Self { entropy, per_thousand, menu: menu.into_iter().collect() }
    }

    /// Every fault after which the store goes on without help: rejected, busy, and uncertain both ways.
    pub fn transient(entropy: E, per_thousand: u16) -> Self {
        Self::new(
            entropy,
            per_thousand,
            [Fault::Reject, Fault::Busy, Fault::UncertainApplied, Fault::UncertainLost],
        )
    }
}

impl<E: Entropy> Faults for SeededFaults<E> {
    fn commit(&mut self, _: &Txn) -> Fault {
        let bits = self.entropy.bits();
        if self.menu.is_empty() || bits % 1000 >= u128::from(self.per_thousand) {
            return Fault::None;
        }
        let choice = (bits / 1000) % self.menu.len() as u128;
        self.menu[choice as usize].clone()
    }
}
