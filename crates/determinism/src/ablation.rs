//! The matrix of factors and records: which factor, changed alone, makes which records differ. And what that confirms.
//!
//! Pure. A cause is confirmed only where everything pinned gave the same record each time, and changing one of the
//! cause's own factors gave another one. Must never call a cause confirmed by the shape of a difference.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::compare::Trace;
use crate::factor::Factor;
use crate::record::{Cause, Confidence, Divergence};

/// Rows of the matrix that are kept: more than a page shows, and few enough that a record stays readable.
pub(crate) const MAX_LINES: usize = 400;
/// Entries of the table that aligns two streams: 16 MiB.
const MAX_TABLE: usize = 4 << 20;
/// Characters of a record that are kept in its row: as many as a divergence shows, with which it is compared.
const MAX_TEXT: usize = 400;

/// Which factor makes which records differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// The executor whose levers were moved.
    pub executor: String,
    /// `boot` or `restored`.
    pub part: String,
    /// Runs with everything pinned: at least one before the factors were moved and one after.
    pub pinned_runs: u32,
    /// Those of them that gave what the first one gave, not counting itself.
    pub pinned_equal: u32,
    /// The factors, in the order of the columns.
    pub factors: Vec<Moved>,
    /// The records that differed for at least one factor.
    pub lines: Vec<Line>,
    /// Records that differed and have no row, because there are too many.
    pub lines_left_out: usize,
    /// Records that differed for no factor.
    pub lines_steady: usize,
}

/// One factor, changed while everything else was pinned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Which.
    pub factor: Factor,
    /// From what to what; why it wasn't moved, where `runs` is zero.
    pub change: String,
    /// Runs with the change.
    pub runs: u32,
    /// Records that differed from those of the pinned run.
    pub differing: usize,
}

/// One record that differed for at least one factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its stream.
    pub stream: String,
    /// Its place in the stream, counted from zero.
    pub index: usize,
    /// What stood there with everything pinned; `null` behind the end of the stream, where more records came.
    pub text: Option<String>,
    /// Whether it was the same each time that everything was pinned.
    pub steady: bool,
    /// The factors that made it differ.
    pub factors: Vec<Factor>,
}

/// What was run for a matrix.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) executor: &'static str,
    pub(crate) part: &'static str,
    /// With everything pinned; the first one is compared with all others.
    pub(crate) pinned: Vec<Trace>,
    /// With one factor changed, once or several times; a factor that can't be moved has a reason instead of a run.
    pub(crate) moved: Vec<(Factor, String, Vec<Trace>)>,
}

/// The matrix; `None` without a pinned run to compare with.
pub(crate) fn matrix(runs: &Runs) -> Option<Ablation> {
    let (reference, again) = runs.pinned.split_first()?;
    let mut unsteady = BTreeSet::new();
    for other in again {
        unsteady.extend(differing_places(reference, other));
    }
    let mut cells: BTreeMap<Place, Vec<Factor>> = BTreeMap::new();
    let mut factors = Vec::new();
    for (factor, change, traces) in &runs.moved {
        let places = moved_places(reference, &unsteady, traces);
        let (differing, change) = (places.len(), change.clone());
        places.into_iter().for_each(|place| cells.entry(place).or_default().push(*factor));
        factors.push(Moved { factor: *factor, change, runs: count(traces, |_| true), differing });
    }
    let lines_left_out = cells.len().saturating_sub(MAX_LINES);
    let lines_steady = reference.records().saturating_sub(cells.len());
    let lines = cells.into_iter().take(MAX_LINES).map(|((stream, index), factors)| Line {
        text: reference.events(&stream).get(index).map(|event| shown(event)),
        steady: !unsteady.contains(&(stream.clone(), index)),
        stream,
        index,
        factors,
    });
    Some(Ablation {
        executor: runs.executor.to_owned(),
        part: runs.part.to_owned(),
        pinned_runs: u32::try_from(runs.pinned.len()).unwrap_or(u32::MAX),
        pinned_equal: count(again, |trace| trace.fingerprint() == reference.fingerprint()),
        factors,
        lines: lines.collect(),
        lines_left_out,
        lines_steady,
    })
}

type Place = (String, usize);

/// The places that a change has moved: each run with the change differs there from what was pinned. Where pinning didn't
/// settle a place, the runs with the change have to agree on it as well: otherwise it is free, and no factor's.
fn moved_places(reference: &Trace, unsteady: &BTreeSet<Place>, changed: &[Trace]) -> BTreeSet<Place> {
    let Some((first, again)) = changed.split_first() else { return BTreeSet::new() };
    let mut places = differing_places(reference, first);
    for other in again {
        let (moved, free) = (differing_places(reference, other), differing_places(first, other));
        places.retain(|place| moved.contains(place) && !(unsteady.contains(place) && free.contains(place)));
    }
    places
}

fn differing_places(left: &Trace, right: &Trace) -> BTreeSet<Place> {
    let in_stream = |stream: String| {
        let places = differing(left.events(&stream), right.events(&stream));
        places.into_iter().map(move |index| (stream.clone(), index))
    };
    left.differences(right).into_iter().flat_map(|difference| in_stream(difference.stream)).collect()
}

/// The places where two streams differ. Where one has more records than the other they are aligned first: after an
/// insertion every pair would differ. What was inserted touches no record of the reference, and is noted at its end.
fn differing(left: &[Vec<u8>], right: &[Vec<u8>]) -> Vec<usize> {
    if left.len() == right.len() {
        return (0..left.len()).filter(|index| left[*index] != right[*index]).collect();
    }
    let head = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left_rest, right_rest) = (&left[head..], &right[head..]);
    let tail = left_rest.iter().rev().zip(right_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle, other) = (&left_rest[..left_rest.len() - tail], &right_rest[..right_rest.len() - tail]);
    let mut places: Vec<usize> = unmatched(middle, other).into_iter().map(|index| head + index).collect();
    if left.len() < right.len() {
        places.push(left.len());
    }
    places
}

/// The records of the left list that a longest common subsequence with the right one leaves out. Lists whose table
/// would be too large are taken as having nothing in common.
fn unmatched(left: &[Vec<u8>], right: &[Vec<u8>]) -> Vec<usize> {
    let width = right.len() + 1;
    if width.saturating_mul(left.len() + 1) > MAX_TABLE {
        return (0..left.len()).collect();
    }
    // The length of the longest common subsequence of what follows, for each pair of places.
    let mut table = vec![0_u32; width * (left.len() + 1)];
    for (i, record) in left.iter().enumerate().rev() {
        for (j, other) in right.iter().enumerate().rev() {
            table[i * width + j] = if record == other {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut alone = Vec::new();
    while i < left.len() {
        if j < right.len() && left[i] == right[j] {
            (i, j) = (i + 1, j + 1);
        } else if j < right.len() && table[i * width + j + 1] > table[(i + 1) * width + j] {
            j += 1;
        } else {
            alone.push(i);
            i += 1;
        }
    }
    alone
}

fn count(traces: &[Trace], is: impl Fn(&Trace) -> bool) -> u32 {
    u32::try_from(traces.iter().filter(|trace| is(trace)).count()).unwrap_or(u32::MAX)
}

fn shown(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut short: String = text.chars().take(MAX_TEXT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Marks the divergences whose causes the matrix confirms, and lists every cause that it found for those that had none.
/// True when at least one is confirmed.
pub(crate) fn confirm(divergences: &mut Vec<Divergence>, ablation: &Ablation) -> bool {
    let known: Vec<Divergence> = std::mem::take(divergences);
    for divergence in known {
        let found = line_of(&divergence, ablation).map(|line| confirmed(&divergence, line));
        for divergence in found.unwrap_or_else(|| vec![divergence]) {
            let place = |other: &Divergence| {
                (other.condition.clone(), other.stream.clone(), other.index, other.cause)
            };
            if divergences.iter().all(|known| place(known) != place(&divergence)) {
                divergences.push(divergence);
            }
        }
    }
    divergences.iter().any(|divergence| divergence.confidence == Confidence::Confirmed)
}

/// The row of a divergence: the same place, the same number of words, and steady as long as everything is pinned.
fn line_of<'a>(divergence: &Divergence, ablation: &'a Ablation) -> Option<&'a Line> {
    let words = |text: &str| text.split_whitespace().count();
    let expected = divergence.context.expected.as_deref()?;
    ablation.lines.iter().find(|line| {
        line.steady
            && (line.stream.as_str(), line.index) == (divergence.stream.as_str(), divergence.index)
            && line.text.as_deref().is_some_and(|text| words(text) == words(expected))
    })
}

fn confirmed(divergence: &Divergence, line: &Line) -> Vec<Divergence> {
    let levers: Vec<String> = line.factors.iter().map(|factor| factor.name().to_owned()).collect();
    let as_confirmed = |cause| Divergence {
        cause,
        confidence: Confidence::Confirmed,
        levers: levers.clone(),
        ..divergence.clone()
    };
    if divergence.cause == Cause::Unclassified {
        // Its shape says nothing, so that what moves it is all that is known: each of it is a cause.
        let mut causes: Vec<Cause> = line.factors.iter().filter_map(|factor| factor.cause()).collect();
        causes.sort();
        causes.dedup();
        let listed: Vec<Divergence> = causes.into_iter().map(as_confirmed).collect();
        return if listed.is_empty() { vec![Divergence { levers, ..divergence.clone() }] } else { listed };
    }
    let its_own = Factor::of(divergence.cause).iter().any(|factor| line.factors.contains(factor));
    vec![if its_own { as_confirmed(divergence.cause) } else { Divergence { levers, ..divergence.clone() } }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Context;
    use crate::stream::Streams;

    fn trace(stdout: &[&str]) -> Trace {
        let events = stdout.iter().map(|event| event.as_bytes().to_vec()).collect();
        Trace::new(1, Streams::from([("stdout".to_owned(), events)]))
    }

    const PINNED: [&str; 3] = ["at 12:00:00", "id 00ff", "pid 7"];

    fn ablation(again: &[&str], moved: &[(Factor, &[&str])]) -> Ablation {
        let moved = moved.iter().map(|(factor, stdout)| (*factor, "a → b".to_owned(), vec![trace(stdout)]));
        let pinned = vec![trace(&PINNED), trace(again)];
        matrix(&Runs { executor: "vm", part: "boot", pinned, moved: moved.collect() }).unwrap()
    }

    #[test]
    fn each_row_lists_the_factors_that_move_it_and_a_steady_record_has_none() {
        let ablation = ablation(
            &PINNED,
            &[
                (Factor::Seed, &["at 12:00:00", "id 1234", "pid 7"]),
                (Factor::RtcBase, &["at 13:00:00", "id 00ff", "pid 7"]),
                (Factor::IcountShift, &["at 12:00:01", "id 5678", "pid 7"]),
            ],
        );
        let rows: Vec<_> = ablation.lines.iter().map(|line| (line.index, line.factors.clone())).collect();
        assert_eq!(
            rows,
            [(0, vec![Factor::RtcBase, Factor::IcountShift]), (1, vec![Factor::Seed, Factor::IcountShift])]
        );
        assert_eq!((ablation.pinned_runs, ablation.pinned_equal, ablation.lines_steady), (2, 1, 1));
        let counts: Vec<usize> = ablation.factors.iter().map(|moved| moved.differing).collect();
        assert_eq!(counts, [1, 1, 2]);
    }

    #[test]
    fn a_factor_that_cannot_be_moved_says_why_and_differs_nowhere() {
        let moved = vec![(Factor::FileOrder, "names are always sorted".to_owned(), Vec::new())];
        let runs = Runs { executor: "vm", part: "boot", pinned: vec![trace(&PINNED)], moved };
        let ablation = matrix(&runs).unwrap();
        assert_eq!((ablation.factors[0].runs, ablation.factors[0].differing), (0, 0));
        assert_eq!(matrix(&Runs { pinned: Vec::new(), ..runs }), None);
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_factors() {
        let free = ["at 12:00:00", "id 9999", "pid 7"];
        let moved = [["at 13:00:00", "id 1234", "pid 7"], ["at 14:00:00", "id 5678", "pid 7"]];
        let rows = |pinned: &[[&str; 3]]| {
            let moved = vec![(Factor::RtcBase, "a → b".to_owned(), moved.map(|run| trace(&run)).to_vec())];
            let pinned = pinned.iter().map(|run| trace(run)).collect();
            let ablation = matrix(&Runs { executor: "sandbox", part: "boot", pinned, moved }).unwrap();
            assert_eq!(ablation.factors[0].runs, 2);
            ablation.lines.iter().map(|line| line.index).collect::<Vec<_>>()
        };
        assert_eq!(rows(&[PINNED, PINNED]), [0, 1], "pinning settles both, and the change unsettles them");
        assert_eq!(rows(&[PINNED, free]), [0], "the id is free with everything pinned");
    }

    #[test]
    fn what_a_change_moved_only_once_is_no_factors() {
        let moved = [["at 13:00:00", "id 00ff", "pid 7"], PINNED];
        let moved = vec![(Factor::RtcBase, "a → b".to_owned(), moved.map(|run| trace(&run)).to_vec())];
        let runs = Runs { executor: "sandbox", part: "boot", pinned: vec![trace(&PINNED)], moved };
        assert_eq!(matrix(&runs).unwrap().lines, []);
    }

    fn check_places(left: &[&str], right: &[&str], expected: &[usize]) {
        let events = |texts: &[&str]| -> Vec<Vec<u8>> { texts.iter().map(|text| (*text).into()).collect() };
        assert_eq!(differing(&events(left), &events(right)), expected, "{left:?} {right:?}");
    }

    #[test]
    fn an_insertion_is_one_place_and_not_everything_behind_it() {
        check_places(&["a", "b", "c"], &["a", "x", "c"], &[1]);
        check_places(&["a", "b", "c"], &["a", "x", "b", "c"], &[3]);
        check_places(&["clock 1", "b", "c"], &["clock 2", "b", "x", "c"], &[0, 3]);
        check_places(&["clock 1", "b", "x", "c"], &["clock 2", "b", "c"], &[0, 2]);
        check_places(&["a", "b", "c"], &["a", "c"], &[1]);
        check_places(&["a", "b", "c"], &["a", "b", "c", "d"], &[3]);
        check_places(&["a", "b", "c"], &[], &[0, 1, 2]);
        check_places(&["a", "a"], &["a", "a", "a"], &[2]);
    }

    fn divergence(index: usize, expected: &str, cause: Cause) -> Divergence {
        Divergence {
            condition: "idle".to_owned(),
            run: 1,
            stream: "stdout".to_owned(),
            index,
            context: Context { before: Vec::new(), expected: Some(expected.to_owned()), observed: None },
            cause,
            confidence: Confidence::Probable,
            levers: Vec::new(),
        }
    }

    fn check(divergence: Divergence, again: &[&str], expected: &[(Cause, Confidence, &[&str])]) {
        let ablation = ablation(
            again,
            &[
                (Factor::Seed, &["at 12:00:00", "id 1234", "pid 7"]),
                (Factor::RtcBase, &["at 13:00:00", "id 00ff", "pid 7"]),
                (Factor::MemorySize, &["at 12:00:00", "id 00ff", "pid 8"]),
            ],
        );
        let mut divergences = vec![divergence];
        confirm(&mut divergences, &ablation);
        let found: Vec<_> = divergences.iter().map(|d| (d.cause, d.confidence, d.levers.clone())).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(cause, confidence, levers)| {
                (*cause, *confidence, levers.iter().map(|lever| (*lever).to_owned()).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_cause_is_confirmed_only_by_a_factor_of_its_own_that_moves_a_steady_record() {
        use Confidence::{Confirmed, Probable};
        let clock = || divergence(0, "at 09:41:07", Cause::Clock);
        check(clock(), &PINNED, &[(Cause::Clock, Confirmed, &["rtc_base"])]);
        check(clock(), &["at 12:00:01", "id 00ff", "pid 7"], &[(Cause::Clock, Probable, &[])]);
        check(
            divergence(1, "id aa17", Cause::Unclassified),
            &PINNED,
            &[(Cause::Entropy, Confirmed, &["seed"])],
        );
        check(divergence(1, "another record", Cause::Clock), &PINNED, &[(Cause::Clock, Probable, &["seed"])]);
        check(
            divergence(1, "something else altogether", Cause::Clock),
            &PINNED,
            &[(Cause::Clock, Probable, &[])],
        );
        check(divergence(2, "pid 4711", Cause::Pid), &PINNED, &[(Cause::Pid, Probable, &["memory_size"])]);
        check(
            divergence(2, "pid 4711", Cause::Unclassified),
            &PINNED,
            &[(Cause::Unclassified, Probable, &["memory_size"])],
        );
    }
}
