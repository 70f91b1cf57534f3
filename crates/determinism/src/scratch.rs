//! What is being written, under a name that says by whom: an interrupted run can't tidy up, so the next one does.
//!
//! Must never touch what a living process writes.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, test_kill_process};

/// Before the number of the process that writes.
const PREFIX: &str = ".unfinished-";

/// The beginning of a name for what this process writes.
pub(crate) fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Removes what runs that are over left unfinished in a directory.
pub(crate) fn sweep(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(is_left_behind) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_left_behind(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
    pid.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_what_the_dead_left_unfinished_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let name = |name: &str| directory.path().join(name);
        fs::write(name(&format!("{PREFIX}{}-file", dead.id())), "half").unwrap();
        fs::create_dir_all(name(&format!("{PREFIX}{}-tree", dead.id())).join("below")).unwrap();
        fs::write(name(&format!("{}mine", prefix())), "half").unwrap();
        fs::write(name("whole"), "whole").unwrap();

        sweep(directory.path()).unwrap();

        let left = fs::read_dir(directory.path()).unwrap();
        let left: BTreeSet<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(left, BTreeSet::from([format!("{}mine", prefix()), "whole".to_owned()]));
    }
}
