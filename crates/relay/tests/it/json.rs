//! Arbitrary JSON, as text. The gateway's tests use it too.

use proptest::prelude::*;

/// Arbitrary JSON text: duplicate keys, big numbers, odd spacing, escapes, nesting.
pub(crate) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        string(),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..6), space())
                .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!(",{space}")))),
            (prop::collection::vec((string(), inner), 0..6), space()).prop_map(|(members, space)| {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| format!("{key}{space}:{space}{value}")).collect();
                format!("{{{space}{}{space}}}", members.join(&format!("{space},")))
            }),
        ]
    })
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#""id""#.to_owned()),
        Just(r#""name""#.to_owned()),
        Just(r#""\u0069d""#.to_owned()),
        Just("\"\u{2028}\\ud83d\\ude00\\ud800\"".to_owned()),
        "\"([ -!#-\\[\\]-~]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-f]{4}|[à-ÿ一-丏]){0,12}\"",
    ]
}

/// Space that may stand between the parts of JSON.
pub(crate) fn space() -> impl Strategy<Value = String> {
    "[ \t\r]{0,2}"
}
