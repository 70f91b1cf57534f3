//! The client's side of a conversation, step by step.
//!
//! Pure: decides what is written next. Must never write, wait or look at a clock.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Write this JSON value on one line.
    Send(Value),
    /// Write this text on one line, as it is.
    SendLine(String),
    /// Wait for the answer (a result or an error) with this JSON-RPC id.
    Expect(Value),
}

/// A conversation as far as it has got in one run.
#[derive(Debug)]
pub struct Conversation {
    remaining: VecDeque<Step>,
    answered: BTreeSet<String>,
    /// What the subject wrote after its last complete line.
    unfinished: Vec<u8>,
}

impl Conversation {
    /// A conversation at its beginning.
    pub fn new(steps: &[Step]) -> Self {
        Self { remaining: steps.iter().cloned().collect(), answered: BTreeSet::new(), unfinished: Vec::new() }
    }

    /// Takes note of what the subject wrote, in pieces of any size.
    pub fn heard(&mut self, bytes: &[u8]) {
        self.unfinished.extend(bytes);
        let complete = self.unfinished.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = self.unfinished.drain(..complete).collect();
        for line in lines.split(|byte| *byte == b'\n') {
            self.heard_line(line);
        }
    }

    fn heard_line(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        if let (Some(id), None) = (message.get("id"), message.get("method")) {
            self.answered.insert(id.to_string());
        }
    }

    /// The lines to write now, up to the next answer that is still missing.
    pub fn next_lines(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        while let Some(step) = self.remaining.front() {
            match step {
                Step::Send(value) => lines.extend(format!("{value}\n").bytes()),
                Step::SendLine(text) => lines.extend(format!("{text}\n").bytes()),
                Step::Expect(id) if self.answered.contains(&id.to_string()) => {}
                Step::Expect(_) => break,
            }
            self.remaining.pop_front();
        }
        lines
    }

    /// The answer that is being waited for; `None` when the conversation has ended.
    pub fn waits_for(&self) -> Option<&Value> {
        match self.remaining.front() {
            Some(Step::Expect(id)) => Some(id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_waits_for_each_answer_and_takes_them_in_any_order_and_in_pieces() {
        let message = |id: u32, method: &str| serde_json::json!({ "id": id, "method": method });
        let mut conversation = Conversation::new(&[
            Step::Send(message(1, "a")),
            Step::Send(message(2, "b")),
            Step::Expect(Value::from(1)),
            Step::Expect(Value::from(2)),
            Step::SendLine("bye".to_owned()),
        ]);
        let sent = conversation.next_lines();
        assert_eq!(sent, b"{\"id\":1,\"method\":\"a\"}\n{\"id\":2,\"method\":\"b\"}\n");
        assert_eq!(conversation.waits_for(), Some(&Value::from(1)));
        conversation
            .heard(b"{\"id\":2,\"result\":{}}\n{\"id\":1,\"method\":\"a request of the server's own\"}\n");
        conversation.heard(b"noise\n{\"id\":1,\"err");
        assert_eq!(conversation.next_lines(), b"");
        conversation.heard(b"or\":{}}\n");
        assert_eq!(conversation.next_lines(), b"bye\n");
        assert_eq!(conversation.waits_for(), None);
    }
}
