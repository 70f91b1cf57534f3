//! Randomness from the kernel, for ids and nonces.

use tidegate_core::Entropy;

/// The kernel's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    /// # Panics
    /// When the kernel has no randomness to give, which Linux rules out once it has booted: an id that could repeat
    /// is worse than stopping.
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        if let Err(e) = getrandom::fill(&mut bytes) {
            panic!("the kernel gives no random numbers: {e}");
        }
        u128::from_ne_bytes(bytes)
    }
}
