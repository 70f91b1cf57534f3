//! A real machine, with what `cargo xtask setup` left for it: what diverges natively by its nature is the same each time
//! from one seed, and another from another. Where a part of the machine isn't there, that is what is said, and how to
//! get it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tidegate_determinism::image::{ImageError, Root};
use tidegate_determinism::{ExecutorKind, Level, Part, Qualifier, Reason};

use crate::support::{check, companion, plan};

/// Files of this time make the same root each time, so that its snapshot is taken once.
const THEN: Duration = Duration::from_secs(1_700_000_000);

/// Far beyond what a loaded machine needs to kill a process.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Where setup leaves the kernel and process 1, and where checks leave their snapshots.
fn cache() -> PathBuf {
    companion().ancestors().nth(2).unwrap().join("tidegate")
}

/// A root with one static program in it: process 1 itself, which holds the controls.
fn root(directory: &Path) -> Result<Root, String> {
    let (root, guest) =
        (directory.join("root"), cache().join("guest/x86_64-unknown-linux-gnu/guest/tidegate-guest"));
    fs::create_dir(&root).unwrap();
    fs::copy(&guest, root.join("probe"))
        .map_err(|_| "process 1 isn't built: cargo xtask setup".to_owned())?;
    let names = ["dev", "proc", "sys"].map(|name| root.join(name));
    names.iter().for_each(|name| fs::create_dir(name).unwrap());
    for path in [&root.join("probe"), &names[0], &names[1], &names[2], &root] {
        File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + THEN).unwrap();
    }
    match Root::of_directory(&root, &cache().join("roots"), &mut |_| ()) {
        Err(error @ ImageError::FileSystem { .. }) => Err(error.to_string()),
        made => Ok(made.unwrap()),
    }
}

#[test]
fn random_bytes_are_the_same_from_one_seed_in_a_machine_and_others_from_another() {
    let directory = tempfile::tempdir().unwrap();
    let root = match root(directory.path()) {
        Ok(root) => root,
        Err(missing) => {
            assert!(missing.contains("cargo xtask setup") || missing.contains("erofs-utils"), "{missing}");
            eprintln!("not run: {missing}");
            return;
        }
    };
    let mut plan = plan(&["/probe", "control", "urandom"]);
    (plan.executor, plan.parts, plan.runs) = (ExecutorKind::Vm, vec![Part::Restored], 2);
    (plan.root, plan.cache) = (Some(root), cache());

    let record = check(&plan);

    let verdict = &record.verdict;
    if verdict.reason == Some(Reason::ExecutorUnavailable) {
        assert_eq!(verdict.level, Level::NotRun);
        let missing = verdict.detail.as_deref().unwrap();
        assert!(missing.contains("cargo xtask setup"), "{missing}");
        eprintln!("not run: {missing}");
        return;
    }
    assert_eq!(verdict.level, Level::StateEqual, "{verdict:?}");
    assert!(verdict.qualifiers.contains(&Qualifier::SeedSensitive));
    let names: Vec<_> = record.observation.channels.iter().map(|channel| channel.name.as_str()).collect();
    for channel in ["trace", "schedule", "kernel log", "files"] {
        assert!(names.contains(&channel), "{channel} is not among {names:?}");
    }
}

/// The emulator that runs in a directory, once there is one.
fn emulator_in(directory: &Path) -> Option<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = numbers.find(|number: &i32| {
        let is = |name: &str, wanted: &Path| {
            fs::read_link(format!("/proc/{number}/{name}")).is_ok_and(|path| path.starts_with(wanted))
        };
        is("cwd", directory) && is("exe", Path::new("/usr/bin/qemu-system-x86_64"))
    });
    found.and_then(Pid::from_raw)
}

#[test]
fn a_check_that_is_interrupted_leaves_no_machine_no_snapshot_and_no_record() {
    let directory = tempfile::tempdir().unwrap();
    if let Err(missing) = root(directory.path()) {
        eprintln!("not run: {missing}");
        return;
    }
    let own = directory.path().join("cache");
    fs::create_dir(&own).unwrap();
    ["kernel", "guest"].iter().for_each(|part| symlink(cache().join(part), own.join(part)).unwrap());
    let arguments = "--executor vm --part restored --condition idle --runs 2 --rootfs root --cache cache --out out -- /probe control urandom";
    let mut check = Command::new(companion())
        .args(arguments.split(' '))
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(check.stderr.take().unwrap()).lines();
    let found = progress.find_map(|_| emulator_in(directory.path()));
    let found = found.and_then(|emulator| pidfd_open(emulator, PidfdFlags::empty()).ok());

    kill_process(Pid::from_child(&check), Signal::INT).unwrap();

    check.wait().unwrap();
    let Some(emulator) = found else {
        eprintln!("not run: no emulator was started");
        return;
    };
    let mut ends = [PollFd::new(&emulator, PollFlags::IN)];
    assert_eq!(poll(&mut ends, Some(&PATIENCE)), Ok(1), "the emulator is still there");
    assert!(!directory.path().join("out").exists(), "half a record");
    let kept = fs::read_dir(own.join("snapshots")).unwrap().flatten();
    let whole = kept.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "snapshot"));
    assert_eq!(whole.count(), 0, "a snapshot of nothing");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(directory.path().to_str().unwrap()), "{mounts}");
}
