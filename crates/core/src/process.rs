//! Who a process is, so that a reused pid or a reboot is never mistaken for it.

use crate::BootId;
use serde::{Deserialize, Serialize};

/// The identity of one incarnation of one process.
///
/// A pid alone says nothing: it is reused. The start time tells two owners of a pid apart within a boot and a pid
/// namespace, the boot id and the namespace tell those apart, and the nonce is carried by everything the process starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The boot it was started in.
    pub boot: BootId,
    /// Inode of its pid namespace (`/proc/PID/ns/pid`).
    pub pid_ns: u64,
    /// Its pid within that namespace.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks from boot to its start.
    pub start_ticks: u64,
    /// A number of this incarnation alone.
    pub nonce: String,
}

/// What is known of a process. Only [`Liveness::Dead`] is proof; "cannot tell" counts as alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// Seen alive, with the same identity.
    Alive,
    /// Proved gone: another boot, no such pid in the same namespace, another start time, or a zombie.
    Dead,
    /// Cannot be told from here (another pid namespace, `/proc` not readable).
    Unknown,
}

impl Liveness {
    /// Whether death is proved.
    #[must_use]
    pub fn is_proved_dead(self) -> bool {
        self == Self::Dead
    }
}
