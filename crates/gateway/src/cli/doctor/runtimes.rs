//! What each component is started with: the program, its version where it is a known runtime, and what it would fetch.

use super::finding::Finding;
use crate::config::ComponentConfig;
use crate::process::{LaunchSpec, ResolveError, resolve};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

const CHECK: &str = "runtime";
/// A runtime that takes longer to tell its version is as good as hung.
const VERSION_LIMIT: Duration = Duration::from_secs(5);
/// Programs that answer `--version` with one line and do nothing else. Only these are started.
const RUNTIMES: [&str; 13] = [
    "node", "npx", "npm", "bun", "bunx", "deno", "python", "python3", "uv", "uvx", "docker", "podman", "java",
];
/// Programs that fetch a package by its name before they run it, and what stands before a version in it.
const FETCHERS: [(&str, &[&str]); 4] =
    [("npx", &["@"]), ("bunx", &["@"]), ("uvx", &["==", "@"]), ("pipx", &["==", "@"])];

pub(super) async fn look(component: &ComponentConfig) -> Vec<Finding> {
    let name = &component.name;
    let spec = LaunchSpec {
        command: component.command.clone(),
        cwd: component.cwd.clone(),
        env: component.env.clone(),
    };
    let program = component.command.first().map(String::as_str).unwrap_or_default();
    let file = match resolve(program, spec.cwd.as_deref(), spec.path().as_deref()) {
        Ok(file) => file,
        Err(error) => {
            return vec![Finding::failed(CHECK, format!("{name}: {error}"), remedy(&error))];
        }
    };
    let mut findings = vec![match version(&file).await {
        Ok(Some(version)) => Finding::ok(CHECK, format!("{name}: {} is {version}", file.display())),
        Ok(None) => Finding::ok(CHECK, format!("{name}: {}", file.display())),
        Err(why) => Finding::failed(
            CHECK,
            format!("{name}: {} --version {why}", file.display()),
            "run it by hand: it has to work for the user that runs the daemon",
        ),
    }];
    if let Some(package) = unpinned(&component.command) {
        findings.push(Finding::warning(
            CHECK,
            format!("{name}: {program} fetches whatever version of {package} is the newest, so that any restart may be an upgrade"),
            "name the version that you want in `command`",
        ));
    }
    findings
}

/// What to do about a command that can't be started.
fn remedy(error: &ResolveError) -> &'static str {
    match error {
        ResolveError::NotOnPath { .. } => {
            "the daemon needs it in the PATH that it is started with, or as a full path in `command`"
        }
        ResolveError::NoFile { .. } => {
            "install it, or correct the path in `command`; one that is relative begins at `cwd`, else where the daemon is started"
        }
        ResolveError::NoDirectory { .. } => "make it, or correct `cwd`",
        ResolveError::Empty | ResolveError::NotExecutable { .. } => "correct `command`",
    }
}

/// What a known runtime says of itself; `None` for a program that is none.
async fn version(file: &Path) -> Result<Option<String>, String> {
    let known = file.file_name().and_then(|name| name.to_str()).is_some_and(|name| RUNTIMES.contains(&name));
    if !known {
        return Ok(None);
    }
    let mut command = Command::new(file);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(VERSION_LIMIT, command.output()).await {
        Err(_) => Err(format!("did not end within {} s", VERSION_LIMIT.as_secs())),
        Ok(Err(error)) => Err(format!("can't be run: {error}")),
        Ok(Ok(output)) if !output.status.success() => Err(format!("failed ({})", output.status)),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(if output.stdout.is_empty() {
                &output.stderr
            } else {
                &output.stdout
            });
            Ok(Some(said.lines().next().unwrap_or_default().trim().to_owned()))
        }
    }
}

/// The package that a command fetches without a version.
pub(super) fn unpinned(command: &[String]) -> Option<&str> {
    let program = Path::new(command.first()?).file_name()?.to_str()?;
    let (_, marks) = FETCHERS.iter().find(|(fetcher, _)| *fetcher == program)?;
    let mut rest = command.iter().skip(1).map(String::as_str);
    let package = loop {
        match rest.next()? {
            "--from" | "-p" | "--package" => break rest.next()?,
            "run" if program == "pipx" => {}
            flag if flag.starts_with('-') => {}
            package => break package,
        }
    };
    // A path, an address or a scope is no version.
    let named = package.strip_prefix('@').unwrap_or(package);
    let local = package.contains("://") || package.starts_with(['.', '/']);
    (!local && !marks.iter().any(|mark| named.contains(mark))).then_some(package)
}
