//! `cargo xtask determinism [flags] [-- COMMAND…]`: the check of `tidegate-determinism`, with the pinned MCP server
//! and its scripted conversation as the subject unless another is named.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use tidegate_determinism::{CheckArgs, DEFAULT_CACHE, run as check};

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
        std::env::set_current_dir(&workspace.root)?;
        args.command = SUBJECT.map(str::to_owned).to_vec();
        args.script.get_or_insert_with(|| CONVERSATION.into());
        if !Path::new(SUBJECT[1]).exists() {
            bail!("{} isn't installed: cargo xtask setup", SUBJECT[1]);
        }
    }
    let mut tell = |line: &str| eprintln!("{line}");
    let plan = args.plan(companion(workspace)?, "cargo xtask determinism", &mut tell)?;
    let record = check(&plan, &mut tell)?;
    record.write(&args.out)?;
    if args.json {
        print!("{}", record.json()?);
    } else {
        println!("{}", record.answer());
        println!("report: {}", args.out.join("determinism.md").display());
    }
    Ok(ExitCode::from(record.exit_code()))
}

/// The binary whose controls run beside the subject.
fn companion(workspace: &Workspace) -> anyhow::Result<std::path::PathBuf> {
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
