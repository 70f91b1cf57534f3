//! How long a call takes, and how many there are in a second, by each way, in turns.

use crate::house::{Client, House, Variant};
use crate::{Outcome, median, timed};

/// Rounds; each figure is the median of as many.
const ROUNDS: usize = 7;
/// Calls of one client in a row, in each round.
const CALLS: usize = 1_000;
/// Sessions that call at once, and calls of each.
const SESSIONS: usize = 16;
const CALLS_EACH: usize = 200;
/// Boundaries between processes that a call crosses through the gateway and not without it: shim and daemon, both ways.
const BOUNDARIES: f64 = 4.0;

pub(crate) fn latency(house: &House, variants: &[Variant]) -> Outcome<()> {
    let mut clients = variants.iter().map(|variant| house.start(variant)).collect::<Outcome<Vec<_>>>()?;
    for client in &mut clients {
        (0..CALLS).try_for_each(|_| client.call())?;
    }
    let mut p50s = vec![Vec::new(); variants.len()];
    let mut p99s = p50s.clone();
    for _ in 0..ROUNDS {
        for (at, client) in clients.iter_mut().enumerate() {
            let mut times = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                times.push(timed(|| client.call())?.as_secs_f64() * 1e6);
            }
            p50s[at].push(median(&mut times));
            p99s[at].push(times[CALLS * 99 / 100]);
        }
    }
    let p50s: Vec<f64> = p50s.iter_mut().map(|p50s| median(p50s)).collect();
    for (at, variant) in variants.iter().enumerate() {
        println!(
            "a call, {}: p50 {:.1} µs, {:.2} times direct; p99 {:.1} µs",
            variant.name(),
            p50s[at],
            p50s[at] / p50s[0],
            median(&mut p99s[at])
        );
    }
    let (hop, added) = (p50s[1] - p50s[0], p50s[2] - p50s[0]);
    println!(
        "the gateway adds, per boundary, in cat hops of {hop:.1} µs: {:.2} (goal 3)",
        added / BOUNDARIES / hop
    );
    Ok(())
}

pub(crate) fn throughput(house: &House, variants: &[Variant]) -> Outcome<()> {
    let variants: Vec<&Variant> = variants.iter().filter(|it| !matches!(it, Variant::Cat)).collect();
    let mut fleets = Vec::new();
    for variant in &variants {
        fleets.push((0..SESSIONS).map(|_| house.start(variant)).collect::<Outcome<Vec<Client>>>()?);
    }
    let mut rates = vec![Vec::new(); variants.len()];
    for round in 0..=ROUNDS {
        for (at, fleet) in fleets.iter_mut().enumerate() {
            let took = timed(|| {
                std::thread::scope(|scope| {
                    let calling: Vec<_> = fleet
                        .iter_mut()
                        .map(|client| scope.spawn(|| (0..CALLS_EACH).try_for_each(|_| client.call())))
                        .collect();
                    calling
                        .into_iter()
                        .try_for_each(|it| it.join().unwrap_or(Err("a client panicked".into())))
                })
            })?;
            if round > 0 {
                rates[at].push((SESSIONS * CALLS_EACH) as f64 / took.as_secs_f64());
            }
        }
    }
    let rates: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    for (variant, rate) in variants.iter().zip(&rates) {
        let (name, ratio) = (variant.name(), rate / rates[0]);
        println!("calls a second at {SESSIONS} sessions, {name}: {rate:.0}, {ratio:.2} times direct");
    }
    Ok(())
}
