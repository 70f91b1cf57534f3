//! What is done with what a server says when its daemon is dead: late answers are kept for whoever comes back, questions
//! are declined, everything else is dropped. Pure; whoever listens keeps and writes.

use crate::Marked;
use crate::message::{Kind, Message};
use std::collections::{BTreeSet, VecDeque};
use tidegate_core::planted::is_planted;

/// What a line of such a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Heard {
    /// The answer to a call that was waited for, by the call's id: to be kept before the call stops counting as running.
    Answer(u64),
    /// A question that nobody can be asked. This line tells the server so, that its call may go on.
    Question(Vec<u8>),
    /// Nothing that matters to anybody.
    Nothing,
}

/// The calls of a server whose answers are still waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    waits: BTreeSet<u64>,
}

impl Late {
    /// Waits for the answers to these calls, by the ids that the server knows.
    #[must_use]
    pub fn new(calls: impl IntoIterator<Item = u64>) -> Self {
        Self { waits: calls.into_iter().collect() }
    }

    /// Whether nothing more is waited for: nobody need listen any longer.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.waits.is_empty()
    }

    /// Takes in a line that the server has written.
    pub fn heard(&mut self, line: &[u8]) -> Heard {
        let Ok(message) = Message::parse(line.to_vec()) else { return Heard::Nothing };
        match message.kind() {
            Kind::Response { id, .. } => {
                let waited_for = id.as_number().filter(|id| self.waits.remove(id));
                if waited_for.is_some() && is_planted("the-first-late-answer-is-the-last") {
                    self.waits.clear();
                }
                waited_for.map_or(Heard::Nothing, Heard::Answer)
            }
            Kind::Request { id, .. } => {
                let text = "the gateway has ended; nobody can be asked";
                Heard::Question(
                    format!(
                        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"{text}"}}}}"#,
                        id.as_json()
                    )
                    .into_bytes(),
                )
            }
            Kind::Notification { .. } => Heard::Nothing,
        }
    }
}

/// Of the calls that a shim reports as begun, those that a server which outlived its daemon may yet answer, with what its
/// keeper knows them by; and first those that are settled as they are.
#[must_use]
pub fn sort_reported<K>(
    reported: impl IntoIterator<Item = (Marked, Option<K>)>,
) -> (Vec<Marked>, VecDeque<(Marked, K)>) {
    let (mut now, mut late) = (Vec::new(), VecDeque::new());
    for (call, kept) in reported {
        match kept {
            Some(kept) if call.class.is_unsafe() => late.push_back((call, kept)),
            _ => now.push(call),
        }
    }
    (now, late)
}

/// The id of the call that a line answers.
#[must_use]
pub fn answered_call(line: &[u8]) -> Option<u64> {
    match Message::parse(line.to_vec()).ok()?.kind() {
        Kind::Response { id, .. } => id.as_number(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_core::WorkClass;

    #[test]
    fn only_what_may_change_something_and_is_known_to_a_keeper_is_answered_late() {
        let reported = [
            (WorkClass::ReadOnly, Some(1)),
            (WorkClass::Mutating, Some(2)),
            (WorkClass::Mutating, None),
            (WorkClass::Idempotent, Some(4)),
        ];
        let call = |class| Marked { line: Vec::new(), class, tool: String::new(), age: Duration::ZERO };
        let (now, late) = sort_reported(reported.map(|(class, kept)| (call(class), kept)));
        let classes: Vec<_> = now.iter().map(|it| it.class).collect();
        assert_eq!(classes, [WorkClass::ReadOnly, WorkClass::Mutating]);
        assert_eq!(late.iter().map(|(_, kept)| *kept).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn answers_are_kept_once_questions_declined_and_the_rest_is_dropped() {
        let mut late = Late::new([7, 9]);
        let answer = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(late.heard(answer(8).as_bytes()), Heard::Nothing);
        assert_eq!(late.heard(answer(7).as_bytes()), Heard::Answer(7));
        assert_eq!(late.heard(answer(7).as_bytes()), Heard::Nothing);
        assert!(!late.is_over());
        let question = br#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#;
        let Heard::Question(line) = late.heard(question) else { panic!("a question") };
        assert!(String::from_utf8(line).unwrap().starts_with(r#"{"jsonrpc":"2.0","id":"q","error":"#));
        assert_eq!(late.heard(br#"{"jsonrpc":"2.0","method":"notifications/progress"}"#), Heard::Nothing);
        assert_eq!(late.heard(b"noise"), Heard::Nothing);
        assert_eq!(
            late.heard(br#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}"#),
            Heard::Answer(9)
        );
        assert!(late.is_over());
        assert_eq!(answered_call(answer(3).as_bytes()), Some(3));
        assert_eq!(answered_call(question), None);
    }
}
