//! Where time, randomness and knowledge of processes come from. All injected, so that a simulator can be the source.

use crate::{Liveness, Now, ProcessIdentity};
use std::future::Future;
use std::pin::Pin;

/// A boxed future, so that the traits here can be objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The clocks.
pub trait Clock: Send + Sync {
    /// Both clocks, read once.
    fn now(&self) -> Now;
}

/// A source of random numbers, for ids and nonces.
pub trait Entropy: Send + Sync {
    /// 128 random bits.
    fn bits(&self) -> u128;

    /// A fresh id: the prefix, a dash and 20 letters and digits.
    fn id(&self, prefix: &str) -> String {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut bits = self.bits();
        let mut id = String::with_capacity(prefix.len() + 21);
        id.push_str(prefix);
        id.push('-');
        for _ in 0..20 {
            id.push(char::from(DIGITS[(bits & 31) as usize]));
            bits >>= 5;
        }
        id
    }
}

/// What can be said of a process.
pub trait Probe: Send + Sync {
    /// Whether that very incarnation is alive.
    fn liveness(&self, process: &ProcessIdentity) -> Liveness;
}

/// Waiting, for shells that must not know which runtime drives them.
pub trait Timer: Send + Sync {
    /// Completes once the boot-time clock has reached `boot_ms`.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the wait and nothing else.
    fn sleep_until(&self, boot_ms: u64) -> BoxFuture<'static, ()>;
}
