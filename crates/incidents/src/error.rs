//! What can't be done to an incident, and what to do instead.

use tidegate_core::IncidentId;
use tidegate_store::{ReadError, StoreError};

/// A refused or failed operation on an incident.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IncidentError {
    /// There is no such record.
    #[error("there is no incident {id}; `tidegate incidents list` shows those that there are")]
    NoSuchIncident {
        /// What was asked for.
        id: IncidentId,
    },
    /// Only operators resolve.
    #[error("only an operator resolves incident {id}; acknowledge it, or use an operator's token")]
    NotAllowed {
        /// Which.
        id: IncidentId,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ReadError> for IncidentError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}
