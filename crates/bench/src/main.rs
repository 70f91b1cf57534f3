//! Tidegate beside others, in one run: `cargo xtask bench` builds and starts this. Each row measures both sides in turns
//! and reports their ratio with its spread; a row that can't be measured says why. A missed goal is a result and no
//! error: exit 0 when it ran, 2 when it couldn't.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command's output")]

mod document;
mod machine;
mod rivals;
mod row;
mod rows;
mod stopwatch;

use clap::{Parser, Subcommand};
use document::{Document, VERSION};
use machine::Machine;
use rows::{Bench, Effort, ROWS};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "tidegate-bench", about = "Tidegate beside others, each row in turns")]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// A few seconds instead of a minute or two: too short to compare with the goals
    #[arg(long)]
    quick: bool,
    /// Measure these rows alone (may be repeated)
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Where the durable rows write; the file system there is what they measure
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// One of the writing processes
    #[command(hide = true)]
    Write { dir: PathBuf, name: String, count: u32 },
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    if let Some(Role::Write { dir, name, count }) = &cli.role {
        return rows::write(dir, name, *count);
    }
    let known = |name: &String| ROWS.iter().any(|(subject, _)| subject.name == name);
    if let Some(unknown) = cli.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = ROWS.iter().map(|(subject, _)| subject.name).collect();
        anyhow::bail!("there is no row {unknown}; there are {}", names.join(", "));
    }
    let (effort, name) = if cli.quick { (Effort::QUICK, "quick") } else { (Effort::FULL, "full") };
    let dir = std::path::absolute(&cli.dir)?;
    let machine = Machine::here(&dir);
    let bench = Bench { dir: &dir, effort };
    let mut rows = Vec::new();
    for (subject, measure) in ROWS {
        if cli.only.is_empty() || cli.only.iter().any(|only| only == subject.name) {
            eprintln!("{} …", subject.name);
            rows.push(rows::run(subject, measure, &bench));
        }
    }
    let document = Document { version: VERSION, effort: name, machine, rows };
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        print!("{}", document.table());
    }
    Ok(())
}
