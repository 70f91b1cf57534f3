//! `cargo xtask determinism [flags] [-- COMMAND…]`: the check of `tidegate-determinism`. Unless another subject is named it
//! is the pinned MCP server with its scripted conversation, or the project's small image where an executor wants one.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use tidegate_determinism::{CheckArgs, DEFAULT_CACHE, ExecutorKind, run as check};

use crate::image::{self, Target};
use crate::machine;
use crate::workspace::Workspace;

/// The default subject and its conversation, as seen from the workspace's root.
const SUBJECT: [&str; 3] = [
    "node",
    "fixtures/mcp-servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
    "stdio",
];
const CONVERSATION: &str = "fixtures/determinism/everything.jsonl";

pub(crate) fn run(workspace: &Workspace, mut args: CheckArgs) -> anyhow::Result<ExitCode> {
    if args.cache == Path::new(DEFAULT_CACHE) {
        args.cache = workspace.results();
    }
    if args.command.is_empty() && args.image.is_none() && args.rootfs.is_none() {
        by_default(workspace, &mut args)?;
    }
    if args.executor == ExecutorKind::Vm {
        machine::guest(workspace)?;
    }
    let mut tell = |line: &str| eprintln!("{line}");
    let plan = args.plan(companion(workspace)?, "cargo xtask determinism", &mut tell)?;
    let record = check(&plan, &mut tell)?;
    record.write(&args.out)?;
    if args.json {
        print!("{}", record.json()?);
    } else {
        println!("{}", record.answer());
        println!("report: {}", args.out.join("index.html").display());
    }
    Ok(ExitCode::from(record.exit_code()))
}

/// The subject that is meant when none is named.
fn by_default(workspace: &Workspace, args: &mut CheckArgs) -> anyhow::Result<()> {
    if args.executor == ExecutorKind::Native {
        std::env::set_current_dir(&workspace.root)?;
        args.command = SUBJECT.map(str::to_owned).to_vec();
        args.script.get_or_insert_with(|| CONVERSATION.into());
        if !Path::new(SUBJECT[1]).exists() {
            bail!("{} isn't installed: cargo xtask setup", SUBJECT[1]);
        }
        return Ok(());
    }
    let small = image::directory(workspace).join(Target::Small.name());
    if !small.exists() {
        bail!("{} isn't built: cargo xtask image --small", small.display());
    }
    args.image = Some(small.to_str().context("the path of the image is text")?.to_owned());
    Ok(())
}

/// The binary whose controls run beside the subject.
pub(crate) fn companion(workspace: &Workspace) -> anyhow::Result<std::path::PathBuf> {
    let status = Command::new("cargo")
        .args(["build", "--package", "tidegate-determinism", "--bins"])
        .current_dir(&workspace.root)
        .status()
        .context("start cargo")?;
    if !status.success() {
        bail!("tidegate-determinism doesn't build: cargo build --package tidegate-determinism");
    }
    Ok(workspace.target.join("debug/tidegate-determinism"))
}
