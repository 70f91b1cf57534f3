//! What can go wrong with a drain, by what the caller can do next.

use tidegate_core::{ComponentName, DrainId};
use tidegate_store::{ReadError, StoreError};

/// A drain that could not be begun, ended or recovered. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// No component was named.
    #[error("a drain needs at least one component")]
    EmptyScope,
    /// More components than a drain takes.
    #[error("a drain closes at most {max} components, not {given}")]
    ScopeTooLarge {
        /// How many were named.
        given: usize,
        /// How many are allowed.
        max: usize,
    },
    /// A component that doesn't exist.
    #[error("there is no component {component}; there is {}", list(.known))]
    UnknownComponent {
        /// What was named.
        component: ComponentName,
        /// What there is.
        known: Vec<ComponentName>,
    },
    /// The id belongs to a drain of something else.
    #[error("the drain {id} is one of {}; ask with another id", list(.scope))]
    IdInUse {
        /// The id.
        id: DrainId,
        /// What that drain closes.
        scope: Vec<ComponentName>,
    },
    /// The drain isn't the one under way on that component: it has ended, or never began.
    #[error("{id} is not under way on {component}; a late end of an old drain changes nothing")]
    NotUnderWay {
        /// The drain.
        id: DrainId,
        /// The component.
        component: ComponentName,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ReadError> for DrainError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

fn list(names: &[ComponentName]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(", "),
    }
}
