//! A daemon in front of one server, and clients that reach that server one way or another.

use crate::Outcome;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A daemon in front of one server.
pub(crate) struct House {
    tidegate: PathBuf,
    server: Vec<String>,
    dir: tempfile::TempDir,
    daemon: Child,
    /// The operator's.
    token: String,
}

/// A way to the server.
#[derive(Clone)]
pub(crate) enum Variant {
    Direct,
    Cat,
    Gateway,
    Beside {
        name: String,
        command: String,
    },
    /// A server that listens on HTTP already, as `--at` or, on its older transport, as `--at-sse` has named it.
    At {
        name: String,
        url: String,
        sse: bool,
    },
}

impl Variant {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Direct => "direct",
            Self::Cat => "cat",
            Self::Gateway => "gateway",
            Self::Beside { name, .. } | Self::At { name, .. } => name,
        }
    }
}

impl House {
    pub(crate) fn open(tidegate: &Path, server: &[String]) -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let made = Command::new(tidegate).args(["token", "--json"]).output()?;
        let made: serde_json::Value = serde_json::from_slice(&made.stdout)?;
        let token = made["token"].as_str().ok_or("no token")?.to_owned();
        let config = format!(
            "[state]\nstore = \"file:./state\"\n[[operator]]\nname = \"ops\"\ntoken_sha256 = {}\n[[component]]\nname = \"it\"\n\
             state = \"stateless\"\ncommand = {}\n",
            made["token_sha256"],
            serde_json::to_string(server)?
        );
        std::fs::write(dir.path().join("tidegate.toml"), config)?;
        let mut daemon =
            Command::new(tidegate).arg("serve").current_dir(dir.path()).stderr(Stdio::piped()).spawn()?;
        let stderr = daemon.stderr.take().ok_or("no stderr")?;
        let mut said = BufReader::new(stderr).lines();
        while !said.next().ok_or("the daemon ended")??.contains("ready ") {}
        std::thread::spawn(move || said.for_each(drop));
        Ok(Self { tidegate: tidegate.into(), server: server.into(), dir, daemon, token })
    }

    /// A `tidegate` of this house, as the operator.
    pub(crate) fn operator(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tidegate);
        command.current_dir(self.dir.path()).arg("--json").args(arguments);
        command.env("TIDEGATE_TOKEN", &self.token).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    pub(crate) fn daemon_pid(&self) -> u32 {
        self.daemon.id()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The command of a client's server; none where it isn't a client that starts it.
    pub(crate) fn words(&self, variant: &Variant) -> Option<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Some(match variant {
            Variant::Direct => self.server.clone(),
            Variant::Cat => [words(&["sh", "-c", r#"cat | "$@""#, "sh"]), self.server.clone()].concat(),
            Variant::Gateway => {
                let config = self.dir.path().join("tidegate.toml").display().to_string();
                let tidegate = self.tidegate.display().to_string();
                vec![tidegate, "--config".into(), config, "connect".into(), "it".into()]
            }
            Variant::Beside { command, .. } => vec!["sh".into(), "-c".into(), format!("exec {command}")],
            Variant::At { .. } => return None,
        })
    }

    pub(crate) fn start(&self, variant: &Variant) -> Outcome<Client> {
        let words = self.words(variant).ok_or("only pipes are spoken here")?;
        let mut command = Command::new(&words[0]);
        Client::start(command.args(&words[1..]).current_dir(self.dir.path()))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.daemon.kill(); // it is gone already
        let _ = self.daemon.wait();
    }
}

/// One session, over the pipes of a process.
pub(crate) struct Client {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    line: String,
    last_id: u64,
}

impl Client {
    fn start(command: &mut Command) -> Outcome<Self> {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().ok_or("no stdout")?);
        let mut client = Self { process, to, from, line: String::new(), last_id: 0 };
        client.ask(
            "initialize",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hops","version":"1"}}"#,
        )?;
        client.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(client)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn write(&mut self, text: &str) -> Outcome<()> {
        Ok(self.to.as_mut().ok_or("closed")?.write_all(text.as_bytes())?)
    }

    fn ask(&mut self, method: &str, params: &str) -> Outcome<()> {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        ))?;
        let ours = format!("\"id\":{id}");
        loop {
            self.line.clear();
            if self.from.read_line(&mut self.line)? == 0 {
                return Err("the server has ended".into());
            }
            if self.line.contains(&ours) {
                return if self.line.contains("\"isError\":true") || self.line.contains("\"error\":{") {
                    Err(self.line.clone().into())
                } else {
                    Ok(())
                };
            }
        }
    }

    pub(crate) fn call(&mut self) -> Outcome<()> {
        self.ask("tools/call", r#"{"name":"echo","arguments":{"message":"hello"}}"#)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.process.kill(); // it may have ended with its input
        let _ = self.process.wait();
    }
}
