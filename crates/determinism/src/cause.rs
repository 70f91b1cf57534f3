//! Guessing a cause from the shape of a difference. Pure.
//!
//! A guess is at most *probable*: natively nothing can be pinned, so nothing here may say `confirmed`.

use std::collections::BTreeSet;

use crate::factor::Factor;
use crate::record::{Cause, Confidence};
use crate::stream::ORDER;

/// A process that a subject starts early has a number that follows the subject's own within this distance.
const PID_WINDOW: u64 = 32;
/// Shorter runs of hexadecimal digits are as likely a number as a random identifier.
const RANDOM_DIGITS: usize = 16;
/// A fraction with this many digits is a random number rather than a measured one.
const RANDOM_FRACTION_DIGITS: usize = 12;
/// Fewer digits after `0x` are a small number.
const ADDRESS_DIGITS: usize = 6;
/// Seconds from 2017 to 2096, in every unit that clocks count in: `(digits, lowest, highest)`.
const EPOCHS: [(usize, u64, u64); 4] = [
    (10, 1_500_000_000, 4_000_000_000),
    (13, 1_500_000_000_000, 4_000_000_000_000),
    (16, 1_500_000_000_000_000, 4_000_000_000_000_000),
    (19, 1_500_000_000_000_000_000, 4_000_000_000_000_000_000),
];

/// Every cause that a stream's differences suggest, each with the first event that suggests it.
///
/// `first` is the first event that differs; `pids` are those of the two subjects. Events are only matched up when both
/// streams have as many: after an insertion every pair would differ.
pub(crate) fn explain(
    stream: &str,
    (left, right): (&[Vec<u8>], &[Vec<u8>]),
    first: usize,
    pids: (u32, u32),
) -> Vec<(usize, Cause)> {
    if permuted(left, right) {
        return vec![(first, if stream == ORDER { Cause::Schedule } else { Cause::Order })];
    }
    let matched =
        if left.len() == right.len() { left.len() } else { left.len().min(right.len()).min(first + 1) };
    let mut found: Vec<(usize, Cause)> = Vec::new();
    for index in first..matched {
        let (left, right) = (String::from_utf8_lossy(&left[index]), String::from_utf8_lossy(&right[index]));
        for cause in event(&left, &right, pids) {
            if found.iter().all(|(_, known)| *known != cause) {
                found.push((index, cause));
            }
        }
    }
    if found.is_empty() { vec![(first, Cause::Unclassified)] } else { found }
}

/// How far a cause guessed from a shape can be trusted.
pub(crate) fn confidence(cause: Cause) -> Confidence {
    if cause == Cause::Unclassified { Confidence::Unclassified } else { Confidence::Probable }
}

/// What an executor would have to pin and unpin to confirm a cause.
pub(crate) fn levers(cause: Cause) -> Vec<String> {
    Factor::of(cause).iter().map(|factor| factor.name().to_owned()).collect()
}

fn permuted<T: Ord>(left: &[T], right: &[T]) -> bool {
    let sorted = |items: &[T]| -> Vec<usize> {
        let mut indices: Vec<usize> = (0..items.len()).collect();
        indices.sort_by(|a, b| items[*a].cmp(&items[*b]));
        indices
    };
    left.len() == right.len() && sorted(left).into_iter().zip(sorted(right)).all(|(a, b)| left[a] == right[b])
}

/// The causes that two different events suggest; none for equal ones.
fn event(left: &str, right: &str, pids: (u32, u32)) -> BTreeSet<Cause> {
    let (left_words, right_words) = (words(left), words(right));
    if left == right {
        return BTreeSet::new();
    }
    if left_words != right_words && permuted(&left_words, &right_words) {
        return BTreeSet::from([Cause::Order]);
    }
    if left_words.len() != right_words.len() || left_words == right_words {
        return BTreeSet::from([Cause::Unclassified]);
    }
    let pairs = left_words.into_iter().zip(right_words);
    pairs.filter(|(left, right)| left != right).flat_map(|(left, right)| word(left, right, pids)).collect()
}

fn words(text: &str) -> Vec<&str> {
    let within = |character: char| character.is_alphanumeric() || "-:._+".contains(character);
    text.split(|character| !within(character)).filter(|word| !word.is_empty()).collect()
}

fn word(left: &str, right: &str, pids: (u32, u32)) -> BTreeSet<Cause> {
    if let Some(cause) = shape(left, right, pids) {
        return BTreeSet::from([cause]);
    }
    // A word may be made of several: 5f1c-1764473912, 09:41:07.123, file-4711.log.
    for separator in [':', '-', '.', '_'] {
        let (left_parts, right_parts): (Vec<&str>, Vec<&str>) =
            (left.split(separator).collect(), right.split(separator).collect());
        if left_parts.len() > 1 && left_parts.len() == right_parts.len() {
            let pairs = left_parts.into_iter().zip(right_parts);
            return pairs.filter(|(left, right)| left != right).flat_map(|(l, r)| word(l, r, pids)).collect();
        }
    }
    BTreeSet::from([Cause::Unclassified])
}

fn shape(left: &str, right: &str, pids: (u32, u32)) -> Option<Cause> {
    let both = |is: fn(&str) -> bool| is(left) && is(right);
    if is_pid_of_both(left, right, pids) {
        Some(Cause::Pid)
    } else if both(is_time) {
        Some(Cause::Clock)
    } else if both(is_address) {
        Some(Cause::Address)
    } else if both(is_random) && left.len().abs_diff(right.len()) <= 2 {
        Some(Cause::Entropy)
    } else {
        None
    }
}

fn is_pid_of_both(left: &str, right: &str, pids: (u32, u32)) -> bool {
    let offset = |text: &str, pid: u32| text.parse::<u64>().ok()?.checked_sub(pid.into());
    let (Some(left), Some(right)) = (offset(left, pids.0), offset(right, pids.1)) else { return false };
    left == right && left <= PID_WINDOW
}

fn is_time(text: &str) -> bool {
    is_epoch(text) || is_clock_face(text) || is_duration(text)
}

/// `1764473912`, in seconds to nanoseconds, with or without a fraction.
fn is_epoch(text: &str) -> bool {
    let whole = text.split('.').next().unwrap_or(text);
    let Ok(value) = whole.parse::<u64>() else { return false };
    EPOCHS.iter().any(|(digits, low, high)| whole.len() == *digits && (*low..*high).contains(&value))
}

/// `09:41:07`, alone or at the end of a date, with or without a fraction and a zone.
fn is_clock_face(text: &str) -> bool {
    text.as_bytes().windows(8).any(|window| {
        window
            .iter()
            .enumerate()
            .all(|(at, byte)| if at % 3 == 2 { *byte == b':' } else { byte.is_ascii_digit() })
    })
}

/// `12.5ms`.
fn is_duration(text: &str) -> bool {
    let number = text.trim_end_matches(char::is_alphabetic);
    ["ns", "us", "µs", "ms", "s"].contains(&&text[number.len()..]) && number.parse::<f64>().is_ok()
}

fn is_address(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| {
        digits.len() >= ADDRESS_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// A UUID, sixteen hexadecimal digits or more, or a fraction too precise to be a measurement.
fn is_random(text: &str) -> bool {
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let hexadecimal = digits.len() >= RANDOM_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fraction = text.strip_prefix("0.").is_some_and(|fraction| {
        fraction.len() >= RANDOM_FRACTION_DIGITS && fraction.bytes().all(|byte| byte.is_ascii_digit())
    });
    hexadecimal || fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use Cause::{Address, Clock, Entropy, Order, Pid, Schedule, Unclassified};

    fn check(left: &str, right: &str, expected: &[Cause]) {
        let found: Vec<Cause> = event(left, right, (4711, 4890)).into_iter().collect();
        assert_eq!(found, expected, "{left:?} / {right:?}");
    }

    #[test]
    fn a_cause_is_guessed_from_the_shape_of_what_differs() {
        check("same", "same", &[]);
        check("at 1764473912", "at 1764473915", &[Clock]);
        check("at 1764473912.123", "at 1764473912.456", &[Clock]);
        check("t=1764473912123456789", "t=1764473912123999999", &[Clock]);
        check("2026-11-30T03:38:32.1Z ok", "2026-11-30T03:38:33.7Z ok", &[Clock]);
        check("took 12.5ms", "took 8ms", &[Clock]);
        check("took 3µs", "took 4µs", &[Clock]);
        check("logs/1764473912123.log", "logs/1764473912999.log", &[Clock]);
        check("server[4711]: up", "server[4890]: up", &[Pid]);
        check("child 4712", "child 4891", &[Pid]);
        check("child 4712", "child 4899", &[Unclassified]);
        check("run-4711.sock", "run-4890.sock", &[Pid]);
        check("heap 0x1c3b2a0", "heap 0x2a113f0", &[Address]);
        check(
            "id 6f9619ff-8b86-d011-b42d-00c04fc964ff",
            "id 7f9619ff-8b86-d011-b42d-00c04fc964aa",
            &[Entropy],
        );
        check("token a3f1c09be4d25577", "token 0099aabbccddeeff", &[Entropy]);
        check("0.8444218515250481", "0.7579544029403025", &[Entropy]);
        check("b a c", "c a b", &[Order]);
        check("count 39992", "count 40000", &[Unclassified]);
        check("one", "one two", &[Unclassified]);
        check("a  b", "a b", &[Unclassified]);
        check("4711 at 1764473912", "4890 at 1764473913", &[Clock, Pid]);
        check("count 3 at 09:41:07", "count 4 at 09:41:08", &[Clock, Unclassified]);
    }

    fn check_stream(stream: &str, left: &[&str], right: &[&str], first: usize, expected: &[(usize, Cause)]) {
        let events =
            |texts: &[&str]| -> Vec<Vec<u8>> { texts.iter().map(|text| text.as_bytes().to_vec()).collect() };
        assert_eq!(explain(stream, (&events(left), &events(right)), first, (900, 901)), expected);
    }

    #[test]
    fn all_causes_in_a_stream_are_listed_each_where_it_is_first_seen() {
        check_stream("stdout", &["x", "a", "b"], &["x", "b", "a"], 1, &[(1, Order)]);
        check_stream("order/stdout", &["a", "b"], &["b", "a"], 0, &[(0, Schedule)]);
        check_stream(
            "stdout",
            &["x", "took 5ms", "n 3", "took 6ms"],
            &["x", "took 6ms", "n 4", "took 8ms"],
            1,
            &[(1, Clock), (2, Unclassified)],
        );
        check_stream("stdout", &["took 5ms", "n 3"], &["took 6ms"], 0, &[(0, Clock)]);
        check_stream("stdout", &["a", "b"], &["a"], 1, &[(1, Unclassified)]);
        check_stream("stderr", &[], &["a"], 0, &[(0, Unclassified)]);
    }

    #[test]
    fn no_cause_is_ever_confirmed_natively() {
        for cause in [Clock, Entropy, Pid, Address, Schedule, Order] {
            assert_eq!(confidence(cause), Confidence::Probable);
            assert!(!levers(cause).is_empty());
        }
        assert_eq!(confidence(Unclassified), Confidence::Unclassified);
        assert!(levers(Unclassified).is_empty());
    }
}
