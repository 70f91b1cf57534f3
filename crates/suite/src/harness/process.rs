//! A child process whose output is read as it comes, and that never outlives its test.

use super::wait::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the end of standard error is waited for once the process itself has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Debug)]
pub struct Exit {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Everything it said on standard error.
    pub stderr: String,
}

/// A running child. Dropped, it is killed, with its group where it leads one.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    leads_group: bool,
    stdin: Option<ChildStdin>,
    stdout: Receiver<Vec<u8>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Closes with its standard error.
    heard: Receiver<()>,
}

impl Process {
    /// Starts a command; `what` names it in messages. It stays in the test's process group, so that whoever ends the
    /// test ends it too.
    pub fn start(what: &str, command: Command) -> Self {
        Self::spawn(what, command, false)
    }

    /// Starts a command as the leader of a process group, to be killed as a whole.
    pub fn start_group(what: &str, mut command: Command) -> Self {
        command.process_group(0);
        Self::spawn(what, command, true)
    }

    fn spawn(what: &str, mut command: Command, leads_group: bool) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{what} can't be started: {e}"));
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (lines, stdout) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while out.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if lines.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let mut err = child.stderr.take().unwrap();
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = stderr.clone();
        let (hearing, heard) = channel();
        std::thread::spawn(move || {
            let _until_its_end: Sender<()> = hearing;
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = err.read(&mut chunk) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..n]);
            }
        });
        let stdin = child.stdin.take();
        Self { what: what.to_owned(), child, leads_group, stdin, stdout, stderr, heard }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said on standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Writes to its standard input.
    pub fn write(&mut self, bytes: &[u8]) {
        let what = &self.what;
        let written = self.stdin.as_mut().map(|stdin| stdin.write_all(bytes).and_then(|()| stdin.flush()));
        match written {
            Some(Ok(())) => {}
            Some(Err(e)) => panic!("{what} does not read its input ({e}); it said: {}", self.stderr()),
            None => panic!("the input of {what} was closed by this test"),
        }
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line of its standard output, line feed included; `None` at its end.
    ///
    /// # Panics
    /// When none comes.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} said nothing for {PATIENCE:?}; on stderr it said: {}", self.what, self.stderr())
            }
        }
    }

    /// A line of its standard output that is already there.
    pub fn line_now(&mut self) -> Option<Vec<u8>> {
        self.stdout.try_recv().ok()
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // One that has ended is no error; the child isn't waited for yet, so the number is still its own.
        let _ = if self.leads_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Exit {
        let what = format!("{} ends", self.what);
        eventually(&what, || !self.is_running());
        let code = self.child.wait().unwrap().code();
        // Its last words are in the pipe, and another process that has the pipe may outlive it.
        let _ = self.heard.recv_timeout(LAST_WORDS);
        Exit { code, stderr: self.stderr() }
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(self) -> Exit {
        self.signal(Signal::KILL);
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
