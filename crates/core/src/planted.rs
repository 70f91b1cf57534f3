//! Wrong decisions, planted on purpose, so that the simulator can be shown to catch them. Without the feature `planted`
//! there are none: [`is_planted`] is then `false` at compile time and nothing is left of the places that ask it.
//!
//! Never in a release: the feature doesn't compile without debug assertions, and nothing but the simulator's own program
//! turns it on.

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!(
    "the feature `planted` makes decisions wrong on purpose: it is for the simulator and never for a release"
);

/// Whether this wrong decision is to be made on this thread.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[must_use]
pub const fn is_planted(_: &str) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use on::{is_planted, plant};

#[cfg(feature = "planted")]
mod on {
    use std::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Whether this wrong decision is to be made on this thread.
    #[inline]
    #[must_use]
    pub fn is_planted(bug: &str) -> bool {
        PLANTED.get().is_some_and(|planted| planted == bug)
    }

    /// From now on this thread makes this wrong decision, and no other; `None`: none.
    pub fn plant(bug: Option<&'static str>) {
        PLANTED.set(bug);
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn one_bug_is_planted_on_one_thread() {
            plant(Some("one"));
            assert!(is_planted("one") && !is_planted("other"));
            assert!(std::thread::spawn(|| !is_planted("one")).join().is_ok_and(|none| none));
            plant(None);
            assert!(!is_planted("one"));
        }
    }
}
