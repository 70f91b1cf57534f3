//! `cargo xtask image`: the project's own container image, from pinned parts, as an OCI layout with its provenance. No
//! daemon, nothing pulled, nothing run while it is built: the same parts give the same digest.

mod base;
mod container;
mod context;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;

use crate::board::{Board, Step};
use crate::workspace::Workspace;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// The small image alone: three runtimes and a scripted conversation, without Tidegate
    #[arg(long)]
    pub(crate) small: bool,
    /// Build it twice, from nothing that the first build left, and compare the digests
    #[arg(long)]
    pub(crate) twice: bool,
}

/// One of the images that the Containerfile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Small,
    Whole,
}

impl Target {
    /// Its name in the Containerfile, and of its layout.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Whole => "whole",
        }
    }

    fn again(self) -> String {
        match self {
            Self::Small => "cargo xtask image --small".to_owned(),
            Self::Whole => "cargo xtask image".to_owned(),
        }
    }
}

/// Where everything about the image is made and kept.
pub(crate) fn directory(workspace: &Workspace) -> PathBuf {
    workspace.results().join("image")
}

/// Builds what was asked for, unless what is there was built from the same parts.
pub(crate) fn run(board: &mut Board, workspace: &Workspace, args: Args) -> bool {
    // What is copied into the image has the modes that it gets here, whatever the caller's are.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let targets = if args.small { &[Target::Small][..] } else { &[Target::Small, Target::Whole] };
    board.step(&Step::new("base", 600, "cargo xtask image --small"), |timer| base::ensure(workspace, timer))
        && targets.iter().all(|target| build(board, workspace, *target, args.twice))
}

fn build(board: &mut Board, workspace: &Workspace, target: Target, twice: bool) -> bool {
    let mut inputs = BTreeMap::new();
    board.step(&Step::new("context", 1200, target.again()), |timer| {
        inputs = context::prepare(workspace, target, timer)?;
        Ok(format!("{} parts of the {} image", inputs.len(), target.name()))
    }) && board.step(&Step::new("image", 600, target.again()), |timer| {
        container::ensure(workspace, target, &inputs, timer)
    }) && (!twice
        || board.step(&Step::new("again", 600, format!("{} --twice", target.again())), |timer| {
            let (first, second) = container::again(workspace, target, timer)?;
            if first != second {
                bail!("the same parts gave two images: {first} and {second}");
            }
            Ok(format!("the same digest: {first}"))
        }))
}
