//! Every world that is kept in `fixtures/simulations` is played: what was wrong once is right now, and where a bug has to
//! be planted nothing is wrong without it.

use std::path::{Path, PathBuf};
use tidegate_simulator::{Bug, CASE_VERSION, Case};

fn cases() -> Vec<(PathBuf, Case)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/simulations");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        let case = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        (file, case)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn a_kept_world_breaks_nothing_unless_a_bug_is_planted() {
    for (file, case) in cases() {
        assert_eq!(case.version, CASE_VERSION, "{}", file.display());
        assert_eq!(case.breaks.is_some(), case.bug.is_some(), "{}: right by now, or planted", file.display());
        assert!(case.bug.as_deref().is_none_or(|bug| Bug::named(bug).is_some()), "{}", file.display());
        assert_eq!(case.play().violation(), None, "{}", file.display());
    }
}

#[test]
fn a_kept_world_is_read_in_a_minute() {
    for (file, case) in cases() {
        assert!((1..=60).contains(&case.timeline.len()), "{} has {}", file.display(), case.timeline.len());
    }
}

/// With the bugs that only the simulator's own program is built with.
#[cfg(feature = "planted")]
#[test]
fn a_planted_bug_shows_in_the_world_that_is_kept_of_it() {
    for (file, case) in cases() {
        let bug = case.bug.as_deref().and_then(Bug::named).map(|bug| bug.name);
        let now = tidegate_simulator::with_planted(bug, || case.play());
        assert_eq!(now.broken, case.breaks, "{}", file.display());
    }
}
