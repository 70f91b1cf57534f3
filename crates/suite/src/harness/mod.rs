//! A black-box harness: the real `tidegate`, real clients, a scripted server behind it, and what they leave behind.
//!
//! It is for tests and fails by panicking, with what everybody said. It sees what a user sees and nothing else: commands,
//! pipes, files, `/proc`. Every wait is for a condition and has a deadline.
//!
//! ```no_run
//! use tidegate_suite::harness::Plan;
//!
//! let mut rig = Plan::new().fault("files", &[]).start();
//! let mut session = rig.connect("files", "s1");
//! let id = rig.request("ops", &["files"]);
//! assert_eq!(rig.ended(&id)["phase"], "Completed");
//! assert_eq!(session.tool("append", serde_json::json!({ "text": "x" }))["structuredContent"]["start"], 2);
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness for tests fails by panicking")]

mod binary;
mod client;
mod fault;
mod output;
pub mod outside;
mod plan;
mod process;
mod residue;
mod rig;
mod sdk;
mod snippets;
mod wait;

pub use binary::{fault_server, profile, tidegate, workspace};
pub use client::{Call, Client, refusal};
pub use fault::{FaultServer, Latch};
pub use output::Output;
pub use plan::Plan;
pub use process::{Exit, Process};
pub use residue::{Residue, descriptors, zombies_of};
pub use rig::Rig;
pub use sdk::{Sdk, SdkClient};
pub use snippets::{Snippet, snippets};
pub use wait::{GLANCE, PATIENCE, Stopwatch, eventually, until};
