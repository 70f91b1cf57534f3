//! `cargo xtask setup`: everything that the other steps need, installed by the ordinary clients or named exactly.
//! Quick when there is nothing to do. It never replaces a tool that is there, and never asks for rights it lacks.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::board::{Board, Step, Timer};
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// The oldest node that the pinned MCP SDK supports.
const NODE_MAJOR: u32 = 20;
const AGAIN: &str = "cargo xtask setup";
/// Programs that a Debian package brings, by the package: what builds the container image and its file system.
const TOOLS: [(&str, &str); 3] =
    [("buildah", "buildah"), ("debootstrap", "debootstrap"), ("mkfs.erofs", "erofs-utils")];
/// Where programs for root are, whether or not the search path says so.
const FOR_ROOT: [&str; 2] = ["/usr/sbin", "/sbin"];

/// What this machine has.
#[derive(Clone, Debug)]
struct Facts {
    node_major: Option<u32>,
    npm: bool,
    /// Packages of `TOOLS` that aren't there.
    tools_missing: Vec<&'static str>,
    nextest: bool,
    rustfmt: bool,
    clippy: bool,
    rustup: bool,
    apt: bool,
    root: bool,
}

/// Something that setup can do about what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// Debian packages, after `apt-get update`.
    Debian(Vec<&'static str>),
    RustComponents(Vec<&'static str>),
    Nextest,
}

/// What to do, and what a person has to do: each names what is missing and the command for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    actions: Vec<Action>,
    missing: Vec<String>,
}

fn plan(facts: &Facts) -> Plan {
    let mut plan = Plan::default();

    let runtime = [("nodejs", facts.node_major.is_none()), ("npm", !facts.npm)];
    let runtime = runtime.into_iter().filter_map(|(package, missing)| missing.then_some(package));
    let packages: Vec<&'static str> = runtime.chain(facts.tools_missing.iter().copied()).collect();
    if !packages.is_empty() {
        let names = packages.join(" ");
        match (facts.apt, facts.root) {
            (true, true) => plan.actions.push(Action::Debian(packages)),
            (true, false) => plan.missing.push(format!(
                "{names} not found, and only root may install them: sudo apt-get update && sudo apt-get install -y {names}"
            )),
            (false, _) => plan.missing.push(format!(
                "{names} not found: install them from your distribution, node {NODE_MAJOR} or later also from https://nodejs.org"
            )),
        }
    }
    if let Some(major) = facts.node_major.filter(|major| *major < NODE_MAJOR) {
        plan.missing.push(format!(
            "node {major} is too old, the MCP SDK needs {NODE_MAJOR} or later: Debian 13 has it (apt-get install nodejs npm), else take it from https://nodejs.org"
        ));
    }

    let components: Vec<&'static str> = [("rustfmt", !facts.rustfmt), ("clippy", !facts.clippy)]
        .into_iter()
        .filter_map(|(component, missing)| missing.then_some(component))
        .collect();
    if !components.is_empty() {
        let names = components.join(" ");
        if facts.rustup {
            plan.actions.push(Action::RustComponents(components));
        } else {
            plan.missing.push(format!("{names} not found: install them the way rustc was installed"));
        }
    }
    if !facts.nextest {
        plan.actions.push(Action::Nextest);
    }
    plan
}

/// Looks, does what it can, and leaves a step line for each thing done.
pub(crate) fn run(board: &mut Board, workspace: &Workspace) -> bool {
    let mut todo = Plan::default();
    let looked = board.step(&Step::new("setup", 30, AGAIN), |_| {
        todo = plan(&look());
        if !todo.missing.is_empty() {
            bail!("{}", todo.missing.join("\n"));
        }
        Ok(match todo.actions.len() {
            0 => "everything is there".to_owned(),
            count => format!("{count} to install"),
        })
    });
    looked && todo.actions.iter().all(|action| act(board, workspace, action)) && mcp_servers(board, workspace)
}

fn act(board: &mut Board, workspace: &Workspace, action: &Action) -> bool {
    let done = match action {
        Action::Debian(packages) => board.step(&Step::new("packages", 300, AGAIN), |timer| {
            let mut install = vec!["install", "-y", "--no-install-recommends"];
            install.extend(packages);
            kept(workspace, timer, "apt-get update", "apt-get", &["update"])?;
            kept(workspace, timer, "apt-get install", "apt-get", &install)?;
            Ok(packages.join(" "))
        }),
        Action::RustComponents(components) => board.step(&Step::new("components", 120, AGAIN), |timer| {
            let mut add = vec!["component", "add"];
            add.extend(components);
            kept(workspace, timer, "rustup component add", "rustup", &add)?;
            Ok(components.join(" "))
        }),
        // Compiled from source: minutes on two cores, once per machine.
        Action::Nextest => board.step(&Step::new("nextest", 1200, AGAIN), |timer| {
            let install = ["install", "cargo-nextest", "--locked"];
            kept(workspace, timer, "cargo install cargo-nextest", "cargo", &install)?;
            Ok("cargo-nextest".to_owned())
        }),
    };
    done && board.step(&Step::new("setup", 30, AGAIN), |_| {
        let left = plan(&look());
        if left.actions.contains(action) || !left.missing.is_empty() {
            bail!("still missing after the installation: {action:?}\n{}", left.missing.join("\n"));
        }
        Ok("installed".to_owned())
    })
}

fn kept(
    workspace: &Workspace,
    timer: &Timer,
    what: &str,
    program: &str,
    args: &[&str],
) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    Program { what, command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer).map(drop)
}

/// Installs the pinned MCP servers, unless what is installed is what the lock file says.
fn mcp_servers(board: &mut Board, workspace: &Workspace) -> bool {
    board.step(&Step::new("mcp-servers", 180, AGAIN), |timer| {
        let dir = workspace.mcp_servers();
        let stamp = workspace.results().join("setup/mcp-servers.sha256");
        let lock = dir.join("package-lock.json");
        let text = std::fs::read(&lock).with_context(|| format!("read {}", lock.display()))?;
        let wanted: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        // npm writes this file last, so a node_modules without it is half an installation.
        let complete = dir.join("node_modules/.package-lock.json").exists();
        if complete && std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok("as pinned".to_owned());
        }
        let mut command = Command::new("npm");
        command.args(["ci", "--ignore-scripts"]).current_dir(&dir);
        Program { what: "npm ci", command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer)?;
        std::fs::create_dir_all(stamp.parent().context("the stamp has a directory")?)?;
        std::fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))?;
        Ok("installed".to_owned())
    })
}

fn look() -> Facts {
    Facts {
        node_major: says("node", &["--version"]).as_deref().and_then(major),
        npm: says("npm", &["--version"]).is_some(),
        tools_missing: TOOLS
            .into_iter()
            .filter_map(|(program, package)| (!is_there(program)).then_some(package))
            .collect(),
        nextest: says("cargo", &["nextest", "--version"]).is_some(),
        rustfmt: says("cargo", &["fmt", "--version"]).is_some(),
        clippy: says("cargo", &["clippy", "--version"]).is_some(),
        rustup: says("rustup", &["--version"]).is_some(),
        apt: says("apt-get", &["--version"]).is_some(),
        root: rustix::process::geteuid().is_root(),
    }
}

/// Whether a program can be found.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(FOR_ROOT.map(Into::into)).any(|dir| dir.join(program).is_file())
}

/// What a tool prints about itself; `None` when it isn't there or doesn't work.
fn says(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `v20.20.2` → 20.
fn major(version: &str) -> Option<u32> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: Facts = Facts {
        node_major: Some(20),
        npm: true,
        tools_missing: Vec::new(),
        nextest: true,
        rustfmt: true,
        clippy: true,
        rustup: true,
        apt: true,
        root: true,
    };

    #[track_caller]
    fn check(facts: Facts, actions: &[Action], missing: &[&str]) {
        let plan = plan(&facts);
        assert_eq!(plan.actions, actions);
        assert_eq!(plan.missing.len(), missing.len(), "{:?}", plan.missing);
        for (said, expected) in plan.missing.iter().zip(missing) {
            assert!(said.contains(expected), "{said:?} should contain {expected:?}");
        }
    }

    #[test]
    fn a_complete_machine_needs_nothing() {
        check(COMPLETE, &[], &[]);
        check(Facts { rustup: false, apt: false, root: false, ..COMPLETE }, &[], &[]);
    }

    #[test]
    fn root_installs_only_the_debian_packages_that_are_missing() {
        check(Facts { npm: false, ..COMPLETE }, &[Action::Debian(vec!["npm"])], &[]);
        check(
            Facts { node_major: None, npm: false, ..COMPLETE },
            &[Action::Debian(vec!["nodejs", "npm"])],
            &[],
        );
        check(
            Facts { npm: false, tools_missing: vec!["buildah", "erofs-utils"], ..COMPLETE },
            &[Action::Debian(vec!["npm", "buildah", "erofs-utils"])],
            &[],
        );
    }

    #[test]
    fn without_root_or_apt_the_command_is_named() {
        let bare = Facts { node_major: None, npm: false, ..COMPLETE };
        check(Facts { root: false, ..bare.clone() }, &[], &["sudo apt-get install -y nodejs npm"]);
        check(Facts { apt: false, ..bare }, &[], &["nodejs npm not found"]);
    }

    #[test]
    fn a_node_that_is_too_old_is_left_alone_and_named() {
        check(Facts { node_major: Some(18), ..COMPLETE }, &[], &["node 18 is too old"]);
    }

    #[test]
    fn rust_tools_come_from_rustup_and_nextest_from_cargo() {
        let bare = Facts { nextest: false, clippy: false, ..COMPLETE };
        check(bare.clone(), &[Action::RustComponents(vec!["clippy"]), Action::Nextest], &[]);
        check(Facts { rustup: false, ..bare }, &[Action::Nextest], &["clippy not found"]);
    }

    #[test]
    fn a_version_is_read_with_and_without_its_v() {
        assert_eq!(major("v20.20.2"), Some(20));
        assert_eq!(major("26.1"), Some(26));
        assert_eq!(major("none"), None);
    }
}
