//! The program of `cargo xtask simulate`: a job on its input, what came of it on its output, how far it is on its errors.
//! It is the only one that is built with planted bugs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

use std::io::{self, Read as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tidegate_simulator::{
    Bug, Case, Done, Hunt, Job, Progress, Story, hunt, run, run_story, shrink, with_planted,
};

/// Between two lines of progress, in seeds.
const PROGRESS_EVERY: u64 = 1_000;

fn main() -> ExitCode {
    // What a planted bug makes panic is told as a failure, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    match work() {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn work() -> Result<String, Box<dyn std::error::Error>> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let done = match serde_json::from_str(&text)? {
        Job::Run(plan) => Done::Ran(Box::new(run(&plan, &mut tell))),
        Job::Hunt { bugs, seeds } => Done::Hunted(hunt_all(
            &bugs.iter().map(|name| known(name)).collect::<Result<Vec<_>, _>>()?,
            seeds,
        )),
        Job::Seed { seed, bug, shrink } => {
            let planted = bug.as_deref().map(known).transpose()?;
            Done::Played(Box::new(play(Story::of(seed), planted, shrink)))
        }
        Job::Replay(case) => {
            let planted = case.bug.as_deref().map(known).transpose()?;
            Done::Played(Box::new(play(case.story, planted, false)))
        }
    };
    Ok(serde_json::to_string(&done)?)
}

fn known(name: &str) -> Result<&'static Bug, String> {
    Bug::named(name).ok_or_else(|| format!("no bug is called {name:?}"))
}

fn play(story: Story, bug: Option<&'static Bug>, smaller: bool) -> Case {
    let name = bug.map(|bug| bug.name);
    with_planted(name, || {
        let (story, outcome) = if smaller {
            shrink(story)
        } else {
            let outcome = run_story(&story);
            (story, outcome)
        };
        Case::of(&story, name, &outcome)
    })
}

/// All bugs, on as many threads as there are processors; the answers in the order of the questions.
fn hunt_all(bugs: &[&'static Bug], seeds: u64) -> Vec<Hunt> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (next, hunts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((nth, bug)) = {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    bugs.get(nth).map(|bug| (nth, bug))
                } {
                    let hunted = hunt(bug, seeds);
                    hunts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((nth, hunted));
                }
            });
        }
    });
    let mut hunts = hunts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    hunts.sort_by_key(|(nth, _)| *nth);
    hunts.into_iter().map(|(_, hunt)| hunt).collect()
}

fn tell(Progress { done, seeds, failures }: Progress) {
    if done % PROGRESS_EVERY == 0 {
        eprintln!("{done} {seeds} {failures}");
    }
}
