//! Which operation owns a component: one record per component, there from `Approved` until the gates are open again.
//!
//! The record outlives the operation's end by the moment it takes to reopen, so that no second operation closes a gate
//! that the first still holds, and so that a crash in that moment is seen and made good.

use crate::{GovernorError, Operation};
use serde::{Deserialize, Serialize};
use tidegate_core::{ComponentName, OperationId};
use tidegate_store::{Key, ReadError, Scope, Txn, View};

/// Where the locks are kept.
pub(crate) const PREFIX: &str = "operation-lock/";

/// The owner of one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lock {
    /// The operation that owns it.
    pub(crate) operation: OperationId,
    /// Fields of newer minor versions, kept when rewritten.
    #[serde(flatten)]
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
}

pub(crate) fn key(component: &ComponentName) -> Key {
    #[allow(clippy::expect_used)] // A name is at most 128 bytes without control characters.
    Key::new(&format!("{PREFIX}{component}")).expect("a lock's key is valid")
}

/// The locks of these components, added to what a decision reads.
pub(crate) fn scope(scope: Scope, components: &[ComponentName]) -> Scope {
    components.iter().fold(scope, |scope, component| scope.key(&key(component)))
}

/// The operation that owns `component`.
pub(crate) fn owner(view: &View, component: &ComponentName) -> Result<Option<OperationId>, ReadError> {
    Ok(view.read::<Lock>(&key(component))?.map(|lock| lock.operation))
}

/// Makes the operation the owner of its whole scope, or of nothing.
pub(crate) fn claim(view: &View, operation: &Operation) -> Result<Txn, GovernorError> {
    let mut txn = Txn::new();
    for component in &operation.scope {
        match owner(view, component)? {
            Some(by) if by != operation.id => {
                return Err(GovernorError::Overlap { component: component.clone(), by });
            }
            _ => {
                let lock = Lock { operation: operation.id.clone(), extra: serde_json::Map::new() };
                txn = txn.put(view, &key(component), &lock);
            }
        }
    }
    Ok(txn)
}

/// Gives up what the operation owns, and never what another does.
pub(crate) fn release(view: &View, operation: &Operation) -> Result<Txn, ReadError> {
    let mut txn = Txn::new();
    for component in &operation.scope {
        if owner(view, component)?.as_ref() == Some(&operation.id) {
            txn = txn.delete(view, &key(component));
        }
    }
    Ok(txn)
}
