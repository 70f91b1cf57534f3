//! A command in another root file system, by util-linux: a mount namespace, a layer that is thrown away with it, and the
//! machine's own `/proc` and `/dev`. For `native` and `sandbox`; the machine of `vm` has its root as memory.
//!
//! Must never write into the root: each task begins with the same files.

use std::ffi::OsString;
use std::path::Path;

use rustix::process::geteuid;

use crate::image::Config;

/// Stacks an empty layer on the root (the present directory), and runs the words behind in it. Only this namespace sees
/// `/mnt`, and it ends with the command.
const LAYER: &str = r#"trap 'exit 125' EXIT
set -e
/bin/mount -t tmpfs tmpfs /mnt
/bin/mkdir /mnt/upper /mnt/work /mnt/root
/bin/mount -t overlay overlay -o lowerdir=.,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
/bin/mkdir -p /mnt/root/proc /mnt/root/dev /mnt/root/tmp
/bin/mount --rbind /proc /mnt/root/proc
/bin/mount --rbind /dev /mnt/root/dev
trap - EXIT
exec /usr/bin/unshare "$@""#;

/// How a command ends whose root could not be entered.
pub(super) const NOT_ENTERED: &str = "exit 125";

/// The words that run a program in a root, from wherever the command is started.
pub(super) fn words(directory: &Path, config: &Config, program: &str, arguments: &[String]) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["/usr/bin/env", "-C"].map(Into::into).to_vec();
    words.push(directory.into());
    words.extend(["/usr/bin/unshare", "--mount"].map(Into::into));
    let root = geteuid().is_root();
    if !root {
        words.extend(["--user", "--map-root-user"].map(Into::into));
    }
    words.extend(["/bin/sh", "-c", LAYER, "layer", "--root=/mnt/root"].map(Into::into));
    words.push(format!("--wd={}", config.workdir).into());
    if root {
        words.push(format!("--setgid={}", config.gid).into());
        words.push(format!("--setuid={}", config.uid).into());
    }
    words.push("--".into());
    words.push(program.into());
    words.extend(arguments.iter().map(Into::into));
    words
}
