//! `cargo xtask setup`: everything that the other steps need, installed by the ordinary clients or named exactly.
//! Quick when there is nothing to do. A tool that works is left alone, and rights that are
//! lacking are never asked for. Debian's client may remove a package that conflicts with one of those it installs.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::board::{Board, Step, Timer};
use crate::machine;
use crate::peers;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// The oldest node that the pinned MCP SDK supports.
const NODE_MAJOR: u32 = 20;
/// The oldest Python, as 3.MINOR, for which the pinned Python packages were chosen.
const PYTHON_MINOR: u32 = 11;
const AGAIN: &str = "cargo xtask setup";
/// Programs that a Debian package brings, by the package: what builds the container image and its file system, and what
/// it's run in; what makes a wall clock jump, and gives that machine a clock of its own; what the benchmark measures beside.
const TOOLS: [(&str, &str); 7] = [
    ("faketime", "faketime"),
    ("etcd", "etcd-server"),
    ("sqlite3", "sqlite3"),
    ("buildah", "buildah"),
    ("debootstrap", "debootstrap"),
    ("mkfs.erofs", "erofs-utils"),
    ("qemu-system-x86_64", "qemu-system-x86"),
];
/// Where programs for root are, whether or not the search path says so.
const FOR_ROOT: [&str; 2] = ["/usr/sbin", "/sbin"];

/// What this machine has.
#[derive(Clone, Debug)]
struct Facts {
    node_major: Option<u32>,
    npm: bool,
    /// Packages of `TOOLS` that aren't there.
    tools_missing: Vec<&'static str>,
    /// The MINOR of python3's 3.MINOR.
    python_minor: Option<u32>,
    /// Whether python3 can make an environment with pip in it.
    venv: bool,
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

    let runtime = [
        ("nodejs", facts.node_major.is_none()),
        ("npm", !facts.npm),
        ("python3", facts.python_minor.is_none()),
        ("python3-venv", !facts.venv),
    ];
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
                "{names} not found: install them from your distribution; node {NODE_MAJOR} or later is also at https://nodejs.org, python \
                 3.{PYTHON_MINOR} or later at https://python.org"
            )),
        }
    }
    if let Some(major) = facts.node_major.filter(|major| *major < NODE_MAJOR) {
        plan.missing.push(format!(
            "node {major} is too old, the MCP SDK needs {NODE_MAJOR} or later: Debian 13 has it (apt-get install nodejs npm), else take it from https://nodejs.org"
        ));
    }

    if let Some(minor) = facts.python_minor.filter(|minor| *minor < PYTHON_MINOR) {
        plan.missing.push(format!(
            "python 3.{minor} is too old, the MCP servers in Python need 3.{PYTHON_MINOR} or later: Debian 12 has it (apt-get install python3 \
             python3-venv), else take it from https://python.org"
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
    looked
        && todo.actions.iter().all(|action| act(board, workspace, action))
        && peers::install(board, workspace)
        && machine(board, workspace)
}

/// The machine that the container image is run in: its kernel, and process 1.
fn machine(board: &mut Board, workspace: &Workspace) -> bool {
    board.step(&Step::new("kernel", 180, AGAIN), |timer| machine::kernel(workspace, timer))
        && board.step(&Step::new("guest", 600, AGAIN), |_| {
            machine::guest(workspace)?;
            Ok("built".to_owned())
        })
}

fn act(board: &mut Board, workspace: &Workspace, action: &Action) -> bool {
    let done = match action {
        Action::Debian(packages) => board.step(&Step::new("packages", 600, AGAIN), |timer| {
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

fn look() -> Facts {
    Facts {
        node_major: says("node", &["--version"]).as_deref().and_then(major),
        npm: says("npm", &["--version"]).is_some(),
        tools_missing: TOOLS
            .into_iter()
            .filter_map(|(program, package)| (!is_there(program)).then_some(package))
            .collect(),
        python_minor: says("python3", &["--version"]).as_deref().and_then(minor),
        venv: says("python3", &["-c", "import venv, ensurepip"]).is_some(),
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

/// `Python 3.11.7` → 11.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("Python 3.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: Facts = Facts {
        node_major: Some(20),
        npm: true,
        tools_missing: Vec::new(),
        python_minor: Some(11),
        venv: true,
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
        check(Facts { venv: false, ..COMPLETE }, &[Action::Debian(vec!["python3-venv"])], &[]);
    }

    #[test]
    fn without_root_or_apt_the_command_is_named() {
        let bare = Facts { node_major: None, npm: false, ..COMPLETE };
        check(Facts { root: false, ..bare.clone() }, &[], &["sudo apt-get install -y nodejs npm"]);
        check(Facts { apt: false, ..bare }, &[], &["nodejs npm not found"]);
    }

    #[test]
    fn a_node_or_a_python_that_is_too_old_is_left_alone_and_named() {
        check(Facts { node_major: Some(18), ..COMPLETE }, &[], &["node 18 is too old"]);
        check(Facts { python_minor: Some(9), ..COMPLETE }, &[], &["python 3.9 is too old"]);
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
        assert_eq!(minor("Python 3.13.5"), Some(13));
        assert_eq!(minor("Python 2.7.18"), None);
    }
}
