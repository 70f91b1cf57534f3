//! The journal's reader: whatever the bytes, it opens or refuses, and says the same each time.
#![no_main]

#[path = "../../crates/store/tests/it/corpus.rs"]
mod corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| corpus::judge(data));
