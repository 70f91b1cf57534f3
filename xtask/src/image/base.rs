//! The Debian base: unpacked and configured by debootstrap, then made the same whenever it is made from the same
//! packages. Kept as one tar archive; which packages those were is part of the image's provenance.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::board::Timer;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// The release of Debian whose machine the executors emulate.
const SUITE: &str = "bookworm";
/// What the runtimes need beyond the smallest system.
const PACKAGES: &str = "libatomic1";
/// The time of every file: the image says nothing about when it was built.
pub(super) const EPOCH: &str = "1700000000";
/// Counts up whenever the same packages would become another base.
const RECIPE: &str = "1";

/// What says when or where a system was set up, and what nothing in the image reads. Directories stay, empty.
const LEFT_OUT: [&str; 15] = [
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./run/*",
    "./tmp/*",
    "./var/log/*",
    "./var/cache/*",
    "./var/lib/apt/lists/*",
    "./etc/machine-id",
    "./etc/hostname",
    "./etc/resolv.conf",
    "./usr/share/man/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/lintian/*",
];

/// The archive of the base.
pub(super) fn archive(workspace: &Workspace) -> PathBuf {
    super::directory(workspace).join(format!("base-{SUITE}-{RECIPE}.tar"))
}

/// The base, made unless it is there.
pub(super) fn ensure(workspace: &Workspace, timer: &Timer) -> anyhow::Result<String> {
    let archive = archive(workspace);
    if archive.exists() {
        return Ok("there already".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        bail!("debootstrap sets up a system, which only root may: sudo -E cargo xtask image");
    }
    let directory = super::directory(workspace);
    std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    // Not below a directory that is closed to others: packages are configured as users of their own.
    let scratch = directory.join("base");
    remove(&scratch)?;
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]).arg(&scratch);
    command.env("SOURCE_DATE_EPOCH", EPOCH).env("LC_ALL", "C");
    Program { what: "debootstrap", command, show: Show::Kept, logs: &workspace.logs() }
        .succeed(timer)
        .context("`cargo xtask setup` installs debootstrap")?;
    let shadow = scratch.join("etc/shadow");
    let text = std::fs::read_to_string(&shadow).with_context(|| format!("read {}", shadow.display()))?;
    std::fs::write(&shadow, undated(&text)).with_context(|| format!("write {}", shadow.display()))?;
    pack(workspace, &scratch, &archive, timer)?;
    remove(&scratch)?;
    Ok(format!("{SUITE}, made"))
}

fn pack(workspace: &Workspace, tree: &Path, archive: &Path, timer: &Timer) -> anyhow::Result<()> {
    let beside = archive.with_extension("tar.part");
    let mut command = Command::new("tar");
    command.args(["--create", "--sort=name", "--numeric-owner", "--format=gnu", "--wildcards"]);
    command.arg(format!("--mtime=@{EPOCH}"));
    command.args(LEFT_OUT.map(|pattern| format!("--exclude={pattern}")));
    command.arg("--directory").arg(tree).arg("--file").arg(&beside).arg(".");
    Program { what: "tar of the base", command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer)?;
    std::fs::rename(&beside, archive).with_context(|| format!("write {}", archive.display()))
}

/// A shadow file without the days on which passwords were set.
fn undated(shadow: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let Some(day) = fields.get_mut(2) {
            *day = "19675";
        }
        fields.join(":") + "\n"
    };
    shadow.lines().map(line).collect()
}

pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::undated;

    #[test]
    fn a_password_has_no_day_on_which_it_was_set() {
        assert_eq!(undated("root:*:20787:0:99999:7:::\nx\n"), "root:*:19675:0:99999:7:::\nx\n");
    }
}
