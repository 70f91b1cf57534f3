//! The ways to run a subject, behind one seam: what an executor is handed, and what it gives back.
//!
//! An executor runs and observes. It must never compare, judge or retry, and it leaves nothing running behind it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use crate::clock::Progress;
use crate::factor::Factor;
use crate::record::Host;
use crate::script::Script;
use crate::stream::Recording;
use crate::verdict::Failure;

pub(crate) mod antithesis;
mod inside;
mod native;
mod sandbox;
mod vm;

pub(crate) use native::Native;
pub(crate) use sandbox::Sandbox;
pub(crate) use tidegate_guest::SEED_VARIABLE;
pub use vm::MACHINE_MODULES;
pub(crate) use vm::Vm;

/// The environment of a task in a root that says nothing about it.
pub(crate) const ROOT_ENVIRONMENT: [(&str, &str); 2] =
    [("HOME", "/root"), ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")];

/// What of a life is observed: all of it, or what follows a snapshot. The two are never pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Part {
    /// From the start of the machine, or of the process where there is no machine.
    Boot,
    /// From a snapshot of a booted machine.
    Restored,
}

impl Part {
    /// Its name in a record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Restored => "restored",
        }
    }
}

/// Which program a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program<'a> {
    /// The subject, or a part of it: a command in the subject's root.
    Subject(&'a str),
    /// The `tidegate-determinism` binary, outside the subject's root: controls.
    Companion,
}

/// One command, run in a fresh process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) program: Program<'a>,
    /// Without the name of the program.
    pub(crate) arguments: &'a [String],
    /// The client's side of its conversation; without one its input is empty.
    pub(crate) script: Option<&'a Script>,
}

/// Everything that one run needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// One after the other, in the same environment: a machine that takes seconds to start serves several controls.
    pub(crate) tasks: &'a [Task<'a>],
    pub(crate) seed: u64,
    /// For each task, in the time that the task sees.
    pub(crate) deadline: Duration,
    pub(crate) part: Part,
    pub(crate) levers: &'a Levers,
}

/// What ablation changes, one at a time; `None` and zero leave the executor's own value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Levers {
    /// Nanoseconds per instruction, as a power of two.
    pub(crate) shift: Option<u8>,
    /// The wall clock at the start, in seconds since 1970.
    pub(crate) rtc_base: Option<u64>,
    /// Whether addresses are randomised.
    pub(crate) aslr: Option<bool>,
    pub(crate) cpu_model: Option<String>,
    pub(crate) memory_mib: Option<u32>,
    /// Processes started and ended before the first task, so that its number is another one.
    pub(crate) pid_offset: u32,
    /// Added to the environment of every task.
    pub(crate) environment: BTreeMap<String, String>,
}

/// What one run gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    /// One for each task, in order.
    pub(crate) recordings: Vec<Recording>,
    /// What only an executor with a machine of its own sees.
    pub(crate) machine: Option<Machine>,
    pub(crate) spent: Spent,
}

/// What a machine did, beside what the tasks wrote. Trace and kernel log have records, or the run failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Machine {
    /// Each read of an output and each end of a process, with the machine's time in nanoseconds, in order.
    pub(crate) trace: Vec<Vec<u8>>,
    /// Which thread of the machine ran when, and which process began and ended, in order.
    pub(crate) schedule: Vec<Vec<u8>>,
    /// The kernel's log, by lines.
    pub(crate) kernel_log: Vec<Vec<u8>>,
    /// Each file that the tasks left changed in the subject's root: its kind, mode, owner, size, digest and path.
    pub(crate) changed_files: Vec<Vec<u8>>,
}

/// What one run took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// The largest resident size, where it was measured.
    pub(crate) resident_kib: Option<u64>,
}

/// A way to run a subject.
pub(crate) trait Executor: Debug {
    /// Its name on the command line and in the record.
    fn name(&self) -> &'static str;

    /// What it holds still, in words for the record.
    fn pins(&self) -> Vec<String>;

    /// What it leaves free, in words for the record.
    fn not_pinned(&self) -> Vec<String>;

    /// Whether a subject reaches what is outside; one that needs it has no result elsewhere.
    fn has_network(&self) -> bool {
        false
    }

    /// What it can change while everything else stays as it is.
    fn levers(&self) -> &'static [Factor] {
        &[]
    }

    /// The parts of a life that it can run.
    fn parts(&self) -> &'static [Part];

    /// The machine that the subject sees, where that isn't this one.
    fn host(&self) -> Option<Host> {
        None
    }

    /// Runs the tasks of a job, one after the other.
    fn run(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) -> Result<Run, Failure>;
}
