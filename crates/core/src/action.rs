//! The canonical next action: what a session, or whoever looks at an incident, is to do now.
//!
//! An action is data; the sentence is rendered from it, so that every surface says the same.

use crate::{ComponentName, IncidentId, OperationId};
use serde::{Deserialize, Serialize};

/// How a server answered a call whose caller was gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LateAnswer {
    /// With a result.
    Result,
    /// With an error, or with a result that says it is one.
    Error,
}

/// One instruction. `kind` and the fields are for programs, [`NextAction::prompt`] is for models and people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
#[non_exhaustive]
pub enum NextAction {
    /// Nothing to do.
    Continue,
    /// The call had no effect that matters: make it again.
    RetryCall {
        /// Where.
        component: ComponentName,
        /// The tool (or the method) that was called.
        tool: String,
    },
    /// The call may have been executed: look first.
    VerifyThenRetry {
        /// Where.
        component: ComponentName,
        /// The tool (or the method) that was called.
        tool: String,
        /// How the server answered, where it did after nobody waited any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<LateAnswer>,
    },
    /// A restart is under way.
    WaitForRestart {
        /// What is restarting.
        component: ComponentName,
        /// The operation, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<OperationId>,
        /// When to come back, in milliseconds.
        retry_after_ms: u64,
    },
    /// The lease is missing, lost or fenced off.
    ReacquireLease {
        /// The resource.
        lease: String,
        /// Whether that is only the rule for its name, which the call's arguments don't fill in: nobody can hold it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unnamed: bool,
    },
    /// The tools are not what they were.
    RefreshTools {
        /// Where.
        component: ComponentName,
        /// Tools that are new.
        added: Vec<String>,
        /// Tools that are gone.
        removed: Vec<String>,
    },
    /// The server kept state in its process, and that process is gone.
    StateReset {
        /// Where.
        component: ComponentName,
    },
    /// A restart waits for somebody's approval.
    RequestApproval {
        /// The operation.
        operation: OperationId,
    },
    /// A person has to look.
    ContactOperator {
        /// The incident that says why, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        incident: Option<IncidentId>,
    },
}

impl NextAction {
    /// The instruction as a short text that an agent can act on.
    #[must_use]
    pub fn prompt(&self) -> String {
        match self {
            Self::Continue => "Continue: nothing was lost and nothing is waiting for you.".to_owned(),
            Self::RetryCall { component, tool } => {
                format!("Call {tool} on {component} again: the last call had no effect.")
            }
            Self::VerifyThenRetry { component, tool, answer: None } => format!(
                "The outcome of {tool} on {component} is unknown: it reached the server and no answer came, so that it may have been \
                 carried out, or may still be. Check with a read-only call whether it took effect, and call it again only if it did not \
                 and no longer can."
            ),
            Self::VerifyThenRetry { component, tool, answer: Some(LateAnswer::Result) } => format!(
                "{component} has carried {tool} out, and nobody was there for the answer: your connection had ended. Do not make that call \
                 again; look with a read-only call what came of it."
            ),
            Self::VerifyThenRetry { component, tool, answer: Some(LateAnswer::Error) } => format!(
                "{component} has answered {tool} with an error, and nobody was there for the answer: your connection had ended. Check with a \
                 read-only call whether anything of it took effect before you make that call again."
            ),
            Self::WaitForRestart { component, retry_after_ms, .. } => format!(
                "{component} is being restarted and takes no new work. Wait {} s, then make the call again; it did not reach the server.",
                retry_after_ms.div_ceil(1_000).max(1)
            ),
            Self::ReacquireLease { lease, unnamed: true } => format!(
                "The call's arguments do not say which lease it needs: its name is {lease}, and what stands in braces is missing, is there \
                 twice, or is neither text nor a number. Correct the call; nothing can be acquired under that name for it."
            ),
            Self::ReacquireLease { lease, unnamed: false } => {
                format!("You do not hold the lease {lease}. Acquire it with lease_acquire, read what it protects again, then retry.")
            }
            Self::RefreshTools { component, added, removed } => {
                // One that was called and is gone is told alone: of the others nothing is said, and not that there are none.
                let list = |what, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
                let changes: Vec<String> = [list("new", added), list("gone", removed)].into_iter().flatten().collect();
                let changes = if changes.is_empty() { String::new() } else { format!(" ({})", changes.join("; ")) };
                format!("The tools of {component} have changed{changes}. List them again before the next call.")
            }
            Self::StateReset { component } => format!(
                "{component} was restarted and kept its state in memory: set up again whatever you had set up in it, then continue."
            ),
            Self::RequestApproval { operation } => format!(
                "The restart {operation} waits for an approval by somebody else: ask an operator to run `tidegate restart approve {operation}`."
            ),
            Self::ContactOperator { incident: Some(incident) } => {
                format!("An operator has to look at incident {incident} (`tidegate incidents show {incident}`): tell them, and do not repeat the call until they have.")
            }
            Self::ContactOperator { incident: None } => {
                "An operator has to look at this: tell them what you were doing, and do not repeat the call until they have.".to_owned()
            }
        }
    }

    /// The action as the JSON object of the public contract: its fields, `kind` and `prompt`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("prompt".to_owned(), self.prompt().into());
        }
        value
    }

    /// The kind, spelled as in the public contract.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Continue => "Continue",
            Self::RetryCall { .. } => "RetryCall",
            Self::VerifyThenRetry { .. } => "VerifyThenRetry",
            Self::WaitForRestart { .. } => "WaitForRestart",
            Self::ReacquireLease { .. } => "ReacquireLease",
            Self::RefreshTools { .. } => "RefreshTools",
            Self::StateReset { .. } => "StateReset",
            Self::RequestApproval { .. } => "RequestApproval",
            Self::ContactOperator { .. } => "ContactOperator",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_changes_what_is_said_and_not_what_kind_of_thing_it_is() {
        let verify = |answer| NextAction::VerifyThenRetry {
            component: "files".parse().unwrap(),
            tool: "write".into(),
            answer,
        };
        for (answer, said) in [
            (None, "no answer came"),
            (Some(LateAnswer::Result), "files has carried write out"),
            (Some(LateAnswer::Error), "answered write with an error"),
        ] {
            let json = verify(answer).to_json();
            assert_eq!(json["kind"], "VerifyThenRetry");
            assert!(json["prompt"].as_str().unwrap().contains(said), "{json}");
            assert_eq!(serde_json::from_value::<NextAction>(json).unwrap(), verify(answer));
        }
    }

    #[test]
    fn nothing_is_said_of_tools_that_nobody_looked_at() {
        #[track_caller]
        fn check(added: &[&str], removed: &[&str], expected: &str) {
            let names = |of: &[&str]| of.iter().map(ToString::to_string).collect();
            let component = "files".parse().unwrap();
            let action = NextAction::RefreshTools { component, added: names(added), removed: names(removed) };
            let end = "List them again before the next call.";
            assert_eq!(action.prompt(), format!("The tools of files have changed{expected}. {end}"));
        }
        check(&["a", "b"], &["c"], " (new: a, b; gone: c)");
        check(&["a"], &[], " (new: a)");
        check(&[], &["c"], " (gone: c)");
        check(&[], &[], "");
    }

    #[test]
    fn the_json_has_kind_and_prompt_and_reads_back() {
        let action = NextAction::WaitForRestart {
            component: "files".parse().unwrap(),
            operation: None,
            retry_after_ms: 1_200,
        };
        let json = action.to_json();
        assert_eq!(json["kind"], action.kind());
        assert!(json["prompt"].as_str().unwrap().contains("Wait 2 s"), "{json}");
        assert_eq!(serde_json::from_value::<NextAction>(json).unwrap(), action);
    }
}
