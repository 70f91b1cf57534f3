//! A holder asks before each of its steps whether it may still act: that question must cost next to nothing.

use std::hint::black_box;
use std::time::Duration;
use tidegate_core::{Clock, Fence};
use tidegate_host::SystemClock;
use tidegate_leases::Freshness;

#[test]
fn asking_whether_a_lease_is_fresh_allocates_nothing() {
    let clock = SystemClock::new().unwrap();
    let ttl = Duration::from_secs(3600);
    let freshness = Freshness::new(Fence::default(), &clock.now(), ttl);
    let asked = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            assert!(black_box(&freshness).is_fresh(&clock.now()));
        }
        freshness.renewed(&clock.now(), ttl);
        freshness.lost();
        assert!(!black_box(&freshness).is_fresh(&clock.now()));
    });
    assert_eq!(asked.count_total, 0);

    let control = allocation_counter::measure(|| drop(black_box(Box::new(1))));
    assert_eq!(control.count_total, 1, "an allocation would have been noticed");
}
