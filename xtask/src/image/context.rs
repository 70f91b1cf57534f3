//! What the Containerfile copies: every part brought to one directory, with its digest. Parts that are there are kept.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::{Target, base};
use crate::board::Timer;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

const CHUNK: usize = 128 * 1024;
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The directory that the Containerfile sees.
pub(super) fn directory(workspace: &Workspace) -> PathBuf {
    super::directory(workspace).join("context")
}

pub(super) fn containerfile(workspace: &Workspace) -> PathBuf {
    workspace.root.join("fixtures/image/Containerfile")
}

/// Brings the parts of an image together and answers with their digests, by name.
pub(super) fn prepare(
    workspace: &Workspace,
    target: Target,
    timer: &Timer,
) -> anyhow::Result<BTreeMap<String, String>> {
    let context = directory(workspace);
    std::fs::create_dir_all(&context).with_context(|| format!("create {}", context.display()))?;
    let mut inputs = BTreeMap::new();
    let mut part = |name: &str, digest: String| inputs.insert(name.to_owned(), format!("sha256:{digest}"));
    part("Containerfile", file(&containerfile(workspace))?);
    let archive = context.join("base.tar");
    link(&base::archive(workspace), &archive)?;
    part("base.tar", file(&archive)?);
    part("runtimes", npm(workspace, "runtimes", timer)?);
    part("workload", copy(workspace, "workload")?);
    if target == Target::Whole {
        part("servers", npm(workspace, "servers", timer)?);
        part("sessions", copy(workspace, "sessions")?);
        part("tidegate", tidegate(workspace, timer)?);
    }
    Ok(inputs)
}

/// Installs a pinned package from npm, unless what is there is what its lock file says.
fn npm(workspace: &Workspace, name: &str, timer: &Timer) -> anyhow::Result<String> {
    let (source, installed) = (fixture(workspace, name), directory(workspace).join(name));
    let digest = file(&source.join("package-lock.json"))?;
    let stamp = directory(workspace).join(format!("{name}.sha256"));
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == digest) {
        return Ok(digest);
    }
    base::remove(&installed)?;
    std::fs::create_dir_all(&installed)?;
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        std::fs::copy(source.join(file), installed.join(file)).with_context(|| format!("copy {file}"))?;
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts"]).current_dir(&installed);
    Program { what: &format!("npm ci for {name}"), command, show: Show::Kept, logs: &workspace.logs() }
        .succeed(timer)?;
    std::fs::write(&stamp, &digest).with_context(|| format!("write {}", stamp.display()))?;
    Ok(digest)
}

/// Copies a directory of plain files, with the modes that files have in an image.
fn copy(workspace: &Workspace, name: &str) -> anyhow::Result<String> {
    let (source, target) = (fixture(workspace, name), directory(workspace).join(name));
    base::remove(&target)?;
    std::fs::create_dir_all(&target)?;
    let mut names = std::fs::read_dir(&source)
        .with_context(|| format!("read {}", source.display()))?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    names.sort();
    let mut hash = Sha256::new();
    for name in names {
        let (from, to) = (source.join(&name), target.join(&name));
        let bytes = std::fs::read(&from).with_context(|| format!("read {}", from.display()))?;
        std::fs::write(&to, &bytes).with_context(|| format!("write {}", to.display()))?;
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o644))?;
        hash.update(format!("{} {} ", name.display(), bytes.len()));
        hash.update(&bytes);
    }
    Ok(hex(hash))
}

/// A release of Tidegate that needs nothing of the system that it is in, and names no directory of this one.
fn tidegate(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    // cargo names the workspace's own files without their directory; those of others are below its home.
    let flags = format!("[\"-Ctarget-feature=+crt-static\", \"--remap-path-prefix={home}=/cargo\"]");
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--locked", "--package", "tidegate", "--bin", "tidegate"]);
    command.args(["--target", PLATFORM, "--config", "profile.release.strip=true", "--config"]);
    command.arg(format!("target.{PLATFORM}.rustflags={flags}"));
    command.current_dir(&workspace.root).env_remove("RUSTFLAGS");
    Program { what: "cargo build of tidegate", command, show: Show::Kept, logs: &workspace.logs() }
        .succeed(timer)?;
    let built = workspace.target.join(PLATFORM).join("release/tidegate");
    let copied = directory(workspace).join("tidegate");
    std::fs::copy(&built, &copied).with_context(|| format!("copy {}", built.display()))?;
    std::fs::set_permissions(&copied, PermissionsExt::from_mode(0o755))?;
    file(&copied)
}

fn fixture(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.root.join("fixtures/image").join(name)
}

/// The same file under another name.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("remove {}: {error}", to.display())
        }
        _ => std::fs::hard_link(from, to).with_context(|| format!("link {}", to.display())),
    }
}

fn file(path: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk).with_context(|| format!("read {}", path.display()))? {
            0 => return Ok(hex(hash)),
            count => hash.update(&chunk[..count]),
        }
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
