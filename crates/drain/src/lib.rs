//! An admission gate, the work in flight behind it, and a drain that ends drained or refused.
