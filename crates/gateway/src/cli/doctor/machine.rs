//! What the proofs of death rest on: clocks, `/proc` and pidfds.

use super::finding::Finding;
use tidegate_host::{HostError, Pidfd, ProcProbe, SystemClock, own_identity};

const CHECK: &str = "machine";

pub(super) fn look() -> Vec<Finding> {
    vec![match proofs() {
        Ok(()) => Finding::ok(CHECK, "the boot id, /proc and pidfds are there"),
        Err(error) => Finding::failed(
            CHECK,
            error.to_string(),
            "run it where /proc is mounted, on Linux 5.4 or later; a container may hide them",
        ),
    }]
}

fn proofs() -> Result<(), HostError> {
    SystemClock::new()?;
    ProcProbe::new()?;
    let me = own_identity("doctor")?;
    Pidfd::open(me.pid, me.start_ticks).map(drop)
}
