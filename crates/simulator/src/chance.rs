//! Where everything random comes from: generators that follow from the seed and a purpose, so that what happens to one
//! call doesn't change what happens to the next.

use std::sync::{Mutex, PoisonError};
use tidegate_core::Entropy;

/// A generator for one purpose of one seed.
pub(crate) fn generator(seed: u64, purpose: &str) -> fastrand::Rng {
    // FNV-1a over the purpose, started from the seed.
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in purpose.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    fastrand::Rng::with_seed(hash)
}

/// Whether something happens that happens `per_mille` times in a thousand.
pub(crate) fn happens(rng: &mut fastrand::Rng, per_mille: u32) -> bool {
    rng.u32(..1_000) < per_mille
}

/// Ids that count, so that a timeline can be read; random bits from the seed.
pub(crate) struct Ids {
    inner: Mutex<(u64, fastrand::Rng)>,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self { inner: Mutex::new((0, generator(seed, "ids"))) }
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut (u64, fastrand::Rng)) -> T) -> T {
        use_it(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entropy for Ids {
    fn bits(&self) -> u128 {
        self.with(|(_, rng)| rng.u128(..))
    }

    fn id(&self, prefix: &str) -> String {
        self.with(|(count, _)| {
            *count += 1;
            format!("{prefix}-{count}")
        })
    }
}
