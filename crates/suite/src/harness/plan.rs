//! What a rig is to be: policy, principals, components. Becomes a `tidegate.toml`.

use super::binary;
use super::fault::FaultServer;
use super::output::Output;
use super::rig::Rig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The operator that every rig has.
pub(super) const OPERATOR: &str = "ops";
/// The variable that every server of a rig, and what it leaves behind, carries: the rig's directory.
pub(super) const MARK_VAR: &str = "TIDEGATE_RIG";

#[derive(Debug, Clone)]
enum Server {
    Fault { flags: Vec<String> },
    Command { command: Vec<String> },
}

#[derive(Debug, Clone)]
struct Component {
    name: String,
    server: Server,
    settings: String,
}

/// The plan of a rig.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    policy: String,
    principals: Vec<String>,
    components: Vec<Component>,
}

impl Plan {
    /// One operator, `ops`, and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A line of `[policy]`.
    #[must_use]
    pub fn policy(mut self, line: &str) -> Self {
        self.policy += line;
        self.policy.push('\n');
        self
    }

    /// An agent with a credential of its own.
    #[must_use]
    pub fn principal(mut self, name: &str) -> Self {
        self.principals.push(name.to_owned());
        self
    }

    /// A component that is a fault server whose annotations are trusted.
    #[must_use]
    pub fn fault(self, name: &str, flags: &[&str]) -> Self {
        self.fault_with(name, flags, "trust_annotations = true")
    }

    /// A component that is a fault server, with further lines of its `[[component]]`.
    #[must_use]
    pub fn fault_with(mut self, name: &str, flags: &[&str], settings: &str) -> Self {
        let server = Server::Fault { flags: owned(flags) };
        self.components.push(Component { name: name.to_owned(), server, settings: settings.to_owned() });
        self
    }

    /// A component that is any command, with further lines of its `[[component]]`.
    #[must_use]
    pub fn component(mut self, name: &str, command: &[&str], settings: &str) -> Self {
        let server = Server::Command { command: owned(command) };
        self.components.push(Component { name: name.to_owned(), server, settings: settings.to_owned() });
        self
    }

    /// Makes the rig; nothing runs yet.
    #[must_use]
    pub fn build(self) -> Rig {
        let dir = tempfile::Builder::new().prefix("tidegate-rig-").tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut tokens = BTreeMap::new();
        let mut text = format!("[state]\nstore = \"file:./state\"\n\n[policy]\n{}", self.policy);
        let operator = OPERATOR.to_owned();
        for (kind, name) in [("operator", &operator)]
            .into_iter()
            .chain(self.principals.iter().map(|name| ("principal", name)))
        {
            let made = Output::of(Command::new(binary::tidegate()).args(["token", "--json"])).done();
            let _ = write!(
                text,
                "\n[[{kind}]]\nname = {}\ntoken_sha256 = {}\n",
                json!(name),
                made["token_sha256"]
            );
            tokens.insert(name.clone(), made["token"].as_str().unwrap().to_owned());
        }
        let mut faults = BTreeMap::new();
        for component in &self.components {
            text += &table(component, &root);
            if let Server::Fault { .. } = component.server {
                let server = FaultServer::new(root.join(&component.name));
                std::fs::create_dir(server.dir()).unwrap();
                faults.insert(component.name.clone(), server);
            }
        }
        std::fs::write(root.join("tidegate.toml"), text).unwrap();
        Rig::new(dir, root, tokens, faults)
    }

    /// Makes the rig and starts its daemon.
    #[must_use]
    pub fn start(self) -> Rig {
        let mut rig = self.build();
        rig.serve();
        rig
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A `[[component]]`. JSON's strings and arrays of strings are TOML's too.
fn table(component: &Component, root: &Path) -> String {
    let command: Value = match &component.server {
        Server::Command { command } => json!(command),
        Server::Fault { flags } => {
            let server = FaultServer::new(root.join(&component.name));
            let program = binary::fault_server();
            let own = [
                program.as_path(),
                "--dir".as_ref(),
                server.dir(),
                "--script".as_ref(),
                &server.script_file(),
            ]
            .map(|part| part.to_str().unwrap().to_owned());
            json!(own.iter().chain(flags).collect::<Vec<_>>())
        }
    };
    format!(
        "\n[[component]]\nname = {}\ncommand = {command}\nenv = {{ {MARK_VAR} = {} }}\n{}\n",
        json!(component.name),
        json!(root),
        component.settings
    )
}
