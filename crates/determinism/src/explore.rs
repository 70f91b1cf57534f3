//! Exploration: one snapshot of a subject, continued from many seeds and at several speeds of its processor. Each visit
//! is a run that anyone can repeat, and each has an interleaving of its own or one that was seen before.
//!
//! Must never judge a visit: what is a finding is the caller's to say.

use sha2::{Digest, Sha256};

use crate::clock::Progress;
use crate::error::RunError;
use crate::executor::{Executor, Job, Levers, Part, Program, Run, Task, Vm};
use crate::guard::Guard;
use crate::plan::Plan;
use crate::report::seconds;
use crate::subject::hex;
use crate::verdict::Failure;

/// What a line of the machine's schedule has before the thread that runs from there on.
const SWITCH: &str = "==> ";
/// And behind it: how it ranks says nothing about the order.
const RANK: &str = " next_prio=";

/// One continuation of the snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Where its random numbers come from.
    pub seed: u64,
    /// Nanoseconds that an instruction lasts, as a power of two.
    pub shift: u8,
    /// What the subject wrote to its standard output, by lines.
    pub output: Vec<String>,
    /// What it wrote to its standard error.
    pub errors: Vec<String>,
    /// How it ended; why there is nothing else, where the run has no result.
    pub ended: Result<String, String>,
    /// Stands for which thread ran after which.
    pub interleaving: String,
    /// Processor time of this machine.
    pub cpu_s: f64,
    /// The machine's size at its largest.
    pub resident_mib: Option<u64>,
}

/// Continues the plan's subject once for each shift and seed, and hands every visit to `visit` as it ends.
///
/// The snapshot is made first, unless there is one: at the subject's own pause where it has one (see
/// `TIDEGATE_PAUSE`), and otherwise before its start.
///
/// # Errors
///
/// When the plan names no root or no command, the companion can't be started, or the executor `vm` isn't available.
pub fn explore(
    plan: &Plan,
    seeds: impl Iterator<Item = u64> + Clone,
    shifts: &[u8],
    visit: &mut dyn FnMut(Visit),
    progress: &mut dyn FnMut(&str),
) -> Result<(), RunError> {
    plan.validate()?;
    let mut progress = Progress::new(progress);
    let guard = Guard::start(&plan.companion)?;
    let unavailable = |detail| RunError::Unavailable { detail };
    let root =
        plan.root.as_ref().ok_or_else(|| unavailable("exploring needs a root file system".to_owned()))?;
    let mut vm = Vm::prepare(&plan.cache, root, &guard).map_err(|failure| unavailable(failure.detail))?;
    let (program, arguments) = plan.argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let task = Task { program: Program::Subject(program), arguments, script: plan.script.as_ref() };
    for shift in shifts {
        let levers = Levers { shift: Some(*shift), ..Levers::default() };
        for seed in seeds.clone() {
            progress.step(format!("shift {shift}, seed {seed}"));
            let job =
                Job { tasks: &[task], seed, deadline: plan.deadline, part: Part::Restored, levers: &levers };
            let run = vm.run(&job, &mut progress);
            visit(visited(seed, *shift, run));
        }
    }
    Ok(())
}

fn visited(seed: u64, shift: u8, run: Result<Run, Failure>) -> Visit {
    let mut visit = Visit {
        seed,
        shift,
        output: Vec::new(),
        errors: Vec::new(),
        ended: Err(String::new()),
        interleaving: String::new(),
        cpu_s: 0.0,
        resident_mib: None,
    };
    let run = match run {
        Ok(run) => run,
        Err(failure) => {
            visit.ended = Err(failure.detail);
            return visit;
        }
    };
    if let Some(recording) = run.recordings.first() {
        let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
        visit.output = lines(&recording.stdout);
        visit.errors = lines(&recording.stderr);
        visit.ended = Ok(recording.exit.clone());
    }
    visit.interleaving = interleaving(run.machine.iter().flat_map(|machine| &machine.schedule));
    visit.cpu_s = seconds(run.spent.cpu);
    visit.resident_mib = run.spent.resident_kib.map(|kib| kib / 1_024);
    visit
}

/// Which thread ran after which, and nothing of when: two runs that differ in time alone have one interleaving.
fn interleaving<'a>(schedule: impl Iterator<Item = &'a Vec<u8>>) -> String {
    let mut hash = Sha256::new();
    for line in schedule {
        let line = String::from_utf8_lossy(line);
        if let Some((_, next)) = line.split_once(SWITCH) {
            hash.update(next.split(RANK).next().unwrap_or_default());
            hash.update("\n");
        }
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interleaving_is_the_order_of_threads_and_not_their_times() {
        let of = |lines: &[&str]| {
            let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
            interleaving(lines.iter())
        };
        let a = "a-1 [000] d..2. 1.5: sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b next_pid=2 next_prio=120";
        let later = a.replace("1.5", "1.6");
        let other = a.replace("next_pid=2", "next_pid=3");
        assert_eq!(of(&[a]), of(&[&later, "a-1 1.7: sched_process_exit: comm=a"]));
        assert_ne!(of(&[a]), of(&[&other]));
        assert_ne!(of(&[a, &other]), of(&[&other, a]));
    }
}
