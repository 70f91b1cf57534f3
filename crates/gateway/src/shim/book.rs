//! What a shim knows of its client's requests: which are unanswered, and which the daemon had begun to forward.
//!
//! Pure. It never decides what became of a forwarded request: the daemon that comes back does.

use crate::keeper::KeptCall;
use crate::marks::LineMark;
use crate::wire::{MAX_UNANSWERED_BYTES, Mark, Reported, Resume};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use tidegate_core::WorkClass;

/// Unanswered requests and unsent notifications of one stream. A client with more is not waiting for answers.
pub(super) const MAX_ENTRIES: usize = 1_024;

/// The members of a message that matter here; everything else stays unread.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
}

/// What a `tools/call` calls.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    params: CallParams<'a>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// A cancellation, as far as it matters here.
#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(borrow)]
    params: CancelledParams<'a>,
}

#[derive(Deserialize)]
struct CancelledParams<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
}

struct Entry {
    line: Vec<u8>,
    /// The request id as the client wrote it; `None` for what gets no answer.
    id: Option<String>,
    method: String,
    arrived_ms: u64,
    /// Which message of the present connection it is.
    sent_as: Option<u64>,
    mark: Option<Mark>,
}

impl Entry {
    /// The tool it calls, or its method.
    fn tool(&self) -> String {
        let call =
            serde_json::from_slice::<Call<'_>>(&self.line).ok().filter(|_| self.method == "tools/call");
        call.map_or_else(|| self.method.clone(), |call| call.params.name.into_owned())
    }
}

/// A request that has waited too long for a daemon.
pub(super) struct Overdue {
    pub(super) id: String,
    pub(super) method: String,
    /// Set when the lost daemon had begun to forward it.
    pub(super) mark: Option<Mark>,
}

/// The book of one stream.
#[derive(Default)]
pub(super) struct Book {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Entries that were sent, get no answer, and may not have been taken yet.
    unanswerable: usize,
    /// The client's `initialize`, once answered.
    initialize: Option<Box<RawValue>>,
}

/// A line that goes no further.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The client has more outstanding than a shim holds.
    Full {
        /// Who gets to know: the id of the request, where it was one.
        id: Option<String>,
        method: String,
    },
    /// The id is that of another request, which has no answer yet: the answers couldn't be told apart.
    InFlight { id: String },
}

impl Book {
    /// Takes a line of the client. It is to be sent as soon as there is a daemon.
    pub(super) fn client_line(&mut self, line: &[u8], now_ms: u64) -> Result<(), NotTaken> {
        let peek: Option<Peek<'_>> = serde_json::from_slice(line).ok();
        let method = peek.as_ref().and_then(|p| p.method.as_deref()).unwrap_or_default().to_owned();
        let id = peek.filter(|_| !method.is_empty()).and_then(|p| p.id).map(|id| id.get().to_owned());
        if self.entries.len() >= MAX_ENTRIES || self.bytes + line.len() > MAX_UNANSWERED_BYTES {
            return Err(NotTaken::Full { id, method });
        }
        if let Some(id) = id.as_ref().filter(|id| self.entries.iter().any(|e| e.id.as_ref() == Some(*id))) {
            return Err(NotTaken::InFlight { id: id.clone() });
        }
        if method == "notifications/cancelled"
            && let Ok(Cancelled { params }) = serde_json::from_slice(line)
        {
            self.cancelled(params.request_id.get());
        }
        self.bytes += line.len();
        self.entries.push_back(Entry {
            line: line.to_vec(),
            id,
            method,
            arrived_ms: now_ms,
            sent_as: None,
            mark: None,
        });
        Ok(())
    }

    /// The client doesn't wait for this request any more: it gets no answer, and is not sent again. The protocol knows no
    /// cancelled `initialize`.
    fn cancelled(&mut self, id: &str) {
        let cancelled = |e: &Entry| e.id.as_deref() == Some(id) && e.method != "initialize";
        if let Some(at) = self.entries.iter().position(cancelled)
            && let Some(entry) = self.entries.remove(at)
        {
            self.bytes -= entry.line.len();
        }
    }

    /// The newest line is this message of the connection.
    pub(super) fn newest_sent(&mut self, message: u64) {
        if let Some(newest) = self.entries.back_mut() {
            newest.sent_as = Some(message);
            self.unanswerable += usize::from(newest.id.is_none());
        }
    }

    /// Everything sent is in the kernel's hands: what gets no answer is done with.
    pub(super) fn all_taken(&mut self) {
        if std::mem::take(&mut self.unanswerable) > 0 {
            let bytes = &mut self.bytes;
            self.entries.retain(|e| {
                let done = e.id.is_none() && e.sent_as.is_some();
                *bytes -= if done { e.line.len() } else { 0 };
                !done
            });
        }
    }

    /// The connection is over: these messages of it the daemon had begun to forward.
    pub(super) fn connection_lost(&mut self, marks: &BTreeMap<u64, LineMark>) {
        self.forwarded(|message| marks.get(&message).map(|mark| (mark.class, mark.call.clone())));
    }

    /// The connection is over, and nobody can tell what the daemon had begun to forward: it may have been anything.
    pub(super) fn marks_lost(&mut self) {
        self.forwarded(|_| Some((WorkClass::Mutating, None)));
    }

    fn forwarded(&mut self, marked: impl Fn(u64) -> Option<(WorkClass, Option<KeptCall>)>) {
        for entry in &mut self.entries {
            if let Some((class, call)) = entry.sent_as.take().and_then(&marked) {
                entry.mark = Some(Mark { tool: entry.tool(), class, call });
            }
        }
    }

    /// A message for the client went by: an answer settles its request.
    pub(super) fn daemon_line(&mut self, line: &[u8]) {
        let Ok(Peek { id: Some(id), method: None }) = serde_json::from_slice(line) else { return };
        self.settle(id.get());
    }

    /// The request has its answer.
    pub(super) fn settle(&mut self, id: &str) {
        let Some(at) = self.entries.iter().position(|e| e.id.as_deref() == Some(id)) else { return };
        let Some(entry) = self.entries.remove(at) else { return };
        self.bytes -= entry.line.len();
        if entry.method == "initialize" {
            self.initialize = serde_json::from_slice(&entry.line).ok();
        }
    }

    /// What to tell a new daemon.
    pub(super) fn resume(&self, now_ms: u64) -> Resume {
        let forwarded = self.entries.iter().filter_map(|e| {
            let mark = e.mark.clone()?;
            let line = serde_json::from_slice(&e.line).ok()?;
            Some(Reported { line, mark, age_ms: now_ms.saturating_sub(e.arrived_ms) })
        });
        Resume { initialize: self.initialize.clone(), forwarded: forwarded.collect() }
    }

    /// Sends the lines that no daemon has begun to forward, in the client's order.
    pub(super) fn send_again(&mut self, mut send: impl FnMut(&[u8]) -> u64) {
        for entry in self.entries.iter_mut().filter(|e| e.mark.is_none()) {
            entry.sent_as = Some(send(&entry.line));
            self.unanswerable += usize::from(entry.id.is_none());
        }
    }

    /// When the first of all requests arrived.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        self.entries.front().map(|e| e.arrived_ms)
    }

    /// Takes out every request that arrived at or before `limit_ms`.
    pub(super) fn overdue(&mut self, limit_ms: u64) -> Vec<Overdue> {
        let mut late = Vec::new();
        let bytes = &mut self.bytes;
        self.entries.retain_mut(|e| {
            if e.arrived_ms > limit_ms {
                return true;
            }
            *bytes -= e.line.len();
            let method = std::mem::take(&mut e.method);
            late.extend(e.id.take().map(|id| Overdue { id, method, mark: e.mark.take() }));
            false
        });
        late
    }

    /// Whether any request waits for its answer.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark { tool: "append".into(), class: WorkClass::Mutating, call: None }
    }

    fn call(id: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"append"}}}}"#)
            .into_bytes()
    }

    impl Book {
        /// As if every line of a connection that began with `client_line` had been sent; and those marked.
        fn sent(&mut self, marked: &[u64]) {
            self.unsent();
            let marks =
                marked.iter().map(|line| (*line, LineMark { line: *line, class: mark().class, call: None }));
            self.connection_lost(&marks.collect());
        }

        fn unsent(&mut self) -> Vec<Vec<u8>> {
            let mut lines = Vec::new();
            self.send_again(|line| {
                lines.push(line.to_vec());
                lines.len() as u64
            });
            self.all_taken();
            lines
        }
    }

    #[test]
    fn what_was_never_forwarded_is_sent_again_and_what_was_is_reported() {
        let mut book = Book::default();
        for id in ["1", "\"1\"", "3"] {
            book.client_line(&call(id), 10).unwrap();
        }
        book.sent(&[2]);
        let resume = book.resume(25);
        assert_eq!(resume.forwarded.len(), 1);
        assert_eq!(resume.forwarded[0].line.get().as_bytes(), call("\"1\""));
        assert_eq!(resume.forwarded[0].mark, mark());
        assert_eq!(resume.forwarded[0].age_ms, 15);
        assert_eq!(book.unsent(), [call("1"), call("3")]);
        assert_eq!(book.resume(25).forwarded.len(), 1);
    }

    #[test]
    fn a_mark_of_an_earlier_request_with_the_same_id_is_not_taken_for_one_of_this() {
        let mut book = Book::default();
        for (id, message) in [("1", 1), ("2", 2)] {
            book.client_line(&call(id), 0).unwrap();
            book.newest_sent(message);
        }
        book.daemon_line(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        book.client_line(&call("1"), 0).unwrap();
        book.newest_sent(3);
        let marks = [1, 2].map(|line| (line, LineMark { line, class: WorkClass::Mutating, call: None }));
        book.connection_lost(&marks.into());
        assert_eq!(book.unsent(), [call("1")]);
        assert_eq!(book.resume(0).forwarded[0].line.get().as_bytes(), call("2"));
    }

    #[test]
    fn without_marks_everything_that_was_sent_may_have_been_forwarded() {
        let mut book = Book::default();
        book.client_line(&call("1"), 0).unwrap();
        book.newest_sent(1);
        book.client_line(&call("2"), 0).unwrap();
        book.marks_lost();
        assert_eq!(book.unsent(), [call("2")]);
        assert_eq!(book.resume(0).forwarded.len(), 1);
    }

    #[test]
    fn an_answer_settles_its_request_alone() {
        let mut book = Book::default();
        book.client_line(&call("1"), 0).unwrap();
        book.client_line(&call("2"), 0).unwrap();
        book.daemon_line(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"id":1}}"#);
        book.daemon_line(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        book.daemon_line(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        assert_eq!(book.unsent(), [call("1")]);
    }

    fn cancellation(id: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
            .into_bytes()
    }

    #[test]
    fn a_cancelled_request_is_neither_sent_again_nor_reported() {
        let mut book = Book::default();
        for id in ["1", "2", "3"] {
            book.client_line(&call(id), 0).unwrap();
        }
        book.sent(&[2]);
        for (id, message) in ["1", "2", "\"3\"", "4"].iter().zip(4..) {
            book.client_line(&cancellation(id), 0).unwrap();
            book.newest_sent(message);
        }
        book.all_taken();
        assert_eq!(book.resume(0).forwarded.len(), 0);
        assert_eq!(book.unsent(), [call("3")]);
        book.daemon_line(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        assert!(book.is_empty() && book.bytes == 0);
    }

    #[test]
    fn an_initialize_is_not_cancelled() {
        let mut book = Book::default();
        let hello = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
        book.client_line(hello, 0).unwrap();
        book.client_line(&cancellation("0"), 0).unwrap();
        assert_eq!(book.unsent()[0], hello);
    }

    #[test]
    fn an_id_in_flight_is_not_taken_for_a_second_request() {
        let mut book = Book::default();
        book.client_line(&call("1"), 0).unwrap();
        assert_eq!(book.client_line(&call("1"), 0), Err(NotTaken::InFlight { id: "1".into() }));
        book.client_line(&call("\"1\""), 0).unwrap();
        book.daemon_line(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        book.client_line(&call("1"), 0).unwrap();
        assert_eq!(book.unsent(), [call("\"1\""), call("1")]);
    }

    #[test]
    fn notifications_wait_for_a_daemon_once() {
        let mut book = Book::default();
        let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        book.client_line(note, 0).unwrap();
        assert_eq!(book.unsent(), [note.to_vec()]);
        assert!(book.is_empty());
        book.client_line(note, 0).unwrap();
        book.all_taken();
        assert!(!book.is_empty());
        book.newest_sent(1);
        book.all_taken();
        assert!(book.is_empty());
    }

    #[test]
    fn the_answered_initialize_is_kept_for_a_new_daemon() {
        let mut book = Book::default();
        let hello = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
        book.client_line(hello, 0).unwrap();
        assert!(book.resume(0).initialize.is_none());
        book.daemon_line(br#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
        assert_eq!(book.resume(0).initialize.unwrap().get().as_bytes(), hello);
    }

    #[test]
    fn the_book_is_bounded_and_says_whose_request_did_not_fit() {
        let mut book = Book::default();
        for id in 0..MAX_ENTRIES {
            book.client_line(&call(&id.to_string()), 0).unwrap();
        }
        assert_eq!(
            book.client_line(&call("\"x\""), 0),
            Err(NotTaken::Full { id: Some("\"x\"".into()), method: "tools/call".into() })
        );
        assert_eq!(book.overdue(0).len(), MAX_ENTRIES);
        assert!(book.is_empty() && book.bytes == 0);
    }
}
