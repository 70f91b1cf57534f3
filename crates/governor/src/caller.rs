//! Who is asking. A caller is made where a credential is checked, and never from a name that somebody claims.

use serde::{Deserialize, Serialize};
use tidegate_core::PrincipalName;

/// The principal of an operation that a signal asked for. No credential can have this name.
pub(crate) const SIGNAL: &str = "signal";
/// The word for "any operator" in a list of approvers. No credential can have this name.
pub(crate) const OPERATOR: &str = "operator";
/// The principal of everyone without a credential. No credential can have this name.
pub(crate) const LOCAL: &str = "local";

/// What a caller's credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CallerKind {
    /// An operator's token.
    Operator,
    /// The token of a named agent principal.
    Principal,
    /// None: any session, shell or script of this machine. All of them are one principal.
    Local,
    /// The process was told to end (SIGTERM).
    Signal,
}

/// A principal that acts, with what makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    principal: PrincipalName,
    kind: CallerKind,
}

impl Caller {
    /// The bearer of the operator token `name`.
    #[must_use]
    pub fn operator(name: PrincipalName) -> Self {
        Self { principal: name, kind: CallerKind::Operator }
    }

    /// The bearer of the token of the agent principal `name`.
    #[must_use]
    pub fn principal(name: PrincipalName) -> Self {
        Self { principal: name, kind: CallerKind::Principal }
    }

    /// Anyone without a credential.
    #[must_use]
    pub fn local() -> Self {
        Self { principal: PrincipalName::local(), kind: CallerKind::Local }
    }

    /// The operating system, telling the daemon to end.
    #[must_use]
    pub fn signal() -> Self {
        #[allow(clippy::expect_used)] // A constant; the test below reads it.
        let principal = PrincipalName::new(SIGNAL).expect("a constant name is valid");
        Self { principal, kind: CallerKind::Signal }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &PrincipalName {
        &self.principal
    }

    /// What its credential is.
    #[must_use]
    pub fn kind(&self) -> CallerKind {
        self.kind
    }

    /// Whether it bears an operator's token.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.kind == CallerKind::Operator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_without_a_credential_have_their_reserved_names() {
        assert_eq!(Caller::local().name().as_str(), LOCAL);
        assert_eq!(Caller::signal().name().as_str(), SIGNAL);
    }
}
