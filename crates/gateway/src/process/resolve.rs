//! Which file a server's command is, found as `execvp` would, so that a missing command is told before anything is started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Where `execvp` looks without a `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A command that can't be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ResolveError {
    /// The command line is empty.
    #[error("the command is empty: name a program")]
    Empty,
    /// A bare name that no directory of `PATH` has.
    #[error(
        "command not found: {command:?} is in none of the directories of PATH={path:?}; install it or give its full path"
    )]
    NotOnPath {
        /// The program's name.
        command: String,
        /// Where it was looked for.
        path: String,
    },
    /// A path at which there is nothing.
    #[error("command not found: there is no file {}", file.display())]
    NoFile {
        /// The path.
        file: PathBuf,
    },
    /// A file that may not be executed.
    #[error("{} is not an executable file: make it one (chmod +x) or name the interpreter", file.display())]
    NotExecutable {
        /// The path.
        file: PathBuf,
    },
    /// The working directory.
    #[error("the working directory {} is not a directory", cwd.display())]
    NoDirectory {
        /// The path.
        cwd: PathBuf,
    },
}

/// The file that `program` names when started in `cwd` with this `PATH`.
///
/// # Errors
/// [`ResolveError`] says what is missing and where it was looked for.
pub(crate) fn resolve(
    program: &str,
    cwd: Option<&Path>,
    path: Option<&OsStr>,
) -> Result<PathBuf, ResolveError> {
    if program.is_empty() {
        return Err(ResolveError::Empty);
    }
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return Err(ResolveError::NoDirectory { cwd: cwd.to_owned() });
    }
    let place = |file: &Path| cwd.map_or_else(|| file.to_owned(), |cwd| cwd.join(file));
    if program.contains('/') {
        let file = place(Path::new(program));
        return match file.try_exists() {
            Ok(false) => Err(ResolveError::NoFile { file }),
            _ if is_executable(&file) => Ok(file),
            _ => Err(ResolveError::NotExecutable { file }),
        };
    }
    let path = path.map_or_else(|| OsString::from(DEFAULT_PATH), OsStr::to_owned);
    let found =
        std::env::split_paths(&path).map(|dir| place(&dir.join(program))).find(|file| is_executable(file));
    found.ok_or_else(|| ResolveError::NotOnPath {
        command: program.to_owned(),
        path: path.to_string_lossy().into_owned(),
    })
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Why an `exec` of `program` failed, for people.
pub(super) fn why_not(program: &OsStr, error: &io::Error) -> String {
    let path = std::env::var_os("PATH");
    let name = program.to_string_lossy();
    match resolve(&name, None, path.as_deref()) {
        Err(e) => e.to_string(),
        Ok(file) if error.kind() == io::ErrorKind::NotFound => {
            format!(
                "cannot start {}: the interpreter that its first line names does not exist",
                file.display()
            )
        }
        Ok(file) => format!("cannot start {}: {error}", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, cwd: Option<&str>, path: Option<&str>, expected: &str) {
        let found = match resolve(program, cwd.map(Path::new), path.map(OsStr::new)) {
            Ok(file) => file.display().to_string(),
            Err(e) => e.to_string(),
        };
        assert!(found.starts_with(expected), "{program:?}: {found:?} is not {expected:?}");
    }

    #[test]
    fn a_command_is_found_as_execvp_would_or_the_reason_is_told() {
        check("sh", None, Some("/nowhere:/bin"), "/bin/sh");
        check("sh", None, None, "/bin/sh");
        check("/bin/sh", None, Some(""), "/bin/sh");
        check("./sh", Some("/bin"), None, "/bin/./sh");
        check("sh", Some("/"), Some("bin"), "/bin/sh");
        check(
            "no-such-thing",
            None,
            Some("/bin:/usr/bin"),
            "command not found: \"no-such-thing\" is in none of the directories of PATH=\"/bin:/usr/bin\"",
        );
        check("/bin/no-such-thing", None, None, "command not found: there is no file /bin/no-such-thing");
        check("/etc/passwd", None, None, "/etc/passwd is not an executable file");
        check("/etc", None, None, "/etc is not an executable file");
        check("sh", Some("/no/such/dir"), None, "the working directory /no/such/dir is not a directory");
        check("", None, None, "the command is empty");
    }
}
