//! The servers as processes: started through a launcher, spoken to over pipes, stopped with proof of death.
//!
//! Order of a start: [`Spawner::spawn`] starts the launcher (this binary, `__launch`) in a process group of its own; its
//! identity is made durable; [`spawn::Spawned::release`] lets it become the server. If the daemon dies in between, the
//! launcher sees the end of its input and exits, so that no server ever runs unrecorded. A keeper ([`crate::keeper`]) is
//! started beside it before its release, and dismissed before its stop.
//!
//! Nothing here knows about MCP, decides when to stop a server, or calls one stopped without proof: its process has
//! exited, its group is empty, and nothing that runs carries its nonce.
//!
//! What can't be seen: a process that has left the group, cleared its environment and lost its parent before a stop
//! began, and one that hides its environment from its own user. Descriptors that the daemon itself was started with and
//! that don't close on exec reach the servers; those that it opens never do.

mod census;
mod end;
mod launch;
pub(crate) mod reap;
mod resolve;
mod ring;
mod server;
mod spawn;
mod stdin;
mod stdout;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use end::{StopError, StopReport, TreeState, await_old_tree, end_old_tree};
pub(crate) use launch::launch_main;
pub(crate) use resolve::{ResolveError, resolve};
pub(crate) use server::{Exit, Server, ServerHandle};
pub(crate) use spawn::{LaunchSpec, Spawner};
pub(crate) use stdin::ServerStdin;
pub(crate) use stdout::ServerStdout;
