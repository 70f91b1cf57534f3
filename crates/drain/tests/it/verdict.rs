//! How a drain ends, for every mix of what may be left.

use tidegate_core::WorkClass;
use tidegate_drain::{Holder, Verdict, verdict};

/// Holders as words: `r` read-only, `i` idempotent, `m` mutating, a trailing `d` detached.
fn holders(words: &str) -> Vec<Holder> {
    let holder = |word: &str| Holder {
        session: "local/s1".parse().unwrap(),
        component: "files".parse().unwrap(),
        tool: word.into(),
        class: match &word[..1] {
            "r" => WorkClass::ReadOnly,
            "i" => WorkClass::Idempotent,
            _ => WorkClass::Mutating,
        },
        age_ms: 1,
        detached: word.ends_with('d'),
        abandoned: false,
    };
    words.split_whitespace().map(holder).collect()
}

#[track_caller]
fn check(left: &str, before: &str, at_the_deadline: &str) {
    let told = |passed| match verdict(&holders(left), passed) {
        Verdict::Wait => "wait".to_owned(),
        Verdict::Drained { read_only } => format!("drained {}", read_only.len()),
        Verdict::Refused { holders } => format!("refused {}", holders.len()),
    };
    assert_eq!((told(false).as_str(), told(true).as_str()), (before, at_the_deadline), "{left:?}");
}

#[test]
fn a_drain_ends_drained_or_refused_and_nothing_in_between() {
    check("", "drained 0", "drained 0");
    check("r", "wait", "drained 1");
    check("r r", "wait", "drained 2");
    check("i", "wait", "refused 1");
    check("m", "wait", "refused 1");
    check("id", "wait", "refused 1");
    check("md", "wait", "refused 1");
    check("rd", "wait", "refused 1");
    check("r m", "wait", "refused 2");
    check("r r i", "wait", "refused 3");
    check("m md i r", "wait", "refused 4");
}
