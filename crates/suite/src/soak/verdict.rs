//! What a soak has shown: the truth of the ledgers beside what the sessions were told.

use super::Probe;
use super::load::{Told, What};
use super::weather::Passed;
use crate::harness::FaultServer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What has to be true of it.
#[derive(Debug, Clone, Copy)]
pub struct Goals {
    /// The most memory of the daemon, in KiB.
    pub daemon_kib: u64,
    /// The most memory of a shim, in KiB.
    pub shim_kib: u64,
    /// How often as much memory the daemon may have at most in the second half as in the first.
    pub growth: f64,
    /// How often as long a call may take at the untouched component, at the 99th percentile.
    pub p99_ratio: f64,
}

impl Goals {
    /// Those of a release, with the machine to itself.
    pub const RELEASE: Self = Self { daemon_kib: 60 << 10, shim_kib: 6 << 10, growth: 1.5, p99_ratio: 1.5 };
    /// Among other tests times say nothing, and half of half a minute is few samples; everything else is the same.
    pub const AMONG_TESTS: Self = Self { p99_ratio: f64::INFINITY, growth: 3.0, ..Self::RELEASE };
}

/// The numbers of a soak.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Calls that may change something, and were answered one way or the other.
    pub calls: usize,
    /// Executed twice.
    pub doubled: Vec<String>,
    /// Answered as done, and never executed.
    pub lost: Vec<String>,
    /// Told to be not executed, and executed.
    pub misled: Vec<String>,
    /// Never answered.
    pub hung: usize,
    /// Of unknown outcome, and told so.
    pub unknown: usize,
    /// Not executed, and told so, by the kind of refusal.
    pub refused: BTreeMap<String, usize>,
    /// Servers that were killed.
    pub server_kills: u32,
    /// Daemons that were killed.
    pub daemon_kills: u32,
    /// Governed restarts by how they ended.
    pub restarts: BTreeMap<String, u32>,
    /// Memory of the daemon in the course of time, in KiB.
    pub daemon_kib: Vec<u64>,
    /// The most that a shim had, in KiB.
    pub shim_kib: u64,
    /// The 99th percentile at the untouched component in calm quarters, in microseconds.
    pub calm_p99_us: u64,
    /// The same in stormy ones, without the moments in which there was no daemon.
    pub stormy_p99_us: u64,
    /// From the last answer of one generation to the first of the next, the server's own start included, in microseconds:
    /// the median.
    pub gap_p50_us: u64,
}

impl Outcome {
    pub(super) fn of(
        told: &[Told],
        hung: usize,
        servers: &[FaultServer],
        passed: &Passed,
        still: &[Probe],
        gaps: &[Probe],
    ) -> Self {
        let mut executed: BTreeMap<String, usize> = BTreeMap::new();
        for text in servers.iter().flat_map(FaultServer::executed) {
            *executed.entry(text).or_default() += 1;
        }
        let times = |text: &String| executed.get(text).copied().unwrap_or(0);
        let (mut lost, mut misled, mut unknown, mut refused) = (Vec::new(), Vec::new(), 0, BTreeMap::new());
        for Told { text, what } in told {
            match what {
                What::Done if times(text) == 0 => lost.push(text.clone()),
                What::Done => {}
                What::Unknown => unknown += 1,
                What::NotDone(kind) => {
                    *refused.entry(kind.clone()).or_default() += 1;
                    misled.extend((times(text) > 0).then(|| text.clone()));
                }
            }
        }
        let in_any = |ranges: &[std::ops::Range<Duration>], probe: &Probe| {
            ranges.iter().any(|range| probe.began < range.end && probe.began + probe.took > range.start)
        };
        let (stormy, calm): (Vec<&Probe>, Vec<&Probe>) = still
            .iter()
            .filter(|probe| !in_any(&passed.outages, probe))
            .partition(|probe| in_any(&passed.storms, probe));
        let took = |probes: &[&Probe]| percentile(probes.iter().map(|probe| probe.took).collect(), 99);
        let handed_over = |pair: &[Probe]| {
            let (last, first) = (pair[0], pair[1]);
            let gap = (first.began + first.took).saturating_sub(last.began + last.took);
            (last.start > 0 && first.start == last.start + 1 && !in_any(&passed.outages, &first))
                .then_some(gap)
        };
        Self {
            calls: told.len(),
            doubled: executed.into_iter().filter(|(_, times)| *times > 1).map(|(text, _)| text).collect(),
            lost,
            misled,
            hung,
            unknown,
            refused,
            server_kills: passed.server_kills,
            daemon_kills: passed.daemon_kills,
            restarts: passed.restarts.clone(),
            daemon_kib: passed.daemon_kib.clone(),
            shim_kib: passed.shim_kib,
            calm_p99_us: took(&calm),
            stormy_p99_us: took(&stormy),
            gap_p50_us: percentile(gaps.windows(2).filter_map(handed_over).collect(), 50),
        }
    }

    /// What isn't as it should be, in sentences; nothing when all is well.
    #[must_use]
    pub fn faults(&self, goals: &Goals) -> Vec<String> {
        let mut faults = Vec::new();
        for (what, calls) in [("doubled", &self.doubled), ("lost", &self.lost), ("misled", &self.misled)] {
            if !calls.is_empty() {
                faults.push(format!("{} calls {what}: {calls:?}", calls.len()));
            }
        }
        if self.hung > 0 {
            faults.push(format!("{} calls were never answered", self.hung));
        }
        let (before, after) = halves(&self.daemon_kib);
        let most = before.max(after);
        if most > goals.daemon_kib {
            faults.push(format!("the daemon had {most} KiB, more than {}", goals.daemon_kib));
        }
        if after as f64 > before as f64 * goals.growth {
            faults.push(format!("the daemon grew from {before} to {after} KiB: {:?}", self.daemon_kib));
        }
        if self.shim_kib > goals.shim_kib {
            faults.push(format!("a shim had {} KiB, more than {}", self.shim_kib, goals.shim_kib));
        }
        let ratio = self.stormy_p99_us as f64 / self.calm_p99_us.max(1) as f64;
        if ratio > goals.p99_ratio {
            faults.push(format!(
                "p99 at the untouched component was {ratio:.2} times as long in the storm: {} and {} µs",
                self.stormy_p99_us, self.calm_p99_us
            ));
        }
        faults
    }
}

/// The most of each half, the middle in both. Not sample by sample: a daemon that was killed begins again with little, and
/// has the most while it reads what there is.
fn halves(kib: &[u64]) -> (u64, u64) {
    let most = |kib: &[u64]| kib.iter().copied().max().unwrap_or(0);
    (most(&kib[..kib.len().div_ceil(2)]), most(&kib[kib.len() / 2..]))
}

/// A percentile, in microseconds; 0 of nothing.
fn percentile(mut times: Vec<Duration>, percent: usize) -> u64 {
    times.sort();
    let at = times.len() * percent / 100;
    times.get(at).map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_an_element() {
        let times = |n: u64| (1..=n).map(Duration::from_micros).collect::<Vec<_>>();
        assert_eq!(percentile(times(100), 99), 100);
        assert_eq!(percentile(times(1), 50), 1);
        assert_eq!(percentile(Vec::new(), 99), 0);
    }

    #[test]
    fn what_grows_is_told_from_what_begins_again() {
        assert_eq!(halves(&[11, 16, 5, 15, 6, 16, 7]), (16, 16));
        assert_eq!(halves(&[5, 9, 13, 17, 21, 25]), (13, 25));
        assert_eq!(halves(&[7]), (7, 7));
        assert_eq!(halves(&[]), (0, 0));
    }
}
