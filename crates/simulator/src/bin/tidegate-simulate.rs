//! The program of `cargo xtask simulate`.
use tidegate_simulator::{Plan, run};
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100);
    let started = std::time::Instant::now();
    let s = run(&Plan { first_seed: 0, seeds: n, stop_after: 3 }, &mut |_| {});
    eprintln!("{} {} {} {:?} {:?} {:?}", s.seeds, s.steps, s.simulated_ms, started.elapsed(), s.failures.len(), s.not_reached);
}
