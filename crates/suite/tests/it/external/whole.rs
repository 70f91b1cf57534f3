//! Every client with every server. Not among the tests that run by default: see the filter in `.config/nextest.toml`.

use super::servers::ALL;
use super::{inspector, tour};
use tidegate_suite::harness::Sdk;

#[test]
fn the_typescript_sdk_and_every_server() {
    tour::through(Sdk::TypeScript, &ALL);
}

#[test]
fn the_python_sdk_and_every_server() {
    tour::through(Sdk::Python, &ALL);
}

#[test]
fn rmcp_and_every_server() {
    tour::through(Sdk::Rust, &ALL);
}

#[test]
fn the_inspector_and_every_server() {
    inspector::visits(&ALL);
}

#[test]
fn what_is_written_for_clients_works_in_the_inspector() {
    inspector::takes_every_snippet();
}
