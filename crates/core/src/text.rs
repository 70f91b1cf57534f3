//! What is written as text and is more than that: parsed where it stands, and copied nowhere.

use serde::Deserializer;
use serde::de::{Error, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Deserialises a string by parsing it: the body of `Deserialize` for everything that has a text form.
///
/// # Errors
/// The deserializer's, with what the parser says.
pub fn from_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    deserializer.deserialize_str(Parsed(PhantomData))
}

struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
