//! The words every Tidegate crate shares: ids, work classes, time, process identity, next actions. No I/O.
