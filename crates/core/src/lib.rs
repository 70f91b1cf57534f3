//! The words every Tidegate crate shares: ids, work classes, time, process identity, next actions.
//!
//! Nothing here reads a clock, a file or a random source. Time comes in as a [`Now`], randomness as an
//! [`Entropy`], what is known of a process as a [`Probe`]; `tidegate-host` has the real ones.
//!
//! ```
//! use tidegate_core::{Fence, Epoch, Revision};
//! let old = Fence::new(Epoch(1), Revision(9));
//! let new = Fence::new(Epoch(2), Revision(3)); // after a restore from a backup
//! assert!(new > old);
//! assert_eq!(new.to_string(), "2.3");
//! ```

mod action;
mod call;
mod fence;
mod held;
mod ids;
#[doc(hidden)]
pub mod planted;
mod process;
mod source;
mod text;
mod time;
mod work;

pub use action::{LateAnswer, NextAction};
pub use call::{CallState, OpenCall};
pub use fence::{Epoch, Fence, ParseFenceError, Revision};
pub use held::HeldLease;
pub use ids::{
    ComponentName, DrainId, IdError, IncidentId, MAX_NAME_BYTES, OperationId, PrincipalName, SessionId,
    SessionName,
};
pub use process::{Liveness, ProcessIdentity};
pub use source::{BoxFuture, Clock, Entropy, Probe, Timer};
pub use text::from_text;
pub use time::{BootId, Deadline, Now, WallTime, millis, opt_millis};
pub use work::{Generation, WorkClass};
