//! How much memory processes have: their proportional share, so that what many shims share counts once.

/// The proportional set size of a process, in KiB; `None` when it is gone.
pub(super) fn kib(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
