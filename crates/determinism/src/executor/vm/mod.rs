//! The executor `vm`: the subject in an emulated machine whose only clock is the count of its own instructions.
//!
//! The machine has no disk, no network and no input, so that nothing in it happens at a moment that the host chooses.
//! Its root is memory, its client is its own process 1, and its one source of randomness follows from the seed. What it
//! costs is time: an instruction takes some fifty times as long.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tidegate_guest::{Place, Request, Status};

mod files;
mod initramfs;
mod qemu;
mod qmp;
mod reply;
mod snapshot;

use super::{Executor, Job, Levers, Part, Program, ROOT_ENVIRONMENT, Run, SEED_VARIABLE, Task};
use crate::clock::Progress;
use crate::factor::Factor;
use crate::guard::Guard;
use crate::image::Root;
use crate::plan::millis;
use crate::record::Reason;
use crate::verdict::Failure;
use files::Files;
pub use files::MACHINE_MODULES;
use qemu::{Machine, Shape, Start};
use snapshot::{Kept, Shelf};

/// A machine boots in some twenty seconds of one core; on a machine where that takes this long nothing can be measured.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// The machine's own time goes by some ten to a hundred times as slowly as the host's while it computes.
const LIMIT_PER_DEADLINE: u32 = 100;
/// The longest that a check waits for one machine.
const MAX_LIMIT: Duration = Duration::from_secs(3_600);
/// What every snapshot is made from: the seed of a restored run comes into it afterwards.
const SNAPSHOT_SEED: u64 = 1;
/// The emulator was seen to end without a word while it saved a machine. That is nothing to the runs, all of which begin
/// with one and the same file.
const ATTEMPTS_TO_SAVE: usize = 3;
/// The request that a machine is given first, and the one that it goes on with after a pause.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
/// What can be moved alone. The root lists names in the order of its bytes, always.
const LEVERS: [Factor; 8] = [
    Factor::Seed,
    Factor::RtcBase,
    Factor::IcountShift,
    Factor::AddressLayout,
    Factor::CpuModel,
    Factor::MemorySize,
    Factor::Environment,
    Factor::PidOffset,
];

/// Runs each job in a machine of its own.
#[derive(Debug)]
pub(crate) struct Vm<'a> {
    files: Files,
    root: &'a Root,
    shelf: Shelf,
    guard: &'a Guard,
}

impl<'a> Vm<'a> {
    /// Finds everything that a machine is made of; a failure names what is missing and how to get it.
    pub(crate) fn prepare(cache: &Path, root: &'a Root, guard: &'a Guard) -> Result<Self, Failure> {
        Ok(Self { files: Files::find(cache)?, root, shelf: Shelf::open(cache)?, guard })
    }

    /// Waits for a machine that starts from its beginning.
    fn boot(&self, job: &Job<'_>, shape: &Shape, progress: &mut Progress<'_>) -> Result<Run, Failure> {
        let request = self.request(job, job.seed);
        let start = Start { seed: job.seed, request: Some(&request), ..self.start(shape) };
        let left = Machine::start(&start)?.finish(limit(job.deadline), progress)?;
        reply::read(left, job.tasks.len())
    }

    /// Waits for a machine that starts from a snapshot: of the subject at its pause where it has one, and otherwise of
    /// the machine before it was asked for anything.
    fn restore(&self, job: &Job<'_>, shape: &Shape, progress: &mut Progress<'_>) -> Result<Run, Failure> {
        let taken_at = Shape { shift: Shape::default().shift, ..shape.clone() };
        let booted = self.booted(&taken_at, progress)?;
        let (snapshot, request) = match self.paused(job, &taken_at, &booted, progress)? {
            Kept::Snapshot(paused) => {
                let deadline_ms = millis(job.deadline);
                let request = Request { number: SECOND, deadline_ms, reseed: true, ..Request::default() };
                (paused, request)
            }
            Kept::Never => (booted, Request { reseed: true, ..self.request(job, job.seed) }),
        };
        let start =
            Start { seed: job.seed, request: Some(&request), snapshot: Some(&snapshot), ..self.start(shape) };
        let left = Machine::start(&start)?.finish(limit(job.deadline), progress)?;
        reply::read(left, job.tasks.len())
    }

    /// The machine as it waits for its first request.
    fn booted(&self, shape: &Shape, progress: &mut Progress<'_>) -> Result<Rc<File>, Failure> {
        let key = Shelf::key(&["booted", &self.made_of(shape)]);
        let kept = self.shelf.get(&key, |file| {
            let start = Start { saved: true, ..self.start(shape) };
            save(&start, Status::Waiting, file, BOOT_LIMIT, progress)
        })?;
        match kept {
            Kept::Snapshot(file) => Ok(file),
            Kept::Never => Err(Failure {
                reason: Reason::StartFailed,
                detail: "the machine turned off before it was asked for anything".to_owned(),
            }),
        }
    }

    /// The machine as the subject has paused it.
    fn paused(
        &self,
        job: &Job<'_>,
        shape: &Shape,
        booted: &File,
        progress: &mut Progress<'_>,
    ) -> Result<Kept, Failure> {
        if job.tasks.iter().any(|task| task.program == Program::Companion) {
            return Ok(Kept::Never);
        }
        let request = Request { pauses: true, ..self.request(job, SNAPSHOT_SEED) };
        let asked = serde_json::to_string(&request).unwrap_or_default();
        let key = Shelf::key(&["paused", &self.made_of(shape), &asked]);
        self.shelf.get(&key, |file| {
            let start =
                Start { saved: true, request: Some(&request), snapshot: Some(booted), ..self.start(shape) };
            save(&start, Status::Paused, file, limit(job.deadline), progress)
        })
    }

    fn start<'b>(&'b self, shape: &'b Shape) -> Start<'b> {
        Start {
            files: &self.files,
            root: &self.root.erofs,
            shape,
            seed: SNAPSHOT_SEED,
            snapshot: None,
            request: None,
            saved: false,
            guard: self.guard,
        }
    }

    fn made_of(&self, shape: &Shape) -> String {
        format!("{} {} {:?}", self.files.digest, self.root.digest, qemu::command_line(shape))
    }

    fn request(&self, job: &Job<'_>, seed: u64) -> Request {
        Request {
            number: FIRST,
            pauses: false,
            tasks: job.tasks.iter().map(|task| self.task(task, seed, job.levers)).collect(),
            deadline_ms: millis(job.deadline),
            reseed: false,
            schedule: true,
            wall_clock: job.levers.rtc_base,
            aslr: job.levers.aslr,
            pid_offset: job.levers.pid_offset,
        }
    }

    fn task(&self, task: &Task<'_>, seed: u64, levers: &Levers) -> tidegate_guest::Task {
        let config = &self.root.config;
        let (place, program) = match task.program {
            Program::Subject(program) => (Place::Subject, Some(program.to_owned())),
            Program::Companion => (Place::Guest, None),
        };
        let mut environment: BTreeMap<String, String> =
            ROOT_ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        environment.extend(config.env.clone());
        environment.insert(SEED_VARIABLE.to_owned(), seed.to_string());
        environment.extend(levers.environment.clone());
        tidegate_guest::Task {
            place,
            argv: program.into_iter().chain(task.arguments.iter().cloned()).collect(),
            environment: environment.into_iter().collect(),
            directory: config.workdir.clone(),
            user: config.uid,
            group: config.gid,
            conversation: task.script.map(|script| script.steps.clone()),
        }
    }
}

impl Executor for Vm<'_> {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn pins(&self) -> Vec<String> {
        [
            "time: the machine's only clock is the count of its instructions",
            "memory: which addresses the emulator remembers follows from the machine, not from the host's clock",
            "entropy: every random number follows from the seed",
            "scheduling: one processor, interrupted by its own count of instructions alone",
            "processes and addresses: each run begins with the same machine",
            "input: no network, no disk, no console; the client is in the machine",
            &format!("emulator: {}", self.files.version),
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn not_pinned(&self) -> Vec<String> {
        ["the emulator, the kernel and this machine's own faults: equality on another host was not tested"
            .to_owned()]
        .to_vec()
    }

    fn levers(&self) -> &'static [Factor] {
        &LEVERS
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Boot, Part::Restored]
    }

    fn run(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) -> Result<Run, Failure> {
        let pinned = Shape::default();
        let shape = Shape {
            shift: job.levers.shift.unwrap_or(pinned.shift),
            processor: job.levers.cpu_model.clone().unwrap_or(pinned.processor),
            memory_mib: job.levers.memory_mib.unwrap_or(pinned.memory_mib),
        };
        match job.part {
            Part::Boot => self.boot(job, &shape, progress),
            Part::Restored => self.restore(job, &shape, progress),
        }
    }
}

/// Writes a snapshot of the machine when the guest is at `status`; false when it never is.
fn save(
    start: &Start<'_>,
    status: Status,
    file: &File,
    limit: Duration,
    progress: &mut Progress<'_>,
) -> Result<bool, Failure> {
    let mut last = None;
    for _ in 0..ATTEMPTS_TO_SAVE {
        match Machine::start(start)?.save_at(status, file, limit, progress) {
            Err(failure) if failure.reason == Reason::StartFailed => last = Some(failure),
            outcome => return outcome,
        }
    }
    last.map_or(Ok(false), Err)
}

/// How long the host waits for a machine whose tasks have this long in its own time.
fn limit(deadline: Duration) -> Duration {
    BOOT_LIMIT.saturating_add(deadline.saturating_mul(LIMIT_PER_DEADLINE)).min(MAX_LIMIT)
}
