//! Durable session records: what a session was told, and its one next action when it comes back.
