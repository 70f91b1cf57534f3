//! The members of a JSON object as they stand in the text, duplicates and order kept. Never changes a byte.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// One member: its decoded key and the text of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: &'a str,
}

/// All members of the object that `json` is.
pub(crate) fn members(json: &str) -> Result<Vec<Member<'_>>, serde_json::Error> {
    serde_json::from_str::<Members<'_>>(json).map(|members| members.0)
}

/// Where `part`, a slice of `whole`, stands in it.
pub(crate) fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// `text` with these ranges replaced; they don't overlap.
pub(crate) fn spliced(text: &str, mut replacements: Vec<(Range<usize>, &str)>) -> String {
    replacements.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len() + 32);
    let mut from = 0;
    for (range, replacement) in replacements {
        out.push_str(&text[from..range.start]);
        out.push_str(replacement);
        from = range.end;
    }
    out.push_str(&text[from..]);
    out
}

struct Members<'a>(Vec<Member<'a>>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push(Member { key, value: value.get() });
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A key, borrowed unless it has escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }
            fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
