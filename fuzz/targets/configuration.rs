//! Configurations, ours and those of clients: whatever the text, it is one or refused at a line, and what is served is what
//! is there.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the gateway uses the rest of it")]

#[path = "../../crates/gateway/src/config/mod.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| config::corpus::judge(data));
