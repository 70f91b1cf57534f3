//! A process of our own beside the subject (guard, load): started with a handshake, ended by closing its input.
//!
//! A helper ends when its input does, so it outlives neither this process nor a kill -9 of it.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use crate::error::RunError;

/// What a helper writes once it does its work.
pub(crate) const READY: &str = "ready";
/// A helper answers within milliseconds; a machine that needs longer than this can't be measured on.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Helpers write one line at their start and one at their end.
const LINES: usize = 2;

#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Helper {
    /// Starts the companion in a role, and returns once it says that it's ready.
    pub(crate) fn start(companion: &Path, arguments: &[&str]) -> Result<Self, RunError> {
        let failed = |source| RunError::Companion { path: companion.to_owned(), source };
        let mut child = Command::new(companion)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0) // a Ctrl-C at the terminal must not reach it before it reaches us
            .spawn()
            .map_err(failed)?;
        let (sender, lines) = sync_channel(LINES);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let input = child.stdin.take();
        let mut helper = Self { child, input, lines };
        if helper.line().as_deref() != Some(READY) {
            // Not one of ours: it needn't end when its input does.
            helper.child.kill().map_err(failed)?;
            return Err(failed(io::Error::other("it did not say that it is ready")));
        }
        Ok(helper)
    }

    /// Closes its input and returns the last line it says.
    pub(crate) fn finish(mut self) -> Option<String> {
        self.input = None;
        self.line()
    }

    fn line(&self) -> Option<String> {
        self.lines.recv_timeout(ANSWER_WITHIN).ok()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.input = None;
        // The only error is that it was reaped already.
        let _ = self.child.wait();
    }
}
