//! Going on holding a lease. Activity renews, and costs a commit only in the second half of the ttl; an explicit renewal is
//! always a durable commit. etcd keeps leases alive in memory.

use super::{Bench, Commits, file_store, leases};
use crate::rivals::Etcd;
use crate::row::{Goal, Round, Subject};
use crate::stopwatch::{median, micros};
use pollster::block_on;
use std::time::Duration;
use tidegate_core::WorkClass;
use tidegate_host::own_identity;
use tidegate_leases::{Acquire, Acquired, Leases, Owner, Renew};

const ETCD: &str = "LeaseKeepAlive, one etcd on loopback";

pub(super) const ACTIVITY: Subject = Subject {
    name: "renew",
    ours: "Leases::touch, as each activity renews",
    theirs: ETCD,
    unit: "us at p50",
    goal: Goal::AtMost(0.1),
};

pub(super) const DURABLE: Subject = Subject {
    name: "renew-durable",
    ours: "Leases::renew, a synced commit",
    theirs: ETCD,
    unit: "us at p50",
    goal: Goal::None,
};

const RENEWALS: u32 = 500;
const DURABLE_RENEWALS: u32 = 20;
const TTL: Duration = Duration::from_secs(600);

pub(super) fn by_activity(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    beside_etcd(bench, RENEWALS, |leases, acquired| {
        block_on(leases.touch(&acquired.owner.session))?;
        Ok(())
    })
}

pub(super) fn durably(bench: &Bench<'_>) -> anyhow::Result<Vec<Round>> {
    beside_etcd(bench, DURABLE_RENEWALS, |leases, acquired| {
        let Acquired { key, owner, fence, .. } = acquired.clone();
        block_on(leases.renew(&Renew { key, owner, fence }))?;
        Ok(())
    })
}

fn beside_etcd(
    bench: &Bench<'_>,
    count: u32,
    mut renew: impl FnMut(&Leases, &Acquired) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Round>> {
    let place = bench.place()?;
    let etcd = Etcd::start(&place.path().join("etcd"))?;
    let mut kept = etcd.client()?.grant(i64::try_from(TTL.as_secs())?)?;
    let leases = leases(file_store(&place.path().join("store"), Commits::OnCaller)?)?;
    let acquired = block_on(leases.acquire(Acquire {
        key: "repo/main".parse()?,
        owner: Owner { session: "local/bench".parse()?, process: Some(own_identity("bench")?) },
        class: WorkClass::Mutating,
        ttl: TTL,
        max_ttl: None,
        nonce: "bench".to_owned(),
    }))?;
    let count = bench.times(count);
    bench.rounds(|| p50(count, || renew(&leases, &acquired)), || p50(count, || kept.keep()))
}

fn p50(count: u32, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let times = (0..count).map(|_| Ok(micros(&mut work)?.0)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(median(&times))
}
