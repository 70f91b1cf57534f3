//! Which server an actor has: the one of a shared component, or one session's own.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use tidegate_core::{ComponentName, SessionId};
use tidegate_governor::Component;

/// Bytes of a session's hash in the name of its server's record: no two of a daemon's sessions share so many.
const HASH_BYTES: usize = 8;

/// A server's place in the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    /// The component, by which everybody knows it.
    pub(super) component: ComponentName,
    /// Whose it is, where it is one session's own.
    pub(super) session: Option<SessionId>,
    /// The name of the record of its generations and of its process.
    pub(super) record: ComponentName,
}

impl Seat {
    /// Of the one server of a shared component.
    pub(super) fn shared(component: &ComponentName) -> Self {
        Self { component: component.clone(), session: None, record: component.clone() }
    }

    /// What is said of it where its component's name is said already: whose it is comes first, where there are several.
    pub(super) fn says(&self, message: &str) -> String {
        self.session.as_ref().map_or_else(|| message.to_owned(), |session| format!("of {session}: {message}"))
    }

    /// Whose a record is.
    pub(super) fn on_record(record: &Component) -> Self {
        let own = record.session.as_ref().and_then(|_| record.name.as_str().rsplit_once('@'));
        let component = own.and_then(|(component, _)| component.parse().ok());
        Self {
            component: component.unwrap_or_else(|| record.name.clone()),
            session: record.session.clone(),
            record: record.name.clone(),
        }
    }

    /// Of the server that a session has for itself.
    pub(super) fn of(component: &ComponentName, session: &SessionId) -> Self {
        let hash = Sha256::digest(session.to_string());
        let name = hash.iter().take(HASH_BYTES).fold(format!("{component}@"), |mut name, byte| {
            let _ = write!(name, "{byte:02x}"); // writing to a String can't fail
            name
        });
        #[allow(clippy::expect_used)] // The configuration takes no longer name than MAX_OWN_NAME_BYTES.
        let record = ComponentName::new(&name).expect("a component's name and a hash are a name");
        Self { component: component.clone(), session: Some(session.clone()), record }
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.session {
            None => self.component.fmt(f),
            Some(session) => write!(f, "{} of {session}", self.component),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_has_a_record_of_its_own_and_people_read_whose_it_is() {
        let files: ComponentName = "f".repeat(crate::config::MAX_OWN_NAME_BYTES).parse().unwrap();
        let of = |session: &str| Seat::of(&files, &session.parse().unwrap());
        assert_ne!(of("local/s1").record, of("local/s2").record);
        assert_ne!(of("local/s1").record, of("ops/s1").record);
        assert_eq!(of("local/s1").record, of("local/s1").record);
        assert_eq!(of("local/s1").to_string(), format!("{files} of local/s1"));
        assert_eq!(Seat::shared(&files).record, files);
        let record = Component { session: of("local/s1").session, ..Component::new(of("local/s1").record) };
        assert_eq!(Seat::on_record(&record), of("local/s1"));
    }
}
