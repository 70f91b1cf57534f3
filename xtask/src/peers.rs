//! The programs that nobody here wrote: servers and clients of the MCP project, pinned by lock files below `fixtures/` and installed
//! by npm, pip and cargo; and `cargo xtask peers`, which runs every one of those clients with every one of those servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::board::{Board, Step, Timer};
use crate::nextest::{self, Slice};
use crate::process::{Program, Show};
use crate::workspace::Workspace;

const AGAIN: &str = "cargo xtask setup";
const AGAIN_MORE: &str = "cargo xtask setup --peers";
/// Every client with every server: a minute and a half on an idle machine, and the build before it.
const BUDGET_S: u64 = 1_800;

/// A pinned installation: whole when its lock file is the one that was installed, and its last file is there.
struct Pinned {
    name: &'static str,
    lock: PathBuf,
    /// Written last by whatever installs it.
    whole: PathBuf,
}

/// Installs what every test run needs: the servers and the SDK of npm, and those of Python.
pub(crate) fn install(board: &mut Board, workspace: &Workspace) -> bool {
    board.step(&Step::new("mcp-servers", 180, AGAIN), |timer| {
        npm(workspace, timer, "mcp-servers", &workspace.mcp_servers(), &["ci"])
    }) && board.step(&Step::new("mcp-python", 300, AGAIN), |timer| python(workspace, timer))
}

/// Installs what only the whole matrix needs: the inspector, which is large, and rmcp, which is compiled.
pub(crate) fn install_more(board: &mut Board, workspace: &Workspace) -> bool {
    let fixtures = workspace.root.join("fixtures");
    board.step(&Step::new("inspector", 300, AGAIN_MORE), |timer| {
        // One of its optional packages was never published. `npm ci` gives up over it; this takes the rest as pinned.
        npm(workspace, timer, "mcp-inspector", &fixtures.join("mcp-inspector"), &["install", "--no-save"])
    }) && board.step(&Step::new("rmcp", 600, AGAIN_MORE), |timer| {
        let mut command = Command::new("cargo");
        command.args(["build", "--locked"]).current_dir(fixtures.join("mcp-rmcp"));
        command.env("CARGO_TARGET_DIR", workspace.results().join("rmcp"));
        let what = "cargo build of the rmcp client";
        Program { what, command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer)?;
        Ok("built".to_owned())
    })
}

/// Every client with every server, across restarts, upgrades and kills.
pub(crate) fn run(board: &mut Board, workspace: &Workspace) -> bool {
    board.step(&Step::new("peers", BUDGET_S, "cargo xtask peers"), |timer| {
        let selection = ["--ignore-default-filter", "-E", "package(tidegate-suite) & test(/^external::/)"];
        nextest::run(workspace, timer, "ci", Slice::WHOLE, &selection.map(str::to_owned), &[])?;
        Ok("every client with every server".to_owned())
    })
}

fn npm(
    workspace: &Workspace,
    timer: &Timer,
    name: &'static str,
    dir: &Path,
    verb: &[&str],
) -> anyhow::Result<String> {
    let pinned = Pinned {
        name,
        lock: dir.join("package-lock.json"),
        // npm writes this file last, so a node_modules without it is half an installation.
        whole: dir.join("node_modules/.package-lock.json"),
    };
    pinned.install(workspace, |logs| {
        let mut command = Command::new("npm");
        command.args(verb).arg("--ignore-scripts").current_dir(dir);
        Program { what: "npm", command, show: Show::Kept, logs }.succeed(timer).map(drop)
    })
}

fn python(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let requirements = workspace.root.join("fixtures/mcp-python/requirements.txt");
    let environment = workspace.results().join("python");
    let pinned = Pinned {
        name: "mcp-python",
        lock: requirements.clone(),
        whole: environment.join("bin/mcp-server-time"),
    };
    pinned.install(workspace, |logs| {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(&environment);
        Program { what: "python3 -m venv", command, show: Show::Kept, logs }.succeed(timer)?;
        let mut command = Command::new(environment.join("bin/python"));
        command.args(["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary", ":all:"]);
        command.arg("--requirement").arg(&requirements);
        Program { what: "pip install", command, show: Show::Kept, logs }.succeed(timer).map(drop)
    })
}

impl Pinned {
    /// Installs, unless what is installed is what the lock file says.
    fn install(
        &self,
        workspace: &Workspace,
        install: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        let stamp = workspace.results().join("setup").join(format!("{}.sha256", self.name));
        let text = std::fs::read(&self.lock).with_context(|| format!("read {}", self.lock.display()))?;
        let wanted: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        if self.whole.exists() && std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok("as pinned".to_owned());
        }
        install(&workspace.logs())?;
        std::fs::create_dir_all(stamp.parent().context("the stamp has a directory")?)?;
        std::fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))?;
        Ok("installed".to_owned())
    }
}
