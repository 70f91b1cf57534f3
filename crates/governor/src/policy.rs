//! The policy: how many approvals, by whom, how long things may take. Read once, at start, and checked here.

use crate::caller::{LOCAL, OPERATOR, SIGNAL};
use crate::{Caller, CallerKind};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::PrincipalName;

/// Who may let a restart happen, and how long a drain and a request last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Approvals that a request by an agent needs. Never 0.
    pub approvals: u32,
    /// Who may give them: `operator` for any operator, else names of principals.
    pub approvers: Vec<String>,
    /// Approvals that an operator's own request needs.
    pub operator_approvals: u32,
    /// How long a drain waits for work in flight.
    pub drain_deadline: Duration,
    /// How long a request waits for its approvals.
    pub request_ttl: Duration,
    /// The operators that have a token.
    pub operators: BTreeSet<PrincipalName>,
    /// The agent principals that have a token.
    pub principals: BTreeSet<PrincipalName>,
}

impl Default for Policy {
    /// One approval by any operator, none for an operator's own request, a minute to drain, a quarter of an hour to approve.
    fn default() -> Self {
        Self {
            approvals: 1,
            approvers: vec![OPERATOR.to_owned()],
            operator_approvals: 0,
            drain_deadline: Duration::from_secs(60),
            request_ttl: Duration::from_secs(15 * 60),
            operators: BTreeSet::new(),
            principals: BTreeSet::new(),
        }
    }
}

/// A policy that can't be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// `approvals = 0`.
    #[error(
        "policy.approvals = 0 would let an agent restart a server by itself; the least is 1 (an operator's own requests are ruled by policy.operator_approvals)"
    )]
    NoApprovals,
    /// `approvers = []`.
    #[error("policy.approvers is empty, so nobody could approve anything; write [\"operator\"]")]
    NoApprovers,
    /// An approver without a credential.
    #[error(
        "policy.approvers names {name:?}, which is neither \"operator\" nor the name of an [[operator]] or a [[principal]]; add that section or remove the name"
    )]
    UnknownApprover {
        /// The name.
        name: String,
    },
    /// A credential with a name that means something else.
    #[error(
        "no [[operator]] and no [[principal]] may be called {name:?}: the name is reserved; choose another"
    )]
    ReservedName {
        /// The name.
        name: PrincipalName,
    },
    /// One name, two credentials.
    #[error("{name:?} is both an [[operator]] and a [[principal]]; give one of them another name")]
    TwiceNamed {
        /// The name.
        name: PrincipalName,
    },
}

/// A policy that can be served and will refuse more than its author may expect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy asks for {needed} approval(s) of a request by {requester}, and at most {possible} principal(s) could give one: such requests are refused at once; add an [[operator]] or a name to policy.approvers"
)]
pub struct PolicyWarning {
    /// Whose requests.
    pub requester: String,
    /// How many approvals they need.
    pub needed: u32,
    /// How many principals could give one.
    pub possible: usize,
}

impl Policy {
    /// Checks the policy as a whole.
    ///
    /// # Errors
    /// [`PolicyError`], naming the key and what to write instead.
    pub fn check(&self) -> Result<Vec<PolicyWarning>, PolicyError> {
        if self.approvals == 0 {
            return Err(PolicyError::NoApprovals);
        }
        if self.approvers.is_empty() {
            return Err(PolicyError::NoApprovers);
        }
        for name in self.operators.iter().chain(&self.principals) {
            if [LOCAL, SIGNAL, OPERATOR].contains(&name.as_str()) {
                return Err(PolicyError::ReservedName { name: name.clone() });
            }
        }
        if let Some(name) = self.operators.intersection(&self.principals).next() {
            return Err(PolicyError::TwiceNamed { name: name.clone() });
        }
        for name in &self.approvers {
            let known = |names: &BTreeSet<PrincipalName>| names.iter().any(|n| n.as_str() == name);
            if name != OPERATOR && !known(&self.operators) && !known(&self.principals) {
                return Err(PolicyError::UnknownApprover { name: name.clone() });
            }
        }
        Ok(self.warnings())
    }

    /// Whether the policy lists the caller among the approvers.
    #[must_use]
    pub fn is_approver(&self, caller: &Caller) -> bool {
        let listed = self.approvers.iter().any(|name| name == caller.name().as_str());
        let any_operator = self.approvers.iter().any(|name| name == OPERATOR);
        match caller.kind() {
            CallerKind::Operator => any_operator || listed,
            CallerKind::Principal => listed,
            CallerKind::Local | CallerKind::Signal => false,
        }
    }

    fn warnings(&self) -> Vec<PolicyWarning> {
        let mut warnings = Vec::new();
        let mut warn = |requester: String, needed: u32, possible: usize| {
            if possible < needed as usize {
                warnings.push(PolicyWarning { requester, needed, possible });
            }
        };
        warn(LOCAL.to_owned(), self.approvals, self.possible_approvers(&PrincipalName::local()).len());
        for name in &self.principals {
            warn(name.to_string(), self.approvals, self.possible_approvers(name).len());
        }
        for name in &self.operators {
            warn(name.to_string(), self.operator_approvals, self.possible_approvers(name).len());
        }
        warnings
    }

    /// Everyone who could approve a request by `requester`: the approvers that have a credential, never the requester.
    #[must_use]
    pub fn possible_approvers(&self, requester: &PrincipalName) -> BTreeSet<PrincipalName> {
        let any_operator = self.approvers.iter().any(|name| name == OPERATOR);
        let listed = |name: &&PrincipalName| self.approvers.iter().any(|a| a == name.as_str());
        let operators = self.operators.iter().filter(|name| any_operator || listed(name));
        let principals = self.principals.iter().filter(listed);
        operators.chain(principals).filter(|name| *name != requester).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<PrincipalName> {
        names.iter().map(|n| n.parse().unwrap()).collect()
    }

    fn policy(approvals: u32, approvers: &[&str], operators: &[&str], principals: &[&str]) -> Policy {
        Policy {
            approvals,
            approvers: approvers.iter().map(|&a| a.to_owned()).collect(),
            operators: names(operators),
            principals: names(principals),
            ..Policy::default()
        }
    }

    #[track_caller]
    fn check(policy: Policy, expected: &str) {
        let got = match policy.check() {
            Err(error) => format!("error: {error}"),
            Ok(warnings) => warnings
                .iter()
                .map(|w| format!("{}: {} of {}", w.requester, w.possible, w.needed))
                .collect::<Vec<_>>()
                .join(", "),
        };
        assert!(if expected.is_empty() { got.is_empty() } else { got.contains(expected) }, "{got}");
    }

    #[test]
    fn a_policy_is_served_warned_about_or_refused() {
        check(policy(1, &["operator"], &["ops"], &[]), "");
        check(policy(0, &["operator"], &["ops"], &[]), "error: policy.approvals = 0");
        check(policy(1, &[], &["ops"], &[]), "error: policy.approvers is empty");
        check(policy(1, &["operator"], &[], &[]), "local: 0 of 1");
        check(policy(2, &["operator"], &["ops"], &[]), "local: 1 of 2");
        check(policy(1, &["reviewer"], &["ops"], &[]), "error: policy.approvers names \"reviewer\"");
        check(policy(1, &["reviewer"], &["ops"], &["reviewer"]), "reviewer: 0 of 1");
        check(policy(1, &["operator", "reviewer"], &["ops"], &["reviewer"]), "");
        check(policy(1, &["ops"], &["ops"], &[]), "");
        check(policy(1, &["local"], &["ops"], &[]), "error: policy.approvers names \"local\"");
        check(policy(1, &["operator"], &["local"], &[]), "error: no [[operator]]");
        check(policy(1, &["operator"], &["ops"], &["signal"]), "error: no [[operator]]");
        check(policy(1, &["operator"], &["operator"], &[]), "error: no [[operator]]");
        check(policy(1, &["operator"], &["ops"], &["ops"]), "both an [[operator]] and a [[principal]]");
        check(Policy { operator_approvals: 1, ..policy(1, &["operator"], &["ops"], &[]) }, "ops: 0 of 1");
    }

    #[test]
    fn nobody_is_among_the_approvers_of_their_own_request() {
        let policy = policy(1, &["operator", "reviewer"], &["ann", "ben"], &["reviewer", "worker"]);
        for (requester, approvers) in [
            ("local", &["ann", "ben", "reviewer"][..]),
            ("worker", &["ann", "ben", "reviewer"]),
            ("reviewer", &["ann", "ben"]),
            ("ann", &["ben", "reviewer"]),
        ] {
            assert_eq!(
                policy.possible_approvers(&requester.parse().unwrap()),
                names(approvers),
                "{requester}"
            );
        }
    }
}
