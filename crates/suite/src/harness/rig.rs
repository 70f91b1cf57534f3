//! A rig: one state directory, its daemon through any number of deaths, and everybody who talks to it.

use super::binary;
use super::client::Client;
use super::fault::FaultServer;
use super::output::Output;
use super::plan::OPERATOR;
use super::process::{Exit, Process};
use super::residue::Residue;
use super::wait::{eventually, until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What a daemon says when it accepts.
const READY: &str = "ready ";

/// A state directory and everything around it. Dropped, it leaves nothing running.
#[derive(Debug)]
pub struct Rig {
    daemon: Option<Process>,
    root: PathBuf,
    tokens: BTreeMap<String, String>,
    faults: BTreeMap<String, FaultServer>,
    _dir: TempDir,
}

impl Rig {
    pub(super) fn new(
        dir: TempDir,
        root: PathBuf,
        tokens: BTreeMap<String, String>,
        faults: BTreeMap<String, FaultServer>,
    ) -> Self {
        Self { daemon: None, root, tokens, faults, _dir: dir }
    }

    /// The rig's directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("tidegate.toml")
    }

    /// Its state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// The token of an operator or principal.
    #[must_use]
    pub fn token(&self, name: &str) -> &str {
        &self.tokens[name]
    }

    /// The fault server behind a component.
    #[must_use]
    pub fn server(&self, component: &str) -> &FaultServer {
        &self.faults[component]
    }

    // --- the daemon ---

    /// Starts the daemon and waits until it accepts.
    #[track_caller]
    pub fn serve(&mut self) {
        self.serve_under(&[]);
    }

    /// As [`Rig::serve`], through a program that sets limits and becomes the daemon.
    #[track_caller]
    pub fn serve_under(&mut self, wrapper: &[&str]) {
        assert!(self.daemon.is_none(), "the rig's daemon runs already");
        let mut daemon = self.serve_raw(wrapper);
        eventually("the daemon is ready or has ended", || {
            !daemon.is_running() || daemon.stderr().lines().any(|line| line.starts_with(READY))
        });
        assert!(daemon.is_running(), "the daemon ended: {}", daemon.stderr());
        self.daemon = Some(daemon);
    }

    /// Starts a daemon beside the rig's own, or one that is expected to end; through `wrapper` where there is one.
    #[must_use]
    pub fn serve_raw(&self, wrapper: &[&str]) -> Process {
        let serve = self.command(None);
        let mut words = wrapper.iter().map(OsStr::new).chain([serve.get_program()]).chain(serve.get_args());
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("serve").env_remove("TIDEGATE_CONFIG").env_remove("TIDEGATE_TOKEN");
        Process::start("the daemon", command)
    }

    /// The daemon's process.
    #[must_use]
    pub fn daemon(&self) -> &Process {
        self.daemon.as_ref().unwrap()
    }

    /// `kill -9` of the daemon.
    pub fn kill(&mut self) -> Exit {
        self.daemon.take().unwrap().kill()
    }

    /// SIGTERM to the daemon; gives how it ended.
    pub fn terminate(&mut self) -> Exit {
        let daemon = self.daemon.take().unwrap();
        daemon.signal(Signal::TERM);
        daemon.wait()
    }

    /// Waits until the daemon has ended by itself; gives how.
    pub fn ended_by_itself(&mut self) -> Exit {
        self.daemon.take().unwrap().wait()
    }

    /// Every process of the rig that runs.
    #[must_use]
    pub fn running(&self) -> Vec<Residue> {
        Residue::of(&self.root)
    }

    /// Waits until nothing of the rig runs any more.
    #[track_caller]
    pub fn leaves_nothing(&self) {
        let mut left = Vec::new();
        let is_gone = || {
            left = Residue::of(&self.root);
            left.is_empty()
        };
        let gone =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually("nothing is left", is_gone)));
        assert!(gone.is_ok(), "left behind: {left:?}");
    }

    /// Waits until nothing runs but the shims, whose clients live.
    #[track_caller]
    pub fn leaves_no_server(&self) {
        let is_shim = |it: &Residue| it.command.contains(" connect ");
        eventually("no server is left", || Residue::of(&self.root).iter().all(is_shim));
    }

    // --- commands ---

    /// A `tidegate` of this rig, as `by` (nobody: `local`).
    #[must_use]
    pub fn command(&self, by: Option<&str>) -> Command {
        let mut command = Command::new(binary::tidegate());
        command.arg("--config").arg(self.config()).env_remove("TIDEGATE_CONFIG").env_remove("TIDEGATE_TOKEN");
        if let Some(by) = by {
            command.env("TIDEGATE_TOKEN", self.token(by));
        }
        command
    }

    /// Runs a command without a credential.
    pub fn local(&self, args: &[&str]) -> Output {
        Output::of(self.command(None).arg("--json").args(args))
    }

    /// Runs a command as an operator or principal.
    pub fn by(&self, by: &str, args: &[&str]) -> Output {
        Output::of(self.command(Some(by)).arg("--json").args(args))
    }

    /// Runs a command as the operator.
    pub fn ops(&self, args: &[&str]) -> Output {
        self.by(OPERATOR, args)
    }

    /// The document of `status`.
    #[track_caller]
    #[must_use]
    pub fn status(&self) -> Value {
        self.local(&["status"]).done()
    }

    /// One component of `status`.
    #[track_caller]
    #[must_use]
    pub fn component(&self, name: &str) -> Value {
        named(&self.status()["components"], "name", name)
    }

    /// Waits until a component is ready and its gate open.
    #[track_caller]
    pub fn is_ready(&self, name: &str) -> Value {
        until(&format!("{name} is ready"), || {
            Some(self.component(name)).filter(|component| component["state"] == "ready")
        })
    }

    /// Waits until so many requests are held at a component's gate.
    #[track_caller]
    pub fn holds(&self, name: &str, count: usize) {
        eventually(&format!("{count} requests are held at {name}"), || self.component(name)["held"] == count);
    }

    /// The incidents that are not resolved.
    #[track_caller]
    #[must_use]
    pub fn open_incidents(&self) -> Vec<Value> {
        let all = self.local(&["incidents", "list"]).done();
        all["incidents"].as_array().unwrap().iter().filter(|it| it["state"] != "resolved").cloned().collect()
    }

    /// What a session is told, from durable state alone.
    #[track_caller]
    #[must_use]
    pub fn resume(&self, session: &str) -> Value {
        self.local(&["resume", "--session", session]).done()
    }

    // --- operations ---

    /// Asks for a restart; gives the operation's id.
    #[track_caller]
    pub fn request(&self, by: &str, components: &[&str]) -> String {
        operation_id(&self.by(by, &request(components)).done())
    }

    /// Asks for a restart without a credential; gives the operation's id.
    #[track_caller]
    pub fn asks(&self, components: &[&str]) -> String {
        operation_id(&self.local(&request(components)).done())
    }

    /// An operation.
    #[track_caller]
    #[must_use]
    pub fn operation(&self, id: &str) -> Value {
        self.local(&["restart", "show", id]).done()["operation"].clone()
    }

    /// Waits until an operation is in one of these phases.
    #[track_caller]
    pub fn reaches(&self, id: &str, phases: &[&str]) -> Value {
        until(&format!("operation {id} reaches {phases:?}"), || {
            let operation = self.operation(id);
            let there = phases.iter().any(|phase| operation["phase"] == *phase);
            (there && (operation["phase"] != "Draining" || self.has_closed(&operation))).then_some(operation)
        })
    }

    /// Whether the gates of an operation that drains are closed: it is durable that they will be before they are.
    fn has_closed(&self, operation: &Value) -> bool {
        let mut scope = operation["scope"].as_array().into_iter().flatten().filter_map(Value::as_str);
        scope.all(|name| self.component(name)["state"] != "ready")
    }

    /// Waits for the end of an operation, whatever it is.
    #[track_caller]
    #[must_use]
    pub fn ended(&self, id: &str) -> Value {
        let waited = self.local(&["restart", "wait", id]);
        let operation = waited.document()["operation"].clone();
        assert_eq!(waited.code, i32::from(operation["phase"] != "Completed"), "{waited:?}");
        operation
    }

    /// A whole restart by the operator; it is completed.
    #[track_caller]
    pub fn restarts(&self, components: &[&str]) -> Value {
        let id = self.request(OPERATOR, components);
        let operation = self.ended(&id);
        assert_eq!(operation["phase"], "Completed", "{operation}");
        operation
    }

    // --- clients ---

    /// A client process with a stream to a component, before its handshake.
    #[must_use]
    pub fn shim(&self, component: &str, session: &str) -> Client {
        let mut command = self.command(None);
        command.args(["connect", component, "--session", session]);
        Client::start(&format!("{session} at {component}"), command)
    }

    /// A session connected to a component.
    #[track_caller]
    #[must_use]
    pub fn connect(&self, component: &str, session: &str) -> Client {
        let mut client = self.shim(component, session);
        client.handshake();
        client
    }

    /// A session connected to a component through a client process of its own, which dies with it when it is killed.
    #[track_caller]
    #[must_use]
    pub fn connect_apart(&self, component: &str, session: &str) -> Client {
        self.client_apart(session, &["connect", component, "--session", session])
    }

    /// The governance tools, in the name of a session, through a client process of their own.
    #[track_caller]
    #[must_use]
    pub fn control_apart(&self, session: &str) -> Client {
        self.client_apart(session, &["connect", "--control", "--session", session])
    }

    fn client_apart(&self, session: &str, args: &[&str]) -> Client {
        let name = format!("{session}, apart");
        let mut client = Client::over(&name, Process::start_group(&name, self.apart(args)));
        client.handshake();
        client
    }

    /// `tidegate ARGS` below a shell, so that the shell is its parent: the client, as far as Tidegate can see.
    fn apart(&self, args: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$@\"; exit $?", "client"]).arg(binary::tidegate());
        shell.arg("--config").arg(self.config()).args(args);
        shell.env_remove("TIDEGATE_CONFIG").env_remove("TIDEGATE_TOKEN");
        shell
    }

    /// Program and arguments of a shim, for a client that starts its servers itself.
    #[must_use]
    pub fn connect_args(&self, component: &str, session: &str) -> (PathBuf, Vec<String>) {
        let config = self.config().to_str().unwrap().to_owned();
        let args = ["--config", &config, "connect", component, "--session", session].map(str::to_owned);
        (binary::tidegate(), args.into())
    }

    /// The governance tools, in the name of a session, as `by` (nobody: `local`).
    #[track_caller]
    #[must_use]
    pub fn control_as(&self, by: Option<&str>, session: &str) -> Client {
        let mut command = self.command(by);
        command.args(["connect", "--control", "--session", session]);
        let mut client = Client::start(&format!("{session} at the control endpoint"), command);
        client.handshake();
        client
    }

    /// The governance tools, in the name of a session.
    #[track_caller]
    #[must_use]
    pub fn control(&self, session: &str) -> Client {
        self.control_as(None, session)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(daemon) = &self.daemon
        {
            // What it said belongs to the failure.
            #[allow(clippy::print_stderr)]
            {
                eprintln!("the daemon said:\n{}", daemon.stderr());
            }
        }
        self.daemon = None;
        Residue::end_all(&self.root);
    }
}

fn request<'a>(components: &[&'a str]) -> Vec<&'a str> {
    ["restart", "request", "--reason", "the test says so"]
        .into_iter()
        .chain(components.iter().copied())
        .collect()
}

/// The id of the operation in a document.
#[track_caller]
fn operation_id(document: &Value) -> String {
    document["operation"]["id"].as_str().unwrap_or_else(|| panic!("no operation: {document}")).to_owned()
}

/// The object of a list with that name.
#[track_caller]
fn named(list: &Value, key: &str, name: &str) -> Value {
    let found = list.as_array().into_iter().flatten().find(|object| object[key] == name);
    found.unwrap_or_else(|| panic!("there is no {name} in {list}")).clone()
}
