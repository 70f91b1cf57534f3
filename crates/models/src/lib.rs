//! For tests, and empty but for them: what lies below the decisions, under every schedule of its threads and every order
//! of its messages.
//!
//! - The gate of `tidegate-drain` and the queue between callers and the writer of `tidegate-store` are compiled a second
//!   time, from the same files, with the synchronisation of `shuttle` in the place of the standard library's. Shuttle
//!   then decides at each access who goes next. It explores interleavings and not the reorderings of weak memory.
//! - The lease protocol, with the decisions of `tidegate-leases` themselves, is explored exhaustively by `stateright`
//!   for two holders, within the bounds that `tests/it/leases.rs` names.
