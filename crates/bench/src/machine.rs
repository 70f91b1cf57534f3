//! What was measured on: a number without its machine says nothing.

use crate::rivals::{Etcd, sqlite_version};
use serde::Serialize;
use std::fs;
use std::path::Path;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) kernel: String,
    /// Of the directory that the durable rows write to.
    pub(crate) file_system: String,
    /// How many ran or waited for a processor in the last minute before the run, as the kernel counts.
    pub(crate) load: Option<f64>,
    pub(crate) etcd: Option<String>,
    pub(crate) sqlite: Option<String>,
    /// Whether the compiler optimised: figures of an unoptimised build say nothing.
    pub(crate) optimised: bool,
}

impl Machine {
    pub(crate) fn here(dir: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| {
                Some(line.strip_prefix("model name")?.trim_start_matches([' ', '\t', ':']).to_owned())
            })
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        Self {
            processor,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            file_system: file_system(&read("/proc/self/mounts"), dir),
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
            etcd: Etcd::version(),
            sqlite: sqlite_version(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

/// The type of the file system that `dir` is on: that of the longest mount point above it.
fn file_system(mounts: &str, dir: &Path) -> String {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(at, _)| dir.starts_with(at))
        .max_by_key(|(at, _)| at.len())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nproc /proc proc rw 0 0\n";
        for (dir, expected) in [("/tmp/x", "tmpfs"), ("/home", "ext4"), ("/tmpx", "ext4")] {
            assert_eq!(file_system(mounts, Path::new(dir)), expected);
        }
        assert_eq!(file_system("", Path::new("/")), "unknown");
    }
}
