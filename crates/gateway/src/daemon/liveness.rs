//! Whether a silent server lives. Pure: it asks nobody and reads no clock.
//!
//! Any word of a server is a sign of life: an answer, an error, a notification. One that says nothing is asked twice, in
//! two ways, before it counts as gone, and never while anything is in flight: a server that is slow isn't dead.

use tidegate_core::Now;

/// Silence for so long, with nothing to do, is looked into.
const ASK_AFTER_MS: u64 = 60_000;
/// How long each of the two questions may stay without any word.
const ANSWER_WITHIN_MS: u64 = 30_000;

/// What was asked since the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Ping,
    List,
}

/// What is known of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Liveness {
    /// The last word, or the last question.
    since_ms: u64,
    asked: Asked,
}

/// What to do about the silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Ask with `ping`: not every server knows it, but any answer will do.
    Ping,
    /// Ask with a request that every server knows.
    List,
    /// Nobody answers.
    Gone,
}

impl Liveness {
    /// The server has said something, whatever it was, or has just become ready.
    pub(super) fn heard(now: &Now) -> Self {
        Self { since_ms: now.boot_ms, asked: Asked::Nothing }
    }

    /// When to look again.
    pub(super) fn due_ms(&self) -> u64 {
        let patience = if self.asked == Asked::Nothing { ASK_AFTER_MS } else { ANSWER_WITHIN_MS };
        self.since_ms.saturating_add(patience)
    }

    /// Time has passed. `busy`: something is in flight, or nothing may be asked now.
    pub(super) fn look(self, busy: bool, now: &Now) -> (Self, Option<Doubt>) {
        if busy {
            return (Self::heard(now), None);
        }
        if now.boot_ms < self.due_ms() {
            return (self, None);
        }
        let (asked, doubt) = match self.asked {
            Asked::Nothing => (Asked::Ping, Doubt::Ping),
            Asked::Ping => (Asked::List, Doubt::List),
            Asked::List => (Asked::Nothing, Doubt::Gone),
        };
        (Self { since_ms: now.boot_ms, asked }, Some(doubt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{BootId, WallTime};

    fn at(boot_ms: u64) -> Now {
        Now { boot: BootId(1), boot_ms, wall: WallTime(0) }
    }

    /// Looks whenever it is due, from a first word at 0; gives each doubt with its second.
    fn silence(busy_at_s: &[u64], until_s: u64) -> Vec<(u64, Doubt)> {
        let (mut liveness, mut doubts) = (Liveness::heard(&at(0)), Vec::new());
        while liveness.due_ms() <= until_s * 1_000 {
            let due = liveness.due_ms();
            let (next, doubt) = liveness.look(busy_at_s.contains(&(due / 1_000)), &at(due));
            liveness = next;
            doubts.extend(doubt.map(|doubt| (due / 1_000, doubt)));
        }
        doubts
    }

    #[test]
    fn silence_is_asked_about_twice_before_it_counts() {
        assert_eq!(silence(&[], 59), []);
        assert_eq!(silence(&[], 120), [(60, Doubt::Ping), (90, Doubt::List), (120, Doubt::Gone)]);
    }

    #[test]
    fn a_server_with_work_is_never_doubted() {
        assert_eq!(silence(&[60, 120, 180], 200), []);
        // Work that comes between the questions is a reason to begin again.
        assert_eq!(silence(&[120], 190), [(60, Doubt::Ping), (90, Doubt::List), (180, Doubt::Ping)]);
    }

    #[test]
    fn any_word_ends_the_doubt_and_looking_early_changes_nothing() {
        let (asked, _) = Liveness::heard(&at(0)).look(false, &at(60_000));
        assert_eq!(asked.look(false, &at(61_000)), (asked, None));
        assert_eq!(Liveness::heard(&at(70_000)).look(false, &at(129_999)).1, None);
    }
}
