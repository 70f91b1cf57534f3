//! The holder's own view of its lease: may I still act? In memory, one atomic read, no allocation.
//!
//! It is pessimistic: time counts from when a renewal was *sent*, and ends a margin early. It says nothing about the
//! resource; what the resource may trust is its [`FenceGuard`](crate::FenceGuard).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::{BootId, Fence, Now};

/// The part of a ttl that freshness ends early, a tenth: for the time between the check and what is done after it.
pub const MARGIN: u32 = 10;

/// Once lost, never fresh again. Boot time 0 has passed long before any program runs.
const LOST: u64 = 0;

/// A holder's freshness. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Freshness {
    fence: Fence,
    boot: BootId,
    until_ms: Arc<AtomicU64>,
}

impl Freshness {
    /// The freshness of a lease whose acquisition was sent at `sent`.
    #[must_use]
    pub fn new(fence: Fence, sent: &Now, ttl: Duration) -> Self {
        Self { fence, boot: sent.boot, until_ms: Arc::new(AtomicU64::new(until(sent, ttl))) }
    }

    /// Whether the holder may still act.
    #[must_use]
    pub fn is_fresh(&self, now: &Now) -> bool {
        now.boot == self.boot && now.boot_ms < self.until_ms.load(Ordering::Acquire)
    }

    /// The fence to show to the resource.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// A renewal that was sent at `sent` has been acknowledged, and lasts for `ttl` from there: the lease's, or less where its
    /// `max_ttl` ends before ([`Leases::renew`](crate::Leases::renew) answers until when). Never shortens, and never revives
    /// what is lost.
    pub fn renewed(&self, sent: &Now, ttl: Duration) {
        let later = |current| (current != LOST).then(|| until(sent, ttl).max(current));
        // An error means that it is lost, and stays so.
        let _ = self.until_ms.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// The lease is somebody else's, or nobody's: stop acting, for good.
    pub fn lost(&self) {
        self.until_ms.store(LOST, Ordering::Release);
    }
}

fn until(sent: &Now, ttl: Duration) -> u64 {
    sent.deadline(ttl - ttl / MARGIN).at_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::WallTime;

    fn at(boot_ms: u64) -> Now {
        Now { boot: BootId(1), boot_ms, wall: WallTime(0) }
    }

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn it_counts_from_the_sending_and_ends_a_margin_early() {
        let fence = "1.7".parse().unwrap();
        let fresh = Freshness::new(fence, &at(1_000), TTL);
        assert_eq!(fresh.fence(), fence);
        assert!(fresh.is_fresh(&at(9_999)));
        assert!(!fresh.is_fresh(&at(10_000)));
        fresh.renewed(&at(5_000), TTL);
        assert!(fresh.is_fresh(&at(13_999)));
        assert!(!fresh.is_fresh(&at(14_000)));
    }

    #[test]
    fn renewals_that_arrive_in_the_wrong_order_never_shorten_it() {
        let fresh = Freshness::new(Fence::default(), &at(1_000), TTL);
        fresh.renewed(&at(5_000), TTL);
        fresh.renewed(&at(4_000), TTL);
        assert!(fresh.is_fresh(&at(13_999)));
    }

    #[test]
    fn a_late_renewal_does_not_revive_what_is_lost() {
        let fresh = Freshness::new(Fence::default(), &at(1_000), TTL);
        fresh.lost();
        fresh.renewed(&at(2_000), TTL);
        assert!(!fresh.is_fresh(&at(2_001)));
    }

    #[test]
    fn nothing_is_fresh_in_another_boot_and_no_wall_clock_matters() {
        let fresh = Freshness::new(Fence::default(), &at(1_000), TTL);
        assert!(!fresh.is_fresh(&Now { boot: BootId(2), ..at(1_001) }));
        assert!(fresh.is_fresh(&Now { wall: WallTime(86_400_000), ..at(1_001) }));
    }
}
