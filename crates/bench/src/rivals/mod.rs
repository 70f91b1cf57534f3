//! What Tidegate is measured beside, where it isn't a crate.

mod etcd;
mod grpc;
mod protobuf;
mod sqlite;

pub(crate) use etcd::Etcd;
pub(crate) use sqlite::{Writers, version as sqlite_version};
