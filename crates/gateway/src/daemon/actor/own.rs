//! The life of a session's own server: it starts with its client's first word and ends some time after its last one.
//! Nothing here concerns a shared server.

use super::Actor;
use crate::daemon::context::say_of;
use std::time::Duration;
use tidegate_relay::Introduction;

/// How long a session's own server outlives its last connection: a client that is started again, or a shim that dials
/// again, finds it as it was.
const LINGER: Duration = Duration::from_secs(60);

/// When a server that has been alone since then is to end: a moment after its client, at once after its session.
fn rests_at_ms(alone_since_ms: u64, over: bool) -> u64 {
    let linger = if over { Duration::ZERO } else { LINGER };
    alone_since_ms.saturating_add(u64::try_from(linger.as_millis()).unwrap_or(u64::MAX))
}

impl Actor {
    pub(super) fn is_alone(&self) -> bool {
        self.relay.streams().next().is_none()
    }

    /// What a server that is started now is told of its client; `None` where there is none to start it for.
    pub(super) fn wanted(&self) -> Option<&Introduction> {
        self.relay.introduction().filter(|_| !self.is_alone())
    }

    /// When it is to be looked at again.
    pub(super) fn rest_due_ms(&self, now_ms: u64) -> Option<u64> {
        let up = self.up.as_ref().filter(|up| up.ending.is_none());
        let due = up.and(self.alone_since_ms).map(|since_ms| rests_at_ms(since_ms, self.over));
        due.filter(|due| *due > now_ms) // after that its last answer, or the session's end, wakes the actor
    }

    /// Starts a session's own server when somebody is there for it, and ends it when nobody is any more.
    pub(super) fn attend(&mut self) {
        if self.seat.session.is_none() {
            return;
        }
        let now_ms = self.ctx.now().boot_ms;
        let alone = self.is_alone();
        self.alone_since_ms = alone.then(|| self.alone_since_ms.unwrap_or(now_ms));
        if self.hands_off || self.reviving.is_some() {
            return;
        }
        let due = self.alone_since_ms.is_some_and(|since_ms| rests_at_ms(since_ms, self.over) <= now_ms);
        let is_wanted = self.wanted().is_some();
        let unused = due && self.relay.gate().in_flight() == 0;
        match &mut self.up {
            None if alone => {
                self.unavailable = None;
                self.relay.rests();
            }
            None if is_wanted => self.revive_after(Duration::ZERO),
            Some(up) if unused && up.ending.is_none() => {
                let (handle, grace) = (up.handle.clone(), self.config.stop_grace);
                up.ending = Some(tokio::spawn(async move { handle.stop(grace).await }));
                let why = if self.over { "its session has ended" } else { "its client is gone" };
                say_of(&[("component", &self.config.name)], &format!("{} ends: {why}", self.seat));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_outlives_its_client_by_a_moment_and_its_session_not_at_all() {
        assert_eq!(rests_at_ms(1_000, false), 61_000);
        assert_eq!(rests_at_ms(1_000, true), 1_000);
    }
}
