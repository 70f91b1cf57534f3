//! JSON-RPC framing: whatever the line, it is a message or refused, and a message passes byte for byte.
#![no_main]

#[path = "../../crates/relay/tests/it/corpus.rs"]
mod corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| corpus::judge(data));
