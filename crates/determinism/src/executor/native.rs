//! The executor `native`: each task in a fresh process of this machine, input fed, output read, deadline kept, nothing left behind.
//!
//! The thin shell below every decision: it must never judge what it reads.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use tidegate_guest::Conversation;

use super::{Executor, Job, Part, Program, ROOT_ENVIRONMENT, Run, SEED_VARIABLE, Spent, Task, inside};
use crate::clock::{Progress, now};
use crate::guard::{Guard, MARK_VARIABLE};
use crate::image::Root;
use crate::record::Reason;
use crate::report::cpu_of_children;
use crate::script::Script;
use crate::stream::Recording;
use crate::subject::resolve;
use crate::verdict::Failure;

/// All output of a run is kept until it is compared; beyond this a check would need streaming.
const MAX_RUN_BYTES: usize = 64 << 20;
/// One read of a pipe, as large as a pipe is.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks read ahead of the run's loop.
const CHUNKS: usize = 16;

/// Runs each task as a process of this machine. The control among the executors: it pins nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Native<'a> {
    pub(crate) companion: &'a Path,
    pub(crate) guard: &'a Guard,
    /// Where the subject's program and files are, unless they are this machine's.
    pub(crate) root: Option<&'a Root>,
}

impl Executor for Native<'_> {
    fn name(&self) -> &'static str {
        "native"
    }

    fn pins(&self) -> Vec<String> {
        Vec::new()
    }

    fn not_pinned(&self) -> Vec<String> {
        vec!["everything: nothing is pinned natively".to_owned()]
    }

    fn has_network(&self) -> bool {
        true
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Boot]
    }

    fn run(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) -> Result<Run, Failure> {
        self.run_with(job, progress, |task| {
            let words = self.words(task, None);
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            if let (Some(root), Program::Subject(_)) = (self.root, task.program) {
                command.env_clear().envs(ROOT_ENVIRONMENT).envs(&root.config.env);
            }
            command
        })
    }
}

impl<'a> Native<'a> {
    /// Runs the tasks of a job, each by the command that stands for it.
    pub(super) fn run_with(
        &self,
        job: &Job<'_>,
        progress: &mut Progress<'_>,
        command: impl Fn(&Task<'_>) -> Command,
    ) -> Result<Run, Failure> {
        let (started, cpu_before) = (now(), cpu_of_children());
        let recordings = job
            .tasks
            .iter()
            .map(|task| self.task(command(task), task, job, progress))
            .collect::<Result<Vec<_>, Failure>>()?;
        let spent = Spent {
            wall: now().duration_since(started),
            cpu: cpu_of_children().saturating_sub(cpu_before),
            resident_kib: None,
        };
        Ok(Run { recordings, machine: None, spent })
    }
}

#[derive(Clone, Copy)]
enum Pipe {
    Output,
    Error,
}

enum Event {
    Read(Pipe, Vec<u8>),
    End,
    Exited,
}

impl<'a> Native<'a> {
    /// The words that run a task: the program first. A bare name is looked up where the caller says, so that another
    /// search path in the task's environment changes nothing.
    pub(super) fn words(&self, task: &Task<'_>, search_path: Option<&OsStr>) -> Vec<OsString> {
        let program = match (task.program, self.root) {
            (Program::Subject(program), Some(root)) => {
                return inside::words(&root.directory, &root.config, program, task.arguments);
            }
            (Program::Subject(program), None) => {
                resolve(program, search_path).map_or_else(|| program.into(), Into::into)
            }
            (Program::Companion, _) => self.companion.into(),
        };
        [program].into_iter().chain(task.arguments.iter().map(Into::into)).collect()
    }

    fn task(
        &self,
        mut command: Command,
        task: &Task<'_>,
        job: &Job<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Recording, Failure> {
        let started = now();
        let mut child = command
            .env(SEED_VARIABLE, job.seed.to_string())
            .env(MARK_VARIABLE, self.guard.mark())
            .envs(&job.levers.environment)
            .stdin(if task.script.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                let program = command.get_program().display();
                failure(Reason::StartFailed, format!("failed to start {program}: {error}"))
            })?;
        let pid = child.id();
        let observed = observe(&mut child, task.script, job.deadline, started, progress);
        self.guard.kill(pid);
        let status = child.wait();

        let mut recording = observed?;
        let status = status.map_err(|error| {
            failure(Reason::StartFailed, format!("failed to wait for the process: {error}"))
        })?;
        recording.pid = pid;
        recording.exit = describe(status);
        if self.root.is_some() && recording.exit == inside::NOT_ENTERED {
            let said = String::from_utf8_lossy(&recording.stderr);
            let detail =
                format!("the root could not be entered: {}", said.lines().next().unwrap_or("no word"));
            return Err(failure(Reason::StartFailed, detail));
        }
        Ok(recording)
    }
}

/// Reads until the process has ended and its output too; leaves the process to be reaped.
fn observe(
    child: &mut Child,
    script: Option<&Script>,
    deadline: Duration,
    started: Instant,
    progress: &mut Progress<'_>,
) -> Result<Recording, Failure> {
    let (sender, events) = sync_channel(CHUNKS);
    let mut open = 0;
    if let Some(output) = child.stdout.take() {
        open += 1;
        read_all(output, Pipe::Output, sender.clone());
    }
    if let Some(errors) = child.stderr.take() {
        open += 1;
        read_all(errors, Pipe::Error, sender.clone());
    }
    announce_exit(child.id(), sender);
    let mut input = child.stdin.take().map(write_all);
    let mut conversation = script.map(|script| Conversation::new(&script.steps));
    let mut recording = Recording::default();
    let mut heard = 0;
    let mut exited = false;
    loop {
        if let Some(conversation) = &mut conversation {
            conversation.heard(&recording.stdout[heard..]);
            heard = recording.stdout.len();
            let lines = conversation.next_lines();
            if let (Some(input), false) = (&input, lines.is_empty()) {
                // A subject that has closed its input is found out by the answer that doesn't come.
                let _ = input.send(lines);
            }
            if conversation.waits_for().is_none() {
                input = None;
            }
        }
        if exited && open == 0 {
            break;
        }
        match next(&events, started, deadline, progress) {
            Some(Event::Read(Pipe::Output, bytes)) => recording.stdout.extend(bytes),
            Some(Event::Read(Pipe::Error, bytes)) => recording.stderr.extend(bytes),
            Some(Event::End) => open -= 1,
            Some(Event::Exited) => exited = true,
            None => return Err(timeout(deadline, exited, conversation.as_ref())),
        }
        if recording.stdout.len() + recording.stderr.len() > MAX_RUN_BYTES {
            return Err(failure(
                Reason::OutputTooLarge,
                format!("a run wrote more than {MAX_RUN_BYTES} bytes"),
            ));
        }
    }
    match conversation.as_ref().and_then(Conversation::waits_for) {
        Some(id) => {
            Err(failure(Reason::ScriptIncomplete, format!("the subject ended before its answer to {id}")))
        }
        None => Ok(recording),
    }
}

/// The next event, or `None` at the deadline.
fn next(
    events: &Receiver<Event>,
    started: Instant,
    deadline: Duration,
    progress: &mut Progress<'_>,
) -> Option<Event> {
    loop {
        progress.tick();
        let left = deadline.checked_sub(now().duration_since(started))?;
        match events.recv_timeout(left.min(progress.pause())) {
            Ok(event) => return Some(event),
            Err(RecvTimeoutError::Timeout) => {}
            // Every sender says `End` or `Exited` last, and the loop stops after those.
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn read_all(mut pipe: impl Read + Send + 'static, which: Pipe, events: SyncSender<Event>) {
    thread::spawn(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        // An error ends the pipe as its end does; the run's loop may be gone, which ends this thread too.
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            if events.send(Event::Read(which, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
        let _ = events.send(Event::End);
    });
}

/// Writes on a thread of its own: a subject that doesn't read must not keep the deadline from passing.
fn write_all(mut pipe: impl Write + Send + 'static) -> mpsc::Sender<Vec<u8>> {
    let (sender, lines) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        for bytes in lines {
            if pipe.write_all(&bytes).and_then(|()| pipe.flush()).is_err() {
                return;
            }
        }
    });
    sender
}

/// Notices the end of the process without reaping it: until then its number, and its group's, stay its own.
fn announce_exit(pid: u32, events: SyncSender<Event>) {
    thread::spawn(move || {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), ended));
        }
        let _ = events.send(Event::Exited);
    });
}

fn timeout(deadline: Duration, exited: bool, conversation: Option<&Conversation>) -> Failure {
    let what = match conversation.and_then(Conversation::waits_for) {
        Some(id) => format!("its answer to {id} did not come"),
        None if exited => "it ended, and something it had started kept its output open".to_owned(),
        None => "it did not end".to_owned(),
    };
    failure(Reason::Timeout, format!("{what} within {deadline:?}"))
}

fn failure(reason: Reason, detail: String) -> Failure {
    Failure { reason, detail }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
