//! The machine itself: modules, mounts, clock, random numbers, and its end.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Error};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat, symlink};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};
use rustix::thread::{NanosleepRelativeResult, nanosleep};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

/// Where the subject's root is mounted.
pub(crate) const ROOT: &str = "/root";
/// What the subject changes of it.
pub(crate) const CHANGES: &str = "/changes/upper";
/// Kernel modules, numbered in the order in which they are loaded.
const MODULES: &str = "/modules";
/// What the kernel makes of the machine's pieces of memory. Their order is the emulator's own business.
const MEMORY_DEVICES: [&str; 2] = ["pmem0", "pmem1"];
/// Opened for writing by whoever is about to bring back a hibernated machine; the kernel then takes new random numbers
/// (Linux 5.18 and later, `random_pm_notification` in `drivers/char/random.c`).
const COMES_BACK: &str = "/dev/snapshot";
/// Character devices that every program may expect: name, major, minor.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
/// Names that lead to a process's own descriptors.
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The machine's time since it started.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

pub(crate) fn pause(time: Duration) -> io::Result<()> {
    match nanosleep(&Timespec::try_from(time).map_err(Error::other)?) {
        NanosleepRelativeResult::Ok | NanosleepRelativeResult::Interrupted(_) => Ok(()),
        NanosleepRelativeResult::Err(error) => Err(error.into()),
    }
}

/// Mounts what process 1 needs and loads the modules.
pub(crate) fn start() -> io::Result<()> {
    mount_new("proc", "/proc", "proc", None)?;
    mount_new("sysfs", "/sys", "sysfs", None)?;
    mount_new("devtmpfs", "/dev", "devtmpfs", None)?;
    mount_new("tracefs", "/sys/kernel/tracing", "tracefs", None)?;
    let mut modules: Vec<PathBuf> =
        fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    modules.sort();
    for module in modules {
        finit_module(File::open(&module)?, c"", 0)
            .map_err(|error| Error::other(format!("load {}: {error}", module.display())))?;
    }
    sethostname(b"subject")?;
    Ok(())
}

/// What may be done with a piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The subject's root.
    Read,
    /// The exchange.
    Write,
}

/// The device of the piece of memory with which this may be done.
pub(crate) fn memory_device(access: Access) -> io::Result<String> {
    for name in MEMORY_DEVICES {
        let read_only = fs::read_to_string(format!("/sys/block/{name}/ro"))?;
        if (read_only.trim() == "1") == (access == Access::Read) {
            return Ok(format!("/dev/{name}"));
        }
    }
    Err(Error::other(format!("the machine has no memory to {access:?}")))
}

/// Mounts the subject's root, read-only below and with its changes in memory above.
pub(crate) fn mount_root() -> io::Result<()> {
    let read_only = MountFlags::RDONLY;
    fs::create_dir_all("/lower")?;
    mount(memory_device(Access::Read)?, "/lower", "erofs", read_only, None)?;
    mount_new("changes", "/changes", "tmpfs", None)?;
    fs::create_dir_all(CHANGES)?;
    fs::create_dir_all("/changes/work")?;
    mount_new(
        "root",
        ROOT,
        "overlay",
        Some(c"lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work"),
    )?;
    let inside = |name: &str| format!("{ROOT}/{name}");
    mount_new("proc", &inside("proc"), "proc", None)?;
    mount_new("sysfs", &inside("sys"), "sysfs", None)?;
    mount_new("dev", &inside("dev"), "tmpfs", Some(c"mode=0755"))?;
    for (name, major, minor) in DEVICES {
        let path = inside(&format!("dev/{name}"));
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(major, minor))?;
        // Past the mask.
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o666))?;
    }
    for (name, target) in LINKS {
        symlink(target, inside(&format!("dev/{name}")))?;
    }
    symlink("pts/ptmx", inside("dev/ptmx"))?;
    mount_new("devpts", &inside("dev/pts"), "devpts", Some(c"ptmxmode=0666,mode=0620"))?;
    mount_new("shm", &inside("dev/shm"), "tmpfs", Some(c"mode=1777"))
}

fn mount_new(source: &str, target: &str, kind: &str, data: Option<&CStr>) -> io::Result<()> {
    fs::create_dir_all(target)?;
    mount(source, target, kind, MountFlags::empty(), data)
        .map_err(|error| Error::other(format!("mount {target}: {error}")))
}

/// Makes random numbers those of this machine's processor: after a restore they are the snapshot's until then. It happens
/// at one instruction, with nothing waited for: the kernel would do it by itself a minute later, and each moment of an
/// interrupt in that minute would count.
pub(crate) fn reseed() -> io::Result<()> {
    let comes_back = File::options().write(true).open(COMES_BACK);
    comes_back.map(drop).map_err(|error| Error::other(format!("open {COMES_BACK}: {error}")))
}

pub(crate) fn set_wall_clock(seconds: u64) -> io::Result<()> {
    let time = Timespec { tv_sec: i64::try_from(seconds).map_err(Error::other)?, tv_nsec: 0 };
    Ok(clock_settime(ClockId::Realtime, time)?)
}

pub(crate) fn randomise_addresses(on: bool) -> io::Result<()> {
    fs::write("/proc/sys/kernel/randomize_va_space", if on { "2" } else { "0" })
}

/// Returns only when it fails.
pub(crate) fn turn_off() -> io::Error {
    match reboot(RebootCommand::PowerOff) {
        Ok(()) => Error::other("the machine is still on"),
        Err(error) => error.into(),
    }
}
