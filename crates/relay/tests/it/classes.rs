//! What class a call has, and on whose word.

use tidegate_core::WorkClass::{self, Idempotent, Mutating, ReadOnly};
use tidegate_relay::{Annotations, Classified, Classifier};

const READ: Classified = Classified { class: ReadOnly, replay: false };
const WRITE: Classified = Classified { class: Mutating, replay: false };
const AGAIN: Classified = Classified { class: Idempotent, replay: true };

/// The class of the tool `t`, of which the server says this.
#[track_caller]
fn check(annotations: &str, trusted: bool, expected: WorkClass) {
    let mut classifier = Classifier::new([], trusted);
    let tool = format!(r#"{{"name":"t","annotations":{annotations}}}"#);
    classifier.set_annotations([("t".to_owned(), Annotations::of_tool(&tool))].into());
    assert_eq!(
        classifier.classify("tools/call", Some("t")),
        Classified { class: expected, replay: false },
        "{annotations}"
    );
}

#[test]
fn a_trusted_server_is_believed_where_it_does_not_contradict_itself() {
    check(r#"{"readOnlyHint":true}"#, true, ReadOnly);
    check(r#"{"readOnlyHint":true,"destructiveHint":false}"#, true, ReadOnly);
    check(r#"{"readOnlyHint":true,"idempotentHint":false}"#, true, ReadOnly);
    check(r#"{"readOnlyHint":true,"destructiveHint":true}"#, true, Mutating);
    check(r#"{"readOnlyHint":true,"destructiveHint":true,"idempotentHint":true}"#, true, Mutating);
    check(r#"{"readOnlyHint":false,"idempotentHint":true}"#, true, Idempotent);
    check(r#"{"idempotentHint":true,"destructiveHint":true}"#, true, Idempotent);
    check(r#"{"readOnlyHint":false}"#, true, Mutating);
    check(r#"{"readOnlyHint":"true"}"#, true, Mutating);
    check(r#"{"readOnlyHint":1}"#, true, Mutating);
    check(r#"{"readOnlyHint":true,"readOnlyHint":false}"#, true, Mutating);
    check(r#"{"readOnlyHint":true,"\u0072eadOnlyHint":true}"#, true, Mutating);
    check("{}", true, Mutating);
    check("null", true, Mutating);
    check("[true]", true, Mutating);
}

#[test]
fn a_server_that_is_not_trusted_is_not_asked() {
    check(r#"{"readOnlyHint":true}"#, false, Mutating);
    check(r#"{"idempotentHint":true}"#, false, Mutating);
}

#[test]
fn the_operators_word_beats_the_annotations_and_a_name_is_never_evidence() {
    let hint = |text| [("read_file".to_owned(), Annotations::of_tool(text))].into();
    let mut classifier = Classifier::new([("read_*".to_owned(), WRITE)], true);
    classifier.set_annotations(hint(r#"{"annotations":{"readOnlyHint":true}}"#));
    assert_eq!(classifier.classify("tools/call", Some("read_file")), WRITE);
    let mut classifier = Classifier::new([("read_*".to_owned(), READ)], true);
    classifier.set_annotations(hint(r#"{"annotations":{"destructiveHint":true}}"#));
    assert_eq!(classifier.classify("tools/call", Some("read_file")), READ);
    for name in ["read_file", "get", "list_all", "search", "readOnly", ""] {
        assert_eq!(Classifier::new([], true).classify("tools/call", Some(name)), WRITE, "{name}");
    }
}

/// The class of `tool` by these globs.
#[track_caller]
fn by_glob(globs: &[(&str, Classified)], tool: &str, expected: Classified) {
    let rules = globs.iter().map(|(glob, word)| ((*glob).to_owned(), *word));
    assert_eq!(
        Classifier::new(rules, false).classify("tools/call", Some(tool)),
        expected,
        "{tool} by {globs:?}"
    );
}

#[test]
fn the_most_specific_glob_counts_and_of_equals_the_more_dangerous() {
    by_glob(&[("read_*", READ)], "read_file", READ);
    by_glob(&[("read_*", READ)], "read", WRITE);
    by_glob(&[("read_*", READ)], "spread_it", WRITE);
    by_glob(&[("*", READ)], "", READ);
    by_glob(&[("?et", READ)], "get", READ);
    by_glob(&[("?et", READ)], "gget", WRITE);
    by_glob(&[("a*b*c", READ)], "aXbYbZc", READ);
    by_glob(&[("a*b*c", READ)], "aXbYbZ", WRITE);
    by_glob(&[("größe?", READ)], "größen", READ);
    by_glob(&[("*", READ), ("write_*", WRITE)], "write_x", WRITE);
    by_glob(&[("*", WRITE), ("read_x", READ)], "read_x", READ);
    by_glob(&[("a*", READ), ("*b", WRITE)], "ab", WRITE);
    by_glob(&[("*b", AGAIN), ("a*", READ)], "ab", AGAIN);
}

#[test]
fn other_methods_have_the_class_that_the_protocol_gives_them() {
    for (method, class, replay) in [
        ("ping", ReadOnly, false),
        ("initialize", ReadOnly, false),
        ("tools/list", ReadOnly, false),
        ("prompts/list", ReadOnly, false),
        ("prompts/get", ReadOnly, false),
        ("resources/list", ReadOnly, false),
        ("resources/templates/list", ReadOnly, false),
        ("resources/read", ReadOnly, false),
        ("completion/complete", ReadOnly, false),
        ("logging/setLevel", Idempotent, true),
        ("resources/subscribe", Idempotent, true),
        ("resources/unsubscribe", Idempotent, true),
        ("tools/call", Mutating, false),
        ("resources/readAll", Mutating, false),
        ("x/list", Mutating, false),
        ("", Mutating, false),
    ] {
        assert_eq!(Classifier::default().classify(method, None), Classified { class, replay }, "{method}");
    }
}
