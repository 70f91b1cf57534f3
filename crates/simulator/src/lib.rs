//! Fake sessions, seeded schedules, faults, and the ten invariants checked after every step.
