//! Reaching the daemon, again and again, with bounded backoff. Decides nothing about requests.

use crate::link::Link;
use crate::wire::{Attach, Hello, Role, WIRE_VERSION, Welcome};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The first wait between two attempts; a daemon that restarts is back within a few of these.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest: an idle shim must not cost anything.
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Knows the socket, the credential and the session, and how long to wait before the next attempt.
pub(super) struct Dialer {
    pub(super) socket: PathBuf,
    token: Option<String>,
    attach: Attach,
    pause: Duration,
}

impl Dialer {
    pub(super) fn new(socket: PathBuf, token: Option<String>, attach: Attach) -> Self {
        Self { socket, token, attach, pause: Duration::ZERO }
    }

    /// What to say hello with.
    pub(super) fn hello(&self, role: impl FnOnce(Attach) -> Role) -> Hello {
        Hello { wire: WIRE_VERSION, token: self.token.clone(), role: role(self.attach.clone()) }
    }

    /// How long to wait before the next attempt.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// One attempt, after the pause that is due.
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up; the daemon sees a connection that closed.
    ///
    /// # Errors
    /// The socket's error.
    pub(super) fn dial(&self, hello: Hello) -> impl Future<Output = io::Result<Link>> + Send + use<> {
        let (pause, socket) = (self.pause, self.socket.clone());
        async move {
            tokio::time::sleep(pause).await;
            Link::connect(&socket, &hello).await
        }
    }

    /// Whether a daemon has ever welcomed this shim.
    pub(super) fn served_before(&self) -> bool {
        self.attach.again
    }

    /// Whether no attempt has failed since the last welcome.
    pub(super) fn first_failure(&self) -> bool {
        self.pause.is_zero()
    }

    /// The attempt failed: the next one comes later.
    pub(super) fn failed(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
    }

    /// The daemon has welcomed this shim; from now on it presents the session it was given.
    pub(super) fn welcomed(&mut self, welcome: &Welcome) {
        self.pause = Duration::ZERO;
        if let Welcome::Open { session: Some(session), .. } = welcome {
            self.attach.session = Some(session.name.clone());
            if std::mem::take(&mut self.attach.steal) {
                self.attach.owner = Some(session.principal.clone());
            }
            self.attach.again = true;
        }
    }
}

/// Why there is no point in trying again before something has changed.
pub(super) fn hopeless(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
