//! What a server is started as, and the digest that an approval is bound to. Hashing files is the caller's work.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use tidegate_core::ComponentName;

/// Everything that decides which program a component runs, as resolved at one moment.
///
/// It is kept in the operation, because a crash must not let another program be started than the approved one. Its
/// `Debug` form leaves out the values of the environment, which may be secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchIdentity {
    /// The command as configured.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The environment it gets beyond the inherited one.
    pub env: BTreeMap<String, String>,
    /// The file that the command resolves to.
    pub executable: String,
    /// SHA-256 of that file, in hex.
    pub executable_sha256: String,
    /// SHA-256 of the rest of its configuration (how its tools are classified, say), in hex; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
}

impl fmt::Debug for LaunchIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchIdentity")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("executable", &self.executable)
            .field("executable_sha256", &self.executable_sha256)
            .field("settings", &self.settings)
            .finish()
    }
}

/// The launch identities of the components of one operation.
pub type Launches = BTreeMap<ComponentName, LaunchIdentity>;

/// SHA-256, in hex, of what was asked: components, what each is started as, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskDigest(String);

impl AskDigest {
    /// The digest of a restart of exactly these components for this reason.
    #[must_use]
    pub fn of(launches: &Launches, reason: &str) -> Self {
        // The fields in declaration order, maps by key: the same question always gives the same bytes.
        #[derive(Serialize)]
        struct Asked<'a> {
            version: u8,
            components: &'a Launches,
            reason: &'a str,
        }
        #[allow(clippy::expect_used)] // Maps with string keys and strings alone.
        let bytes = serde_json::to_vec(&Asked { version: 1, components: launches, reason })
            .expect("a question is always JSON");
        let hash = Sha256::digest(&bytes);
        Self(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for AskDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> LaunchIdentity {
        LaunchIdentity {
            command: "node".into(),
            args: vec!["server.js".into(), "--port".into()],
            cwd: Some("/srv".into()),
            env: BTreeMap::from([("TOKEN".into(), "hunter2".into()), ("A".into(), "1".into())]),
            executable: "/usr/bin/node".into(),
            executable_sha256: "00".into(),
            settings: String::new(),
        }
    }

    fn digest(component: &str, launch: &LaunchIdentity, reason: &str) -> AskDigest {
        AskDigest::of(&BTreeMap::from([(component.parse().unwrap(), launch.clone())]), reason)
    }

    #[test]
    fn every_part_of_the_question_changes_the_digest() {
        let base = digest("files", &launch(), "stale");
        assert_eq!(base, digest("files", &launch(), "stale"), "the same question has the same digest");
        assert_ne!(base, digest("mail", &launch(), "stale"), "component");
        assert_ne!(base, digest("files", &launch(), "wedged"), "reason");
        type Change = (&'static str, fn(&mut LaunchIdentity));
        let changes: [Change; 8] = [
            ("command", |l| l.command = "bun".into()),
            ("an argument", |l| l.args[1] = "--host".into()),
            ("how the arguments are split", |l| l.args = vec!["server.js --port".into()]),
            ("working directory", |l| l.cwd = None),
            ("environment", |l| l.env.insert("A".into(), "2".into()).map_or((), drop)),
            ("where the command resolves to", |l| l.executable = "/opt/node".into()),
            ("the executable's content", |l| l.executable_sha256 = "01".into()),
            ("the rest of the configuration", |l| l.settings = "02".into()),
        ];
        for (what, change) in changes {
            let mut changed = launch();
            change(&mut changed);
            assert_ne!(base, digest("files", &changed, "stale"), "{what}");
        }
    }

    #[test]
    fn the_debug_form_keeps_the_values_of_the_environment_to_itself() {
        let text = format!("{:?}", launch());
        assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
    }
}
