//! What the fuzzer does to JSON-RPC framing, and what it found worth keeping, replayed. The fuzz target compiles this file
//! too.

use std::fs;
use std::path::Path;
use tidegate_relay::Message;

/// Reads a line in each way that bytes are read: it is a message or refused; a message passes byte for byte, and with
/// another id it is a message still.
pub(crate) fn judge(line: &[u8]) {
    let Ok(message) = Message::parse(line.to_vec()) else { return };
    assert_eq!(message.line().as_bytes(), line, "byte for byte");
    let with_another_id = message.with_id("7");
    let again = Message::parse(with_another_id).expect("another id leaves a message a message");
    assert_eq!(std::mem::discriminant(again.kind()), std::mem::discriminant(message.kind()));
    assert_eq!(again.result(), message.result(), "nothing but the id has changed");
}

#[test]
fn the_corpus_is_read_or_refused_and_never_more() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus/json-rpc");
    let mut files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{} files", files.len());
    for file in files {
        let data = fs::read(&file).unwrap();
        for length in 0..=data.len() {
            judge(&data[..length]);
        }
        // Each byte changed once, as a fuzzer would begin.
        for at in 0..data.len() {
            let mut changed = data.clone();
            changed[at] ^= 0x01;
            judge(&changed);
        }
    }
}
