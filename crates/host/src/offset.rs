//! How far this process's time namespace sets its boot-time clock off. Everything this crate says counts from the real
//! boot, so that processes of one machine agree on the time and on each other's start, whatever container they run in.

use std::fs;
use std::sync::OnceLock;

const OFFSETS: &str = "/proc/self/timens_offsets";

/// `USER_HZ`, in which `/proc` counts start times: 100 wherever Rust's Linux targets run.
const TICKS_PER_SECOND: i128 = 100;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_TICK: i128 = NANOS_PER_SECOND / TICKS_PER_SECOND;

/// Nanoseconds that this process's boot-time clock is ahead of the machine's. Read once: a process with threads can't
/// change its time namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BootOffset(i128);

impl BootOffset {
    pub(crate) fn of_this_process() -> Self {
        static OFFSET: OnceLock<BootOffset> = OnceLock::new();
        // A kernel without time namespaces has no such file, and nothing to set off.
        *OFFSET.get_or_init(|| Self::parse(&fs::read_to_string(OFFSETS).unwrap_or_default()))
    }

    /// Lines of `CLOCK SECONDS NANOSECONDS`; the nanoseconds always count forward.
    fn parse(text: &str) -> Self {
        let nanos = text.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            if words.next() != Some("boottime") {
                return None;
            }
            let seconds: i128 = words.next()?.parse().ok()?;
            let nanos: i128 = words.next()?.parse().ok()?;
            Some(seconds * NANOS_PER_SECOND + nanos)
        });
        Self(nanos.unwrap_or(0))
    }

    /// The machine's boot-time clock, in milliseconds, when this process's says `seconds` and `nanos`.
    pub(crate) fn real_millis(self, seconds: i64, nanos: i64) -> u64 {
        let real = i128::from(seconds) * NANOS_PER_SECOND + i128::from(nanos) - self.0;
        u64::try_from(real / 1_000_000).unwrap_or(0)
    }

    /// The machine's tick for one that `/proc` showed this process.
    pub(crate) fn real_ticks(self, shown: u64) -> u64 {
        u64::try_from(i128::from(shown) - self.0.div_euclid(NANOS_PER_TICK)).unwrap_or(0)
    }

    /// Whether such a tick may be one off, because the offset isn't a whole number of them.
    pub(crate) fn blurs_ticks(self) -> bool {
        self.0.rem_euclid(NANOS_PER_TICK) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_taken_back_from_times_and_ticks() {
        for (text, shown, real) in [
            ("", (1_005, 500_000_000), (1_005_500, 100_550)),
            ("monotonic 7 0\nboottime 0 0\n", (1_005, 500_000_000), (1_005_500, 100_550)),
            ("monotonic           0         0\nboottime         1000         0\n", (1_005, 0), (5_000, 500)),
            ("boottime -1000 0", (5, 0), (1_005_000, 100_500)),
            ("boottime -1 500000000", (5, 0), (5_500, 550)),
            ("nonsense", (5, 0), (5_000, 500)),
        ] {
            let offset = BootOffset::parse(text);
            let ticks = (shown.0 * 100 + shown.1 / 10_000_000) as u64;
            assert_eq!((offset.real_millis(shown.0, shown.1), offset.real_ticks(ticks)), real, "{text:?}");
            assert!(!offset.blurs_ticks(), "{text:?}");
        }
        assert!(BootOffset::parse("boottime 0 1").blurs_ticks());
    }
}
