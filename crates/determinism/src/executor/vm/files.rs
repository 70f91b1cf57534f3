//! What the machine is made of: the emulator with its clock, the kernel with its modules, process 1. Each is named when
//! it's missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::initramfs;
use crate::record::Reason;
use crate::subject::sha256_hex;
use crate::verdict::Failure;

/// The emulator of the one architecture that there is a kernel for.
const EMULATOR: &str = "qemu-system-x86_64";
/// What gives the emulator another clock than the host's: libfaketime, for programs with several threads.
const CLOCK: &str = "libfaketimeMT.so.1";
/// Where distributions put it.
const CLOCK_PLACES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime",
    "/usr/lib/faketime",
    "/usr/lib64/faketime",
    "/usr/local/lib/faketime",
];
/// By which the loader is told of it.
pub(super) const PRELOAD: &str = "LD_PRELOAD";
/// Below the cache: what `cargo xtask setup` takes from the kernel's package.
const KERNEL: &str = "kernel/vmlinuz";
const MODULES: &str = "kernel/modules";
/// Below the cache: process 1.
const INIT: &str = "guest/x86_64-unknown-linux-gnu/guest/tidegate-guest";
/// The kernel's modules that a machine needs, in the order in which they depend on one another.
pub const MACHINE_MODULES: [&str; 7] =
    ["libnvdimm.ko", "nfit.ko", "nd_btt.ko", "nd_pmem.ko", "libcrc32c.ko", "erofs.ko", "overlay.ko"];
const HOW: &str = "`cargo xtask setup` brings it";

/// Everything, found.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) emulator: &'static str,
    pub(super) version: String,
    /// A library that is to be loaded before the emulator's own.
    pub(super) clock: PathBuf,
    pub(super) kernel: PathBuf,
    pub(super) initramfs: Vec<u8>,
    /// Digest of all of it: a snapshot serves only the machine that it was taken of.
    pub(super) digest: String,
}

impl Files {
    pub(super) fn find(cache: &Path) -> Result<Self, Failure> {
        if !cfg!(target_arch = "x86_64") {
            return Err(missing("a machine of this architecture", "the executor `vm` runs on x86_64 alone"));
        }
        let clock = CLOCK_PLACES.iter().map(|place| Path::new(place).join(CLOCK)).find(|path| path.is_file());
        let clock =
            clock.ok_or_else(|| missing(CLOCK, &format!("{HOW}, or install Debian's package faketime")))?;
        let version = version(&clock)?;
        let read = |path: &Path| {
            fs::read(path).map_err(|error| missing(&path.display().to_string(), &format!("{HOW} ({error})")))
        };
        let kernel = cache.join(KERNEL);
        let image = read(&kernel)?;
        let modules = MACHINE_MODULES
            .iter()
            .map(|name| Ok(((*name).to_owned(), read(&cache.join(MODULES).join(name))?)))
            .collect::<Result<Vec<_>, Failure>>()?;
        let initramfs = initramfs::build(&read(&cache.join(INIT))?, &modules);
        let parts = [sha256_hex(version.as_bytes()), sha256_hex(&image), sha256_hex(&initramfs)];
        Ok(Self {
            emulator: EMULATOR,
            version,
            clock,
            kernel,
            initramfs,
            digest: sha256_hex(parts.join("\n").as_bytes()),
        })
    }
}

/// What the emulator says that it is, when it is started as a machine starts it.
fn version(clock: &Path) -> Result<String, Failure> {
    let asked = Command::new(EMULATOR).arg("--version").env(PRELOAD, clock).stdin(Stdio::null()).output();
    let answer = asked
        .ok()
        .filter(|output| output.status.success())
        .ok_or_else(|| missing(EMULATOR, &format!("{HOW}, or install Debian's package qemu-system-x86")))?;
    // The loader goes on without a library that it can't load, and says so.
    let complaint = String::from_utf8_lossy(&answer.stderr);
    if complaint.contains(PRELOAD) {
        return Err(missing("an emulator with a clock of its own", complaint.trim()));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

fn missing(what: &str, how: &str) -> Failure {
    Failure { reason: Reason::ExecutorUnavailable, detail: format!("the executor `vm` needs {what}: {how}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_way_to_get_it() {
        let nowhere = tempfile::tempdir().unwrap();
        let failure = Files::find(nowhere.path()).unwrap_err();
        assert_eq!(failure.reason, Reason::ExecutorUnavailable);
        assert!(failure.detail.contains("cargo xtask setup"), "{}", failure.detail);
    }

    #[test]
    fn an_emulator_that_does_not_get_its_clock_is_not_used() {
        let nowhere = tempfile::tempdir().unwrap();
        let failure = version(&nowhere.path().join(CLOCK)).unwrap_err();
        assert_eq!(failure.reason, Reason::ExecutorUnavailable);
        assert!(failure.detail.contains(CLOCK), "{}", failure.detail);
    }
}
