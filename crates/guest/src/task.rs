//! One task: started in a fresh process, spoken to, listened to, and brought to its end with everything it started.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open, wait,
};
use tidegate_guest::{Conversation, Frame, Kind, PAUSE, PAUSE_VARIABLE, Place, Task};

use crate::enter;
use crate::machine::now;
use crate::pause::Pause;
use crate::session::OWN_BINARY;

/// All that the tasks of a request write is kept in memory; the host would not take more.
const MAX_BYTES: usize = 64 << 20;
/// One read of a pipe, as large as a pipe is.
const CHUNK_BYTES: usize = 64 << 10;

/// Runs the task and says how it went. An error is one of the machine and not of the task.
pub(crate) fn run(
    task: &Task,
    number: u32,
    deadline_ms: u64,
    pause: Option<&mut Pause<'_>>,
    frames: &mut Vec<Frame>,
) -> io::Result<()> {
    let mut observer = Observer { number, frames, limit: Duration::from_millis(deadline_ms), pause };
    let mut command = command(task);
    if observer.pause.is_some() {
        command.env(PAUSE_VARIABLE, PAUSE);
    }
    match command.spawn() {
        Ok(child) => {
            let pid = child.id();
            observer.started(pid);
            let failed = observer.observe(child, task)?;
            if let Some(failure) = failed {
                observer.tell(Kind::Failed, failure.into_bytes());
            }
            let ended = end(pid)?;
            observer.tell(Kind::Ended, ended.into_bytes());
        }
        Err(error) => {
            let program = task.argv.first().map_or("", String::as_str);
            observer
                .tell(Kind::Failed, format!("START_FAILED failed to start {program}: {error}").into_bytes());
        }
    }
    Ok(())
}

fn command(task: &Task) -> Command {
    let mut command = Command::new(OWN_BINARY);
    if task.place == Place::Subject {
        command.args([enter::ROLE, &task.user.to_string(), &task.group.to_string(), &task.directory]);
    }
    command
        .args(&task.argv)
        .env_clear()
        .envs(task.environment.iter().map(|(name, value)| (name, value)))
        .stdin(if task.conversation.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

struct Observer<'a, 'b> {
    number: u32,
    frames: &'a mut Vec<Frame>,
    limit: Duration,
    pause: Option<&'a mut Pause<'b>>,
}

impl Observer<'_, '_> {
    fn started(&mut self, pid: u32) {
        self.tell(Kind::Started, pid.to_string().into_bytes());
    }

    fn tell(&mut self, kind: Kind, bytes: Vec<u8>) {
        let at_ns = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX);
        self.frames.push(Frame { kind, task: self.number, at_ns, bytes });
    }

    /// Speaks and listens until the task has ended and its output too; why there is no result, otherwise.
    fn observe(&mut self, mut child: Child, task: &Task) -> io::Result<Option<String>> {
        let mut deadline = now() + self.limit;
        let mut ends = Some(pidfd_open(process(child.id())?, PidfdFlags::empty())?);
        let mut output = child.stdout.take().map(OwnedFd::from);
        let mut errors = child.stderr.take().map(OwnedFd::from);
        let mut input = child.stdin.take().map(Input::new).transpose()?;
        let mut conversation = task.conversation.as_deref().map(Conversation::new);
        let mut written = 0;
        while ends.is_some() || output.is_some() || errors.is_some() {
            if let (Some(conversation), Some(open)) = (&mut conversation, &mut input) {
                open.pending.extend(conversation.next_lines());
                if open.write() || (open.pending.is_empty() && conversation.waits_for().is_none()) {
                    input = None;
                }
            }
            let Some(left) = deadline.checked_sub(now()).filter(|left| !left.is_zero()) else {
                return Ok(Some(late(&conversation, ends.is_none())));
            };
            let blocked = input.as_ref().filter(|input| !input.pending.is_empty());
            let ready = wait_for(
                [
                    (output.as_ref().map(AsFd::as_fd), PollFlags::IN),
                    (errors.as_ref().map(AsFd::as_fd), PollFlags::IN),
                    (ends.as_ref().map(AsFd::as_fd), PollFlags::IN),
                    (blocked.map(|input| input.pipe.as_fd()), PollFlags::OUT),
                    (self.pause.as_ref().map(|pause| pause.asked()), PollFlags::IN),
                ],
                left,
            )?;
            for (kind, pipe, is_ready) in
                [(Kind::Output, &mut output, ready[0]), (Kind::Error, &mut errors, ready[1])]
            {
                let Some(bytes) = pipe.as_ref().filter(|_| is_ready).map(read).transpose()? else { continue };
                if bytes.is_empty() {
                    *pipe = None;
                    continue;
                }
                if let (Kind::Output, Some(conversation)) = (kind, &mut conversation) {
                    conversation.heard(&bytes);
                }
                written += bytes.len();
                self.tell(kind, bytes);
            }
            if ready[2] {
                ends = None;
            }
            if let Some(pause) = self.pause.as_mut().filter(|_| ready[4]) {
                let next = pause.until_next()?;
                // What was before is in the snapshot, and the same for everyone who begins with it.
                self.frames.clear();
                self.limit = Duration::from_millis(next.deadline_ms);
                (deadline, written) = (now() + self.limit, 0);
                self.started(child.id());
                self.pause.as_mut().map_or(Ok(()), |pause| pause.resume())?;
            }
            if written > MAX_BYTES {
                return Ok(Some(format!("OUTPUT_TOO_LARGE a run wrote more than {MAX_BYTES} bytes")));
            }
        }
        Ok(conversation
            .as_ref()
            .and_then(Conversation::waits_for)
            .map(|id| format!("SCRIPT_INCOMPLETE the subject ended before its answer to {id}")))
    }
}

fn late(conversation: &Option<Conversation>, ended: bool) -> String {
    let what = match conversation.as_ref().and_then(Conversation::waits_for) {
        Some(id) => format!("its answer to {id} did not come"),
        None if ended => "it ended, and something it had started kept its output open".to_owned(),
        None => "it did not end".to_owned(),
    };
    format!("TIMEOUT {what} within its deadline, in the machine's own time")
}

/// The end of a task's input that is here, with what the task has not taken yet.
struct Input {
    pipe: ChildStdin,
    pending: Vec<u8>,
}

impl Input {
    fn new(pipe: ChildStdin) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { pipe, pending: Vec::new() })
    }

    /// Writes what fits; true when nobody reads any more.
    fn write(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.pipe.write(&self.pending) {
                Ok(length) => drop(self.pending.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => return true,
            }
        }
        false
    }
}

/// Which of the descriptors are ready, at the latest after `left`.
fn wait_for<const N: usize>(
    of: [(Option<rustix::fd::BorrowedFd<'_>>, PollFlags); N],
    left: Duration,
) -> io::Result<[bool; N]> {
    let mut fds = Vec::with_capacity(N);
    let mut places = Vec::with_capacity(N);
    for (place, (fd, flags)) in of.into_iter().enumerate() {
        if let Some(fd) = fd {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            places.push(place);
        }
    }
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&left)))?;
    let mut ready = [false; N];
    for (fd, place) in fds.iter().zip(places) {
        ready[place] = !fd.revents().is_empty();
    }
    Ok(ready)
}

fn read(pipe: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut buffer))?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Kills everything that is left and waits for all of it; how the task itself ended.
fn end(task: u32) -> io::Result<String> {
    let own = getpid();
    let mut ended = "ended".to_owned();
    loop {
        for entry in fs::read_dir("/proc")? {
            let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = number.and_then(Pid::from_raw).filter(|pid| *pid != own) {
                // Threads of the kernel don't mind, and what is gone is what is wanted.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        match rustix::io::retry_on_intr(|| wait(WaitOptions::empty())) {
            Ok(Some((pid, status))) if pid == process(task)? => ended = describe(status),
            Ok(_) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(error) => return Err(error.into()),
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn process(number: u32) -> io::Result<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process number"))
}
