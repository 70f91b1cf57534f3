//! The executor `sandbox`: each task in namespaces of its own, with a fixed environment, on one processor, without
//! randomised addresses. All by util-linux, so that anybody can type the same.
//!
//! It cannot control time, randomness or when a thread is interrupted, and says so. Must never claim a pin that the
//! kernel was not seen to grant: [`Sandbox::find`] tries it first.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use super::native::Native;
use super::{Executor, Job, Levers, Part, Program, Run};
use crate::clock::Progress;
use crate::factor::Factor;
use crate::verdict::Failure;

/// The environment of every task, beside the seed, the mark and what a lever adds.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];
/// The first process of the namespace: it starts others before the task where a lever asks for it, and isn't the task
/// itself, which would have to reap and would be deaf to signals.
const INIT: &str =
    r#"n=$1; shift; while [ "$n" -gt 0 ]; do /bin/true & wait; n=$((n - 1)); done; "$@"; exit $?"#;

/// Namespaces for each task.
#[derive(Debug)]
pub(crate) struct Sandbox<'a> {
    native: Native<'a>,
    processor: String,
    /// Where a bare name is looked up: the search path of this process, before the environment is fixed.
    search_path: Option<OsString>,
}

impl<'a> Sandbox<'a> {
    /// The sandbox, or what is missing and how to get it.
    pub(crate) fn find(native: Native<'a>) -> Result<Self, String> {
        let processor = first_processor().ok_or("the processors that may be used can't be read")?;
        let sandbox = Self { native, processor, search_path: std::env::var_os("PATH") };
        let mut trial = sandbox.wrapped(&Levers::default());
        let output = trial.arg("/bin/true").stdin(Stdio::null()).output();
        match output {
            Ok(output) if output.status.success() => Ok(sandbox),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!(
                    "the kernel grants no namespaces here: {}",
                    said.lines().next().unwrap_or("no word")
                ))
            }
            Err(error) => {
                Err(format!("taskset, setarch and unshare are needed: apt-get install util-linux ({error})"))
            }
        }
    }

    /// Everything before the words of the task.
    fn wrapped(&self, levers: &Levers) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.processor]);
        if levers.aslr != Some(true) {
            command.args(["setarch", "--addr-no-randomize"]);
        }
        command.arg("unshare");
        if !geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["--ipc", "--uts", "--net", "--", "/bin/sh", "-c", INIT, "init"]);
        command.arg(levers.pid_offset.to_string());
        command.env_clear().envs(ENVIRONMENT);
        command
    }
}

impl Executor for Sandbox<'_> {
    fn name(&self) -> &'static str {
        "sandbox"
    }

    fn pins(&self) -> Vec<String> {
        [
            "process numbers, by a namespace of its own",
            "addresses, by personality",
            "the environment, to four variables and the seed",
            "one processor, by affinity",
            "no network, by a namespace without one",
            "host name and System V objects, by namespaces",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn not_pinned(&self) -> Vec<String> {
        NOT_PINNED.map(str::to_owned).to_vec()
    }

    fn levers(&self) -> &'static [Factor] {
        &LEVERS
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Boot]
    }

    fn run(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) -> Result<Run, Failure> {
        self.native.run_with(job, progress, |task| {
            let mut command = self.wrapped(job.levers);
            if let (Some(root), Program::Subject(_)) = (self.native.root, task.program) {
                command.envs(&root.config.env);
            }
            command.args(self.native.words(task, self.search_path.as_deref()));
            command
        })
    }
}

/// What it can't hold still, for the record.
const NOT_PINNED: [&str; 3] = [
    "time: the clock is the machine's",
    "randomness: the kernel's is its own",
    "scheduling: when a thread is interrupted depends on everything else that runs",
];

/// The levers that it has.
const LEVERS: [Factor; 3] = [Factor::AddressLayout, Factor::Environment, Factor::PidOffset];

/// The lowest processor that this process may use.
fn first_processor() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let first: String = list.trim().chars().take_while(char::is_ascii_digit).collect();
    (!first.is_empty()).then_some(first)
}
