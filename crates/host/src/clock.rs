//! The one real clock. Nothing else in the workspace reads the time.

use crate::HostError;
use crate::offset::BootOffset;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_core::{BootId, Clock, Now, WallTime};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The id of this boot.
///
/// # Errors
/// [`HostError::Unreadable`] or [`HostError::Malformed`] where `/proc` doesn't say.
pub fn boot_id() -> Result<BootId, HostError> {
    let text = fs::read_to_string(BOOT_ID)
        .map_err(|source| HostError::Unreadable { path: BOOT_ID.into(), source })?;
    text.parse().map_err(|_| HostError::malformed(BOOT_ID, text.as_bytes()))
}

/// `CLOCK_BOOTTIME`, which counts suspend and ignores clock changes, with the boot id it counts from; and the wall clock for people.
/// It counts from the machine's boot in a time namespace too.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    boot: BootId,
    offset: BootOffset,
}

impl SystemClock {
    /// The clock of this boot. The boot id is read once.
    ///
    /// # Errors
    /// As [`boot_id`].
    pub fn new() -> Result<Self, HostError> {
        boot_id().map(|boot| Self { boot, offset: BootOffset::of_this_process() })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let t = clock_gettime(ClockId::Boottime);
        Now { boot: self.boot, boot_ms: self.offset.real_millis(t.tv_sec, t.tv_nsec), wall: wall() }
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
fn wall() -> WallTime {
    // Before 1970 there is nothing to say to people that 1970 doesn't.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
