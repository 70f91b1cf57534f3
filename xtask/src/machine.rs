//! What the executor `vm` needs beside the emulator: the kernel of a Debian package, unpacked and never installed, and
//! process 1 of the machine, built as one static program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use tidegate_determinism::MACHINE_MODULES;

use crate::board::Timer;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// The package that only names the newest kernel.
const NEWEST: &str = "linux-image-cloud-amd64";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Unpacks the kernel unless one is there: another one would be another machine, and every snapshot void.
pub(crate) fn kernel(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let kept = workspace.results().join("kernel");
    let version = kept.join("version");
    if let Ok(version) = fs::read_to_string(&version) {
        return Ok(version);
    }
    fs::create_dir_all(workspace.results())?;
    let scratch = workspace.results().join("kernel.part");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(scratch.join("kernel/modules"))?;
    let run = |what: &str, command: &mut Command| {
        command.current_dir(&scratch);
        let mut taken = Command::new(command.get_program());
        taken.args(command.get_args()).current_dir(&scratch);
        Program { what, command: taken, show: Show::Answer, logs: &workspace.logs() }.succeed(timer)
    };
    let depends = run("apt-cache depends", Command::new("apt-cache").args(["depends", NEWEST]))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .with_context(|| format!("{NEWEST} names no kernel: apt-get update"))?;
    run("apt-get download", Command::new("apt-get").args(["download", package]))?;
    let archive = only(&scratch, "deb")?;
    run("dpkg", Command::new("dpkg").arg("-x").arg(&archive).arg("unpacked"))?;
    let unpacked = scratch.join("unpacked");
    fs::rename(find(&unpacked.join("boot"), "vmlinuz-")?, scratch.join("kernel/vmlinuz"))?;
    for module in MACHINE_MODULES {
        fs::rename(find(&unpacked.join("lib"), module)?, scratch.join("kernel/modules").join(module))?;
    }
    let name = archive.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    fs::write(scratch.join("kernel/version"), &name)?;
    if kept.exists() {
        // Without its version it is a part of one, and of no use.
        fs::remove_dir_all(&kept)?;
    }
    fs::rename(scratch.join("kernel"), &kept).with_context(|| format!("move to {}", kept.display()))?;
    fs::remove_dir_all(&scratch)?;
    Ok(name)
}

/// Builds process 1. Its own target directory and its own flags: what is static must not make everything else be built
/// again.
pub(crate) fn guest(workspace: &Workspace) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["build", "--package", "tidegate-guest", "--bins", "--profile", "guest", "--target", TARGET])
        .arg("--target-dir")
        .arg(workspace.results().join("guest"))
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(&workspace.root)
        .status()
        .context("start cargo")?;
    if !status.success() {
        bail!("tidegate-guest doesn't build: cargo build --package tidegate-guest");
    }
    Ok(())
}

/// The one file below `dir` with this ending.
fn only(dir: &Path, ending: &str) -> anyhow::Result<PathBuf> {
    let paths = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .into_iter()
        .find(|path| path.extension().is_some_and(|found| found == ending))
        .with_context(|| format!("no .{ending} in {}", dir.display()))
}

/// The first file below `dir` whose name begins so.
fn find(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with(name) {
                return Ok(entry.path());
            }
        }
    }
    bail!("the kernel's package holds no {name}")
}
