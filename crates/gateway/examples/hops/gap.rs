//! How long nobody is answered while a server is restarted, beside what its own start takes: in turns.

use crate::house::{House, Variant};
use crate::{Outcome, median, now, timed};
use std::time::Duration;

/// Restarts, and starts without a gateway.
const RESTARTS: usize = 15;

/// The gap of a restart: between the last answer of one generation and the first of the next, for a client that never
/// pauses. Of the restart nothing else is as long.
pub(crate) fn gap(house: &House) -> Outcome<()> {
    let (mut gaps, mut starts, mut cut) = (Vec::new(), Vec::new(), 0);
    let mut client = house.start(&Variant::Gateway)?;
    for _ in 0..RESTARTS {
        let own = timed(|| house.start(&Variant::Direct)?.call())?;
        starts.push(own.as_secs_f64() * 1e3);
        let asked = house.operator(&["restart", "request", "it", "--reason", "measured"]).output()?;
        let asked: serde_json::Value = serde_json::from_slice(&asked.stdout)?;
        let id = asked["operation"]["id"].as_str().ok_or("no operation")?;
        let mut waiting = house.operator(&["restart", "wait", id]).spawn()?;
        let (mut last, mut longest) = (now(), Duration::ZERO);
        while waiting.try_wait()?.is_none() {
            cut += usize::from(client.call().is_err());
            let answered = now();
            longest = longest.max(answered - last);
            last = answered;
        }
        gaps.push(longest.as_secs_f64() * 1e3);
    }
    let (gap, start) = (median(&mut gaps), median(&mut starts));
    println!(
        "the gap of a restart: p50 {gap:.1} ms, with {start:.1} ms that the server's own start and first call take; {cut} calls cut"
    );
    Ok(())
}
