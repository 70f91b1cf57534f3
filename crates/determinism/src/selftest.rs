//! Showing, in each check, that the comparer can fail: it's fed four changes and has to notice every one, in its place.

use crate::compare::Trace;
use crate::record::ControlResult;
use crate::stream::Streams;

/// Enough events that a bisection has something to bisect.
const EVENTS: usize = 64;
/// Where the changes are made: neither end, nor a place where a bisection looks first.
const PLACE: usize = 41;
const STREAM: &str = "stdout";

/// A change to a list of events.
type Change = fn(&mut Vec<Vec<u8>>);

const CHANGES: [(&str, Change); 4] = [
    ("a changed byte", |events| events[PLACE][0] ^= 1),
    ("a changed event", |events| events[PLACE] = b"something else\n".to_vec()),
    ("a dropped record", |events| drop(events.remove(PLACE))),
    ("two swapped records", |events| events.swap(PLACE, PLACE + 1)),
];

/// Feeds the four changes to a comparer, and an unchanged copy, which it must find equal.
pub(crate) fn run(compare: impl Fn(&Trace, &Trace) -> Option<usize>) -> Vec<ControlResult> {
    let original: Vec<Vec<u8>> = (0..EVENTS).map(|number| format!("{number} event\n").into_bytes()).collect();
    let reference = trace(original.clone());
    let mut results = vec![result("an unchanged copy", None, compare(&reference, &trace(original.clone())))];
    for (name, change) in CHANGES {
        let mut changed = original.clone();
        change(&mut changed);
        results.push(result(name, Some(PLACE), compare(&reference, &trace(changed))));
    }
    results
}

/// What this crate's comparer says.
pub(crate) fn first_difference(left: &Trace, right: &Trace) -> Option<usize> {
    left.differences(right).first().map(|difference| difference.index)
}

fn trace(events: Vec<Vec<u8>>) -> Trace {
    Trace::new(0, Streams::from([(STREAM.to_owned(), events)]))
}

fn result(name: &str, expected: Option<usize>, observed: Option<usize>) -> ControlResult {
    let words =
        |place: Option<usize>| place.map_or("equal".to_owned(), |place| format!("noticed at record {place}"));
    ControlResult {
        name: name.to_owned(),
        kind: "comparer".to_owned(),
        condition: None,
        part: None,
        expected: words(expected),
        observed: words(observed),
        passed: expected == observed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(compare: impl Fn(&Trace, &Trace) -> Option<usize>) -> Vec<String> {
        run(compare).into_iter().filter(|result| !result.passed).map(|result| result.name).collect()
    }

    #[test]
    fn the_comparer_notices_every_change_and_a_broken_one_is_caught() {
        assert_eq!(failed(first_difference), Vec::<String>::new());
        let blind = failed(|_, _| None);
        assert_eq!(blind, ["a changed byte", "a changed event", "a dropped record", "two swapped records"]);
        assert_eq!(failed(|_, _| Some(PLACE)), ["an unchanged copy"]);
        let counting = |left: &Trace, right: &Trace| {
            let differs = left.events(STREAM).len() != right.events(STREAM).len();
            differs.then_some(PLACE)
        };
        assert_eq!(failed(counting), ["a changed byte", "a changed event", "two swapped records"]);
    }
}
