//! What a package of Tidegate ships beside the binary: completions, the manual, a systemd unit.

use std::collections::BTreeSet;
use std::process::Command;
use tidegate_suite::harness::{Output, tidegate, workspace};

fn run(args: &[&str]) -> Output {
    let output = Output::of(Command::new(tidegate()).args(args));
    assert_eq!(output.code, 0, "{output:?}");
    output
}

/// The commands that the help shows.
fn commands() -> BTreeSet<String> {
    let help = run(&["--help"]).stdout;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|it| it != "help").collect()
}

#[test]
fn every_shell_completes_every_command() {
    let commands = commands();
    assert!(commands.contains("restart") && commands.contains("doctor"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).stdout;
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} does not complete {command}");
        }
        assert!(script.contains("token-file"), "{shell}");
    }
}

#[test]
fn bash_takes_its_completions() {
    let script = run(&["completions", "bash"]).stdout;
    let checked = Output::of(Command::new("bash").args(["-n", "-c", &script]));
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    run(&["man", "--out", dir.path().to_str().unwrap()]);
    for command in commands() {
        let page = std::fs::read_to_string(dir.path().join(format!("tidegate-{command}.1")));
        let page = page.unwrap_or_else(|error| panic!("there is no page of {command}: {error}"));
        assert!(page.contains(".SH NAME"), "{command}: {page}");
    }
    assert!(dir.path().join("tidegate-restart-request.1").exists());
    let first = run(&["man"]).stdout;
    assert!(first.contains(".TH tidegate 1"), "{first}");
}

#[test]
fn the_systemd_unit_leaves_servers_to_the_daemon_and_gives_a_drain_its_time() {
    let unit = std::fs::read_to_string(workspace().join("packaging/systemd/tidegate.service")).unwrap();
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("there is no {key}"))
    };
    // systemd must not signal servers: that is the daemon's, after a drain.
    assert_eq!(value("KillMode"), "process");
    // The defaults of drain_deadline, and of stop_grace twice.
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() > 60 + 2 * 5);
    // Neither an unsafe call that was left running nor a bad configuration gets better by another start.
    assert_eq!(value("RestartPreventExitStatus"), "1 2");
}

#[test]
fn systemd_takes_the_unit() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        // Said, so that nobody takes it for a proof: a machine without systemd has nothing that could read it.
        println!("SYSTEMD_ABSENT: the unit was not verified");
        return;
    };
    assert!(version.status.success());
    let unit = std::fs::read_to_string(workspace().join("packaging/systemd/tidegate.service")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tidegate.service");
    let here = unit.replace("%h/.cargo/bin/tidegate", tidegate().to_str().unwrap());
    std::fs::write(&file, here.replace("%h", "/root")).unwrap();
    let verified = Output::of(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file));
    assert!(verified.code == 0 && verified.stderr.is_empty(), "{verified:?}");
}
