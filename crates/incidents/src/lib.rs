//! Durable incidents: deduplicated, redacted, acknowledged and resolved, each with its next action.
