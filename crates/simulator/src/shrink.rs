//! Makes the world of a failure smaller for as long as it breaks the same rule: fewer people, fewer components, fewer
//! faults, a shorter time, until what is left can be read in a minute. It judges by the length of the timeline.

use crate::play::{Outcome, run_story};
use crate::story::{Faults, Story};

/// The most worlds that are played on the way: a few seconds.
const MAX_TRIES: u32 = 1_500;

/// The smallest world found that breaks the same rule as this one, and what comes of it. As it was, when it breaks none.
#[must_use]
pub fn shrink(story: Story) -> (Story, Outcome) {
    let outcome = run_story(&story);
    if outcome.broken.is_none() {
        return (story, outcome);
    }
    let mut best = (story, outcome);
    let mut tries = 0;
    // Whatever was made smaller may allow what didn't work before: again, until nothing does.
    while let Some(smaller) = smaller(&best, &mut tries) {
        best = smaller;
    }
    best
}

fn lines(outcome: &Outcome) -> usize {
    outcome.timeline.lines().count()
}

/// One pass over all that could be left out; `None` when nothing could.
fn smaller(from: &(Story, Outcome), tries: &mut u32) -> Option<(Story, Outcome)> {
    let (mut best, mut found, mut nth) = (from.clone(), false, 0);
    // The list of what could be left out is another one after each step; what was looked at isn't looked at again.
    while let Some(candidate) = candidates(&best.0).into_iter().nth(nth) {
        *tries += 1;
        if *tries > MAX_TRIES {
            break;
        }
        let outcome = run_story(&candidate);
        if outcome.broken == best.1.broken && lines(&outcome) <= lines(&best.1) {
            (best, found) = ((candidate, outcome), true);
        } else {
            nth += 1;
        }
    }
    found.then_some(best)
}

/// Every world that is this one without one thing, the largest things first.
fn candidates(story: &Story) -> Vec<Story> {
    let mut all = Vec::new();
    let mut change = |apply: &dyn Fn(&mut Story)| {
        let mut changed = story.clone();
        apply(&mut changed);
        if changed != *story {
            all.push(changed);
        }
    };
    change(&|it| it.shuffled = false);
    change(&|it| it.faults = Faults::default());
    for nth in 0..story.sessions.len() {
        change(&|it| drop(it.sessions.remove(nth)));
    }
    for nth in 0..story.operators.len() {
        change(&|it| drop(it.operators.remove(nth)));
    }
    for nth in 0..story.agents.len() {
        change(&|it| drop(it.agents.remove(nth)));
    }
    // The first component is the one that a calm world restarts.
    for component in story.components.iter().skip(1) {
        change(&|it| {
            it.components.retain(|c| c.name != component.name);
            it.sessions.iter_mut().for_each(|session| session.components.retain(|c| *c != component.name));
            it.sessions.retain(|session| !session.components.is_empty());
        });
    }
    for fault in FAULTS {
        change(&|it| *fault(&mut it.faults) = 0);
        change(&|it| *fault(&mut it.faults) /= 2);
    }
    change(&|it| it.faults.store_latency_ms = 0);
    change(&|it| it.chaos_ms /= 2);
    change(&|it| it.chaos_ms -= it.chaos_ms / 8);
    for nth in 0..story.sessions.len() {
        change(&|it| it.sessions[nth].deeds /= 2);
        change(&|it| it.sessions[nth].deeds = it.sessions[nth].deeds.saturating_sub(1));
        change(&|it| it.sessions[nth].components.truncate(1));
        change(&|it| it.sessions[nth].asks = false);
    }
    for nth in 0..story.components.len() {
        change(&|it| it.components[nth].call_timeout_ms = None);
        change(&|it| it.components[nth].in_process = false);
        change(&|it| it.components[nth].replay = false);
        change(&|it| it.components[nth].leased = false);
    }
    all
}

type Knob = fn(&mut Faults) -> &mut u32;

/// Everything that can go wrong, one by one.
const FAULTS: [Knob; 15] = [
    |it| &mut it.commit_per_mille,
    |it| &mut it.full_disks,
    |it| &mut it.restores,
    |it| &mut it.kills,
    |it| &mut it.kill_per_phase,
    |it| &mut it.freezes,
    |it| &mut it.suspends,
    |it| &mut it.bad_calls,
    |it| &mut it.bad_starts,
    |it| &mut it.stubborn,
    |it| &mut it.children,
    |it| &mut it.wall_jumps,
    |it| &mut it.keeper_kills,
    |it| &mut it.ended_sessions,
    |it| &mut it.hasty_clients,
];
