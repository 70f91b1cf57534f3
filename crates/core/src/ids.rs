//! Names and ids: short strings that are checked once, where they enter, and cheap to clone afterwards.
//!
//! An id is never a credential. A [`SessionId`] is a claim made good by the principal in it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name, in bytes: long enough for a path-like component name, short enough for a log line.
pub const MAX_NAME_BYTES: usize = 128;

/// A name that can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Nothing was given.
    #[error("the {what} must not be empty")]
    Empty {
        /// The kind of name.
        what: &'static str,
    },
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("the {what} has at most {MAX_NAME_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// The kind of name.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A character outside letters, digits, `.`, `_`, `-` and, inside, `:` and `@`.
    #[error(
        "the {what} is made of letters, digits and . _ - : @, starting with a letter or digit; {name:?} is not"
    )]
    Character {
        /// The kind of name.
        what: &'static str,
        /// What was given.
        name: String,
    },
    /// A session id without a principal.
    #[error("a session id is PRINCIPAL/NAME; {name:?} is not")]
    NotASession {
        /// What was given.
        name: String,
    },
}

fn checked(what: &'static str, name: &str) -> Result<Arc<str>, IdError> {
    if name.is_empty() {
        return Err(IdError::Empty { what });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(IdError::TooLong { what, bytes: name.len() });
    }
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    if !starts_well || !bytes.all(|b| b.is_ascii_alphanumeric() || b"._-:@".contains(&b)) {
        return Err(IdError::Character { what, name: name.to_owned() });
    }
    Ok(Arc::from(name))
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks and takes a name.
            ///
            /// # Errors
            /// [`IdError`] when it is empty, longer than [`MAX_NAME_BYTES`] or has a character that names don't have.
            pub fn new(name: &str) -> Result<Self, IdError> {
                checked($what, name).map(Self)
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                Self::new(s)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                crate::from_text(d)
            }
        }
    };
}

name!(
    /// One restartable server.
    ComponentName,
    "component name"
);
name!(
    /// A credential that acts: an operator, a named agent principal, or `local`.
    PrincipalName,
    "principal name"
);
name!(
    /// The name of a session within its principal.
    SessionName,
    "session name"
);
name!(
    /// One restart operation.
    OperationId,
    "operation id"
);
name!(
    /// One drain. Timers carry it, so that a late one never touches the next drain.
    DrainId,
    "drain id"
);
name!(
    /// One incident.
    IncidentId,
    "incident id"
);

impl PrincipalName {
    /// The principal of every caller without a credential.
    #[must_use]
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }
}

/// A session: the conversation of one client, surviving its connections. Written `PRINCIPAL/NAME`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// Whose session it is.
    pub principal: PrincipalName,
    /// Its name, unique within the principal.
    pub name: SessionName,
}

impl SessionId {
    /// The session `name` of `principal`.
    #[must_use]
    pub fn new(principal: PrincipalName, name: SessionName) -> Self {
        Self { principal, name }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.principal, self.name)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl FromStr for SessionId {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let (principal, name) =
            s.split_once('/').ok_or_else(|| IdError::NotASession { name: s.to_owned() })?;
        Ok(Self { principal: principal.parse()?, name: name.parse()? })
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::from_text(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        let got = match ComponentName::new(name) {
            Ok(n) => n.to_string(),
            Err(e) => e.to_string(),
        };
        assert!(got.contains(expected), "{name:?}: {got}");
    }

    #[test]
    fn names_are_checked_where_they_enter() {
        check("files", "files");
        check("a.b_c-d:e@f", "a.b_c-d:e@f");
        check("", "must not be empty");
        check("-x", "starting with a letter or digit");
        check("a b", "is not");
        check("a/b", "is not");
        check("a\nb", "is not");
        check("é", "is not");
        check(&"x".repeat(128), "x");
        check(&"x".repeat(129), "at most 128 bytes");
    }

    #[test]
    fn a_session_id_reads_back_as_written() {
        let id: SessionId = "local/s1".parse().unwrap();
        assert_eq!(id.to_string(), "local/s1");
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"local/s1\"");
        assert!("s1".parse::<SessionId>().is_err());
        assert!("local/".parse::<SessionId>().is_err());
    }
}
