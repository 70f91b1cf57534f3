//! Versioned records with atomic conditional commits: a file engine and a memory engine that injects faults.
