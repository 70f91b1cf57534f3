//! What the fuzzer does to the readers of configurations, and what it found worth keeping, replayed. The fuzz target
//! compiles this file too.

use super::{Config, ConfigError, mcp::Import, raw};
use std::collections::BTreeSet;
use std::path::Path;

/// Reads `text` in both ways that a configuration is read: as ours, and as the file of a client.
pub(crate) fn judge(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    ours(text);
    of_a_client(text);
}

/// It is a configuration in which every promise of [`Config`] holds, or is refused at a line that it has.
fn ours(text: &str) {
    match raw::parse(Path::new("/etc/t/tidegate.toml"), text) {
        Ok(config) => sound(&config),
        Err(ConfigError::Invalid { line, message, .. }) => {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&line), "line {line} of {lines}");
            assert!(!message.is_empty());
        }
        Err(other) => panic!("a text alone fails by what is in it: {other}"),
    }
}

/// Every server of it has a fate, and those that are served are what the file says, word by word.
fn of_a_client(text: &str) {
    let Ok(import) = Import::parse(Path::new("/etc/t/mcp.json"), text) else { return };
    match Config::of_a_client(&import) {
        Ok(config) => {
            sound(&config);
            let served: Vec<_> =
                config.components.iter().map(|it| (&it.name, &it.command, &it.cwd)).collect();
            let there: Vec<_> = import.components().map(|(_, it)| (&it.name, &it.command, &it.cwd)).collect();
            assert_eq!(served, there);
            for (component, (_, there)) in config.components.iter().zip(import.components()) {
                let mut env = there.env.clone();
                env.sort();
                assert_eq!(component.env.clone().into_iter().collect::<Vec<_>>(), env);
            }
        }
        Err(ConfigError::Imported { message, .. }) => assert!(!message.is_empty()),
        Err(other) => panic!("what is imported is refused as imported: {other}"),
    }
    // What `tidegate import` would write is what would be served.
    let written = raw::parse(Path::new("/etc/t/tidegate.toml"), &import.configuration());
    assert_eq!(written.is_ok(), Config::of_a_client(&import).is_ok());
}

fn sound(config: &Config) {
    let mut names = BTreeSet::new();
    for component in &config.components {
        assert!(names.insert(&component.name), "{} is there twice", component.name);
        assert!(component.command.first().is_some_and(|program| !program.is_empty()));
    }
    assert!(config.state_dir.is_absolute());
}

#[test]
fn the_corpus_is_read_or_refused_and_never_more() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus/configuration");
    let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{} files", files.len());
    for file in files {
        let data = std::fs::read(&file).unwrap();
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
