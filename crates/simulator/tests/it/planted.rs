//! The list of planted bugs: long enough, each named once, and each looked up somewhere.

use std::collections::BTreeSet;
use std::path::Path;
use tidegate_simulator::BUGS;

#[test]
fn there_are_three_planted_bugs_for_every_bullet() {
    for bullet in 1..=10 {
        let count = BUGS.iter().filter(|bug| bug.bullet == bullet).count();
        assert!(count >= 3, "bullet {bullet} has {count}");
    }
    let names: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
    assert_eq!(names.len(), BUGS.len());
}

#[test]
fn every_planted_bug_is_planted_in_one_place_or_two() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut source = String::new();
    let mut left = vec![crates];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != "target" {
                left.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                source.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    for bug in BUGS {
        let places = source.matches(&format!("is_planted(\"{}\")", bug.name)).count();
        assert!((1..=2).contains(&places), "{} is planted in {places} places", bug.name);
    }
}
