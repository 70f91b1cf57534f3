//! From a context to an OCI layout: buildah, with a storage of its own that is gone afterwards, and the provenance that
//! binds the digest to a commit, a run of CI and the digests of the parts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use tidegate_determinism::image::{Image, Provenance};

use super::{Target, base, context};
use crate::board::Timer;
use crate::process::{Program, Show};
use crate::workspace::Workspace;

/// Where the layout of an image is.
pub(crate) fn layout(workspace: &Workspace, target: Target) -> PathBuf {
    super::directory(workspace).join(target.name())
}

/// Where its provenance is.
pub(crate) fn provenance(workspace: &Workspace, target: Target) -> PathBuf {
    super::directory(workspace).join(format!("{}.provenance.json", target.name()))
}

/// The image, built unless the one that is there is of the same parts.
pub(super) fn ensure(
    workspace: &Workspace,
    target: Target,
    inputs: &BTreeMap<String, String>,
    timer: &Timer,
) -> anyhow::Result<String> {
    let (layout, file) = (layout(workspace, target), provenance(workspace, target));
    let kept = Provenance::read(&file).ok().flatten().filter(|kept| kept.inputs == *inputs);
    let digest = match kept.and_then(|kept| digest(&layout).ok().filter(|digest| *digest == kept.digest)) {
        Some(digest) => digest,
        None => build(workspace, target, &layout, timer)?,
    };
    let ci = ci_run(|name| std::env::var(name).ok());
    let mut provenance = Provenance::new(&digest, &crate::ci::commit(workspace), ci);
    provenance.inputs.clone_from(inputs);
    for tool in ["buildah", "debootstrap"] {
        provenance.tools.insert(tool.to_owned(), version(tool)?);
    }
    let text = serde_json::to_string_pretty(&provenance)? + "\n";
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    Ok(format!("{}@{digest}", layout.display()))
}

/// The digest that is there, and that of one more build.
pub(super) fn again(
    workspace: &Workspace,
    target: Target,
    timer: &Timer,
) -> anyhow::Result<(String, String)> {
    let beside = super::directory(workspace).join("again");
    let second = build(workspace, target, &beside, timer)?;
    base::remove(&beside)?;
    Ok((digest(&layout(workspace, target))?, second))
}

fn build(workspace: &Workspace, target: Target, layout: &Path, timer: &Timer) -> anyhow::Result<String> {
    let storage = super::directory(workspace).join("storage");
    let beside = layout.with_extension("part");
    for path in [&storage, &beside] {
        base::remove(path)?;
    }
    let buildah = || {
        let mut command = Command::new("buildah");
        // Plain directories as layers: overlays within overlays are not to be had everywhere.
        command.args(["--storage-driver", "vfs", "--root"]).arg(storage.join("layers"));
        command.arg("--runroot").arg(storage.join("run"));
        command
    };
    let name = target.name();
    let mut command = buildah();
    command.args(["build", "--quiet", "--isolation", "chroot", "--layers=false", "--pull=never"]);
    command.args(["--timestamp", base::EPOCH, "--target", name, "--tag", name, "--file"]);
    command.arg(context::containerfile(workspace)).arg(context::directory(workspace));
    Program { what: "buildah build", command, show: Show::Kept, logs: &workspace.logs() }
        .succeed(timer)
        .context("`cargo xtask setup` installs buildah")?;
    let mut command = buildah();
    command.args(["push", "--quiet", "--format", "oci", "--compression-format", "zstd", name]);
    command.arg(format!("oci:{}", beside.display()));
    Program { what: "buildah push", command, show: Show::Kept, logs: &workspace.logs() }.succeed(timer)?;
    base::remove(&storage)?;
    base::remove(layout)?;
    std::fs::rename(&beside, layout).with_context(|| format!("write {}", layout.display()))?;
    digest(layout)
}

fn digest(layout: &Path) -> anyhow::Result<String> {
    let path = layout.to_str().context("the path of the image is text")?;
    Ok(Image::open(path)?.digest().to_owned())
}

fn version(tool: &str) -> anyhow::Result<String> {
    let output = Command::new(tool).arg("--version").output().with_context(|| format!("start {tool}"))?;
    if !output.status.success() {
        bail!("{tool} --version failed ({})", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The run of CI that this is, as its own address or at least its number; none outside CI.
fn ci_run(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let named = |names: [&str; 3]| {
        let [server, repository, id] = names.map(&variable);
        Some(format!("{}/{}/actions/runs/{}", server?, repository?, id?))
    };
    named(["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"])
        .or_else(|| variable("CI_PIPELINE_URL"))
        .or_else(|| {
            variable("CI").filter(|ci| ci == "true").map(|_| "a run of CI without a number".to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::ci_run;

    #[track_caller]
    fn check(set: &[(&str, &str)], expected: Option<&str>) {
        let variable =
            |name: &str| set.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(ci_run(variable).as_deref(), expected);
    }

    #[test]
    fn an_image_is_bound_to_the_run_of_ci_that_built_it_and_to_none_otherwise() {
        check(&[], None);
        check(&[("CI", "false")], None);
        check(&[("CI", "true")], Some("a run of CI without a number"));
        check(&[("CI", "true"), ("CI_PIPELINE_URL", "https://ci/7")], Some("https://ci/7"));
        let github =
            [("GITHUB_SERVER_URL", "https://git"), ("GITHUB_REPOSITORY", "a/b"), ("GITHUB_RUN_ID", "9")];
        check(&github, Some("https://git/a/b/actions/runs/9"));
        check(&github[..2], None);
    }
}
