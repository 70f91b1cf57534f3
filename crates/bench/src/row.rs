//! A row: two things measured in turns, and what their ratio has to be. Judges; measures nothing.

use crate::stopwatch::median;
use serde::Serialize;

/// What a row is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
}

/// What the ratio, ours to theirs, has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// Shown because it explains another row.
    None,
}

/// Both sides of one round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Round {
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
}

/// What came of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Reached,
    Missed,
    /// It has no goal.
    Shown,
    NotRun,
}

/// A row as it is reported.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) unit: &'static str,
    /// `<= 1.15` and the like.
    pub(crate) goal: Option<String>,
    pub(crate) verdict: Verdict,
    pub(crate) ours_median: Option<f64>,
    pub(crate) theirs_median: Option<f64>,
    pub(crate) ratio: Option<Spread>,
    pub(crate) rounds: Vec<Round>,
    /// Why it wasn't run.
    pub(crate) reason: Option<String>,
}

/// The ratios of all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Row {
    pub(crate) fn of(subject: Subject, measured: anyhow::Result<Vec<Round>>) -> Self {
        let (rounds, reason) = match measured {
            Ok(rounds) => (rounds, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let ratio = Spread::of(&rounds);
        let side = |side: fn(&Round) -> f64| {
            (!rounds.is_empty()).then(|| median(&rounds.iter().map(side).collect::<Vec<_>>()))
        };
        Self {
            name: subject.name,
            ours: subject.ours,
            theirs: subject.theirs,
            unit: subject.unit,
            goal: subject.goal.text(),
            verdict: ratio.map_or(Verdict::NotRun, |ratio| subject.goal.judge(ratio.median)),
            ours_median: side(|round| round.ours),
            theirs_median: side(|round| round.theirs),
            ratio,
            rounds,
            reason,
        }
    }
}

impl Spread {
    fn of(rounds: &[Round]) -> Option<Self> {
        let ratios: Vec<f64> = rounds.iter().map(|round| round.ours / round.theirs).collect();
        (!ratios.is_empty()).then(|| Self {
            median: median(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            most: ratios.iter().copied().fold(0.0, f64::max),
        })
    }
}

impl Goal {
    fn judge(self, ratio: f64) -> Verdict {
        match self {
            Self::AtMost(bound) if ratio <= bound => Verdict::Reached,
            Self::AtLeast(bound) if ratio >= bound => Verdict::Reached,
            Self::None => Verdict::Shown,
            Self::AtMost(_) | Self::AtLeast(_) => Verdict::Missed,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            Self::AtMost(bound) => Some(format!("<= {bound}")),
            Self::AtLeast(bound) => Some(format!(">= {bound}")),
            Self::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(goal: Goal, rounds: &[(f64, f64)], expected: Verdict) {
        let subject = Subject { name: "n", ours: "o", theirs: "t", unit: "us", goal };
        let rounds = rounds.iter().map(|&(ours, theirs)| Round { ours, theirs }).collect();
        assert_eq!(Row::of(subject, Ok(rounds)).verdict, expected);
    }

    #[test]
    fn the_median_of_the_ratios_decides() {
        check(Goal::AtMost(1.0), &[(1.0, 1.0)], Verdict::Reached);
        check(Goal::AtMost(1.0), &[(1.0, 2.0), (9.0, 1.0), (1.0, 1.5)], Verdict::Reached);
        check(Goal::AtMost(1.0), &[(1.1, 1.0)], Verdict::Missed);
        check(Goal::AtLeast(10.0), &[(30.0, 3.0)], Verdict::Reached);
        check(Goal::AtLeast(10.0), &[(29.0, 3.0)], Verdict::Missed);
        check(Goal::None, &[(1.0, 1.0)], Verdict::Shown);
    }

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        check(Goal::AtMost(1.0), &[], Verdict::NotRun);
        let subject = Subject { name: "n", ours: "o", theirs: "t", unit: "us", goal: Goal::AtMost(1.0) };
        let row = Row::of(subject, Err(anyhow::anyhow!("no etcd")));
        assert_eq!((row.verdict, row.reason.as_deref()), (Verdict::NotRun, Some("no etcd")));
    }

    #[test]
    fn the_spread_is_that_of_the_ratios_and_not_of_either_side() {
        let rounds = [Round { ours: 1.0, theirs: 1.0 }, Round { ours: 30.0, theirs: 10.0 }];
        assert_eq!(Spread::of(&rounds), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
    }
}
