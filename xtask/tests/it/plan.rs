//! `.ci/plan`: which changes CI runs the suite for, in repositories made for the question.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository with one commit, whose change to `paths` is a second one.
struct Repository(tempfile::TempDir);

impl Repository {
    fn changing(paths: &[&str]) -> Self {
        let repository = Self(tempfile::tempdir().unwrap());
        repository.git(&["init", "--quiet"]);
        repository.write("docs/old.md");
        repository.write("src/old.rs");
        repository.commit();
        for path in paths {
            repository.write(path);
        }
        repository.commit();
        repository
    }

    fn write(&self, path: &str) {
        let file = self.0.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("{path}\n")).unwrap();
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "c",
        ]);
    }

    fn git(&self, args: &[&str]) {
        let status = Command::new("git").args(args).current_dir(self.0.path()).status().unwrap();
        assert!(status.success(), "git {args:?}");
    }

    fn plan(&self, args: &[&str]) -> String {
        let output = Command::new(script()).args(args).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/plan")
}

#[track_caller]
fn check(paths: &[&str], run: bool) {
    assert_eq!(Repository::changing(paths).plan(&["HEAD~1"]), format!("run={run}\n"), "{paths:?}");
}

#[test]
fn only_documentation_leaves_the_suite_alone() {
    check(&["docs/a.md", "README.md"], false);
    check(&["docs/picture.svg", "crates/core/NOTES.md"], false);
}

#[test]
fn everything_else_is_restart_related() {
    check(&["crates/core/src/lib.rs"], true);
    check(&["docs/a.md", "Cargo.toml"], true);
    check(&["fixtures/docs/a.json"], true);
    check(&[".github/workflows/ci.yml"], true);
    check(&["src/a name with spaces.rs", "docs/\u{fc}.md"], true);
}

#[test]
fn a_source_file_that_moves_to_the_documentation_is_a_change_of_source() {
    let repository = Repository::changing(&[]);
    repository.git(&["mv", "src/old.rs", "docs/old.rs"]);
    repository.commit();
    assert_eq!(repository.plan(&["HEAD~1"]), "run=true\n");
}

#[test]
fn any_doubt_means_run() {
    let repository = Repository::changing(&["docs/a.md"]);
    assert_eq!(repository.plan(&[]), "run=true\n");
    assert_eq!(repository.plan(&[""]), "run=true\n");
    assert_eq!(repository.plan(&["0000000000000000000000000000000000000000"]), "run=true\n");
    assert_eq!(repository.plan(&["HEAD~1", "no-such-head"]), "run=true\n");
    assert_eq!(repository.plan(&["HEAD"]), "run=true\n");
}
