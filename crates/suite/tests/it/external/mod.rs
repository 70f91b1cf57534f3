//! Servers and clients that nobody here wrote, with Tidegate between them: what a client sees is what it saw without, and it goes on
//! seeing it whatever is restarted, upgraded or killed. A small part runs with every test; `whole` is every client with every
//! server, for `cargo xtask peers` and `cargo xtask ci --full`, which install what it needs and ask for it by name.

mod inspector;
mod servers;
mod tour;
mod whole;

use tidegate_suite::harness::Sdk;

#[test]
fn the_typescript_sdk_and_two_servers_of_its_own() {
    tour::through(Sdk::TypeScript, &["filesystem", "memory"]);
}

#[test]
fn the_python_sdk_and_a_server_of_its_own() {
    tour::through(Sdk::Python, &["time"]);
}
