//! What this machine says: the boot-time clock, process identities, proof of death, random ids.
//!
//! Linux only: it reads `/proc` (which must be mounted) and uses pidfds. Everything here is an observation; nothing
//! here decides what to do about it, and only [`Pidfd::signal`] changes anything.
//!
//! ```
//! use tidegate_core::{Clock, Liveness, Probe};
//! use tidegate_host::{ProcProbe, SystemClock, own_identity};
//!
//! let clock = SystemClock::new()?;
//! assert!(clock.now().boot_ms > 0);
//!
//! let me = own_identity("n-1")?;
//! assert_eq!(ProcProbe::new()?.liveness(&me), Liveness::Alive);
//! # Ok::<(), tidegate_host::HostError>(())
//! ```

mod clock;
mod entropy;
mod environ;
mod error;
mod identity;
mod offset;
mod pidfd;
mod probe;
mod stat;

pub use clock::{SystemClock, boot_id};
pub use entropy::OsEntropy;
pub use environ::{carries, processes_with_nonce};
pub use error::HostError;
pub use identity::{identity_of, own_identity, parent_identity, pid_namespace};
pub use pidfd::Pidfd;
pub use probe::ProcProbe;
pub use rustix::process::Signal;
pub use stat::{ProcStat, ProcTable, own_children, process_table, stat_of};
