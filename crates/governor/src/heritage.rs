//! What becomes of a server that an earlier daemon has left: ended where nothing unsafe can be running in it, else waited
//! for. The one place that decides it. It looks at nothing and ends nothing itself.

use tidegate_core::planted::is_planted;
use tidegate_core::{BoxFuture, Clock, Deadline};

/// A server of an earlier daemon, as its successor can look at it.
pub trait OldServer: Send + Sync {
    /// Whether it is sure that no unsafe call is running in it. "Cannot tell" is no.
    fn nothing_runs(&self) -> bool;

    /// Waits for a moment. Answers what is left of it then, in words; `None` when nothing is.
    ///
    /// # Cancel safety
    /// Only looks.
    ///
    /// # Errors
    /// Why that can't be told, which counts as alive.
    fn left(&self) -> BoxFuture<'_, Result<Option<String>, String>>;

    /// Ends it, whatever it takes.
    ///
    /// # Cancel safety
    /// Steps taken stay taken; call it again.
    ///
    /// # Errors
    /// Why there is no proof that nothing of it is left.
    fn end(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// Proves that nothing is left of a server of an earlier daemon. One in which an unsafe call may be running is waited for,
/// and never ended in the middle of it; `unsafe_possible` is what is on record about that.
///
/// # Cancel safety
/// As [`OldServer::end`].
///
/// # Errors
/// Why there is no proof. Nothing may be started beside it then.
pub async fn settle_old_server(
    server: &dyn OldServer,
    unsafe_possible: bool,
    clock: &dyn Clock,
    deadline: Deadline,
) -> Result<(), String> {
    loop {
        let may_work = unsafe_possible && !server.nothing_runs();
        if !may_work || is_planted("an-old-server-is-killed-at-its-work") {
            return server.end().await;
        }
        match server.left().await? {
            None => return Ok(()),
            Some(left) if deadline.passed(&clock.now()) => {
                return Err(format!(
                    "{left} of its last generation are still running, perhaps in the middle of an unsafe call"
                ));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tidegate_core::{BootId, Now, WallTime};

    /// Looked at once for each second of its clock: when its work ends, when it ends by itself, what was done to it.
    struct Old {
        works_until_s: u64,
        lives_until_s: u64,
        blind: bool,
        seen: Mutex<(u64, bool)>,
    }

    impl Old {
        fn at_s(&self) -> u64 {
            self.seen.lock().unwrap().0
        }
    }

    impl Clock for Old {
        fn now(&self) -> Now {
            Now { boot: BootId(1), boot_ms: self.at_s() * 1_000, wall: WallTime(0) }
        }
    }

    impl OldServer for Old {
        fn nothing_runs(&self) -> bool {
            !self.blind && self.at_s() >= self.works_until_s
        }

        fn left(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
            self.seen.lock().unwrap().0 += 1;
            let left = (self.at_s() < self.lives_until_s).then(|| "processes [7]".to_owned());
            Box::pin(async { Ok(left) })
        }

        fn end(&self) -> BoxFuture<'_, Result<(), String>> {
            self.seen.lock().unwrap().1 = true;
            Box::pin(async { Ok(()) })
        }
    }

    /// `(unsafe_possible, blind, works_until_s, lives_until_s)`, with ten seconds of patience.
    fn check((unsafe_possible, blind, works_until_s, lives_until_s): (bool, bool, u64, u64), expected: &str) {
        let old = Old { works_until_s, lives_until_s, blind, seen: Mutex::default() };
        let deadline = Deadline { boot: BootId(1), at_ms: 10_000 };
        let settled = pollster::block_on(settle_old_server(&old, unsafe_possible, &old, deadline));
        let (at_s, ended) = *old.seen.lock().unwrap();
        let what = match settled {
            Err(error) => error.split(',').next().unwrap_or_default().to_owned(),
            Ok(()) if ended => "ended".to_owned(),
            Ok(()) => "gone".to_owned(),
        };
        assert_eq!(format!("{what} after {at_s} s"), expected);
    }

    #[test]
    fn an_old_server_is_ended_as_soon_as_nothing_unsafe_can_run_in_it_and_waited_for_until_then() {
        check((false, true, 99, 99), "ended after 0 s");
        check((true, false, 0, 99), "ended after 0 s");
        check((true, false, 3, 99), "ended after 3 s");
        check((true, true, 0, 4), "gone after 4 s");
        let left = "processes [7] of its last generation are still running after 10 s";
        check((true, true, 0, 99), left);
        check((true, false, 99, 99), left);
    }
}
