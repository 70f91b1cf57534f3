//! Whether one incarnation of a process is alive. "Cannot tell" is an answer of its own and never proof of death.

use crate::offset::BootOffset;
use crate::{HostError, boot_id, pid_namespace, stat_of};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tidegate_core::{BootId, Liveness, Probe, ProcessIdentity};

/// The probe that asks `/proc`.
#[derive(Debug, Clone, Copy)]
pub struct ProcProbe {
    boot: BootId,
    pid_ns: u64,
    /// Start times may be one tick off here.
    blurred: bool,
}

impl ProcProbe {
    /// A probe for the processes of this boot and this pid namespace.
    ///
    /// # Errors
    /// [`HostError`] when `/proc` can't be read.
    pub fn new() -> Result<Self, HostError> {
        let blurred = BootOffset::of_this_process().blurs_ticks();
        Ok(Self { boot: boot_id()?, pid_ns: pid_namespace(std::process::id())?, blurred })
    }
}

impl Probe for ProcProbe {
    fn liveness(&self, process: &ProcessIdentity) -> Liveness {
        if process.boot != self.boot {
            return Liveness::Dead;
        }
        if process.pid_ns != self.pid_ns {
            return Liveness::Unknown;
        }
        match stat_of(process.pid) {
            Ok(stat) if stat.start_ticks.abs_diff(process.start_ticks) == 1 && self.blurred => {
                Liveness::Unknown
            }
            Ok(stat) if stat.start_ticks != process.start_ticks || stat.is_zombie() => Liveness::Dead,
            Ok(_) => Liveness::Alive,
            Err(HostError::Gone { pid }) if is_unknown_to_the_kernel(pid) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }
}

/// A `/proc` mounted with `hidepid` shows no other user's processes; the kernel still knows them.
fn is_unknown_to_the_kernel(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}
