//! Time as an argument: the boot-time clock for expiry, the wall clock for people.
//!
//! Nothing expires by the wall clock. A boot-time reading means something only together with its boot id.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One boot of one host (`/proc/sys/kernel/random/boot_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub u128);

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for BootId {
    type Err = std::num::ParseIntError;
    /// Takes the kernel's form (with dashes) as well as the plain one.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let s = s.trim();
        let plain = if s.contains('-') { Cow::Owned(s.replace('-', "")) } else { Cow::Borrowed(s) };
        u128::from_str_radix(&plain, 16).map(Self)
    }
}

impl Serialize for BootId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BootId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::from_text(d)
    }
}

/// A wall-clock reading in milliseconds since 1970, for people and logs. Written as RFC 3339, UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub i64);

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "unix-ms:{}", self.0),
        }
    }
}

impl FromStr for WallTime {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        if let Some(ms) = s.strip_prefix("unix-ms:") {
            return ms.parse().map(Self).map_err(|e| format!("{s:?}: {e}"));
        }
        s.parse::<jiff::Timestamp>().map(|t| Self(t.as_millisecond())).map_err(|e| e.to_string())
    }
}

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::from_text(d)
    }
}

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Which boot `boot_ms` counts from.
    pub boot: BootId,
    /// Milliseconds since boot, suspend included (`CLOCK_BOOTTIME`).
    pub boot_ms: u64,
    /// For people only.
    pub wall: WallTime,
}

impl Now {
    /// The deadline `after` from now.
    #[must_use]
    pub fn deadline(&self, after: Duration) -> Deadline {
        let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        Deadline { boot: self.boot, at_ms: self.boot_ms.saturating_add(ms) }
    }

    /// Milliseconds from `since_ms` (same boot) to now; 0 when that lies ahead.
    #[must_use]
    pub fn since(&self, since_ms: u64) -> u64 {
        self.boot_ms.saturating_sub(since_ms)
    }
}

/// A point of the boot-time clock. Past as soon as the host has been rebooted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// Which boot it counts from.
    pub boot: BootId,
    /// Milliseconds since that boot.
    pub at_ms: u64,
}

impl Deadline {
    /// Whether it has passed.
    #[must_use]
    pub fn passed(&self, now: &Now) -> bool {
        self.remaining(now).is_zero()
    }

    /// What is left of it; zero once passed or after a reboot.
    #[must_use]
    pub fn remaining(&self, now: &Now) -> Duration {
        if self.boot == now.boot {
            Duration::from_millis(self.at_ms.saturating_sub(now.boot_ms))
        } else {
            Duration::ZERO
        }
    }

    /// The earlier of two deadlines of one boot.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other.at_ms < self.at_ms { other } else { self }
    }
}

/// `#[serde(with = "tidegate_core::millis")]`: a [`Duration`] as whole milliseconds, for fields named `…_ms`.
pub mod millis {
    use super::*;

    /// Writes whole milliseconds.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads whole milliseconds.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_millis)
    }
}

/// As [`millis`], for an optional duration.
pub mod opt_millis {
    use super::*;

    /// Writes whole milliseconds or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        match d {
            Some(d) => millis::serialize(d, s),
            None => s.serialize_none(),
        }
    }

    /// Reads whole milliseconds or null.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u128, boot_ms: u64, wall: i64) -> Now {
        Now { boot: BootId(boot), boot_ms, wall: WallTime(wall) }
    }

    #[test]
    fn a_wall_clock_jump_moves_no_deadline() {
        let deadline = at(1, 1_000, 0).deadline(Duration::from_secs(5));
        let day = 86_400_000;
        for wall in [-day, 0, day] {
            assert!(!deadline.passed(&at(1, 5_999, wall)));
            assert!(deadline.passed(&at(1, 6_000, wall)));
        }
    }

    #[test]
    fn a_reboot_ends_every_deadline() {
        assert!(at(1, 1_000, 0).deadline(Duration::from_secs(3_600)).passed(&at(2, 0, 0)));
    }

    #[test]
    fn wall_time_is_rfc_3339_in_utc() {
        let t = WallTime(1_700_000_000_123);
        assert_eq!(t.to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(t.to_string().parse::<WallTime>().unwrap(), t);
        let odd = WallTime(i64::MAX);
        assert_eq!(odd.to_string().parse::<WallTime>().unwrap(), odd);
    }
}
