//! A real machine, with what `cargo xtask setup` left for it: what diverges natively by its nature is the same each time
//! from one seed, and another from another. Where a part of the machine isn't there, that is what is said, and how to
//! get it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidegate_determinism::image::{ImageError, Root};
use tidegate_determinism::{ExecutorKind, Level, Part, Qualifier, Reason};

use crate::support::{check, companion, plan};

/// Files of this time make the same root each time, so that its snapshot is taken once.
const THEN: Duration = Duration::from_secs(1_700_000_000);

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
