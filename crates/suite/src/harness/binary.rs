//! Where the programs under test are. Never builds anything: who runs the tests has built them. Looked at once by each
//! process: whoever edits a source while a soak runs doesn't end it.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The variable that names another `tidegate` to test.
const TIDEGATE_VAR: &str = "TIDEGATE_BIN";

static TIDEGATE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::var_os(TIDEGATE_VAR).map_or_else(|| beside("tidegate", "tidegate"), PathBuf::from)
});
static FAULT_SERVER: LazyLock<PathBuf> = LazyLock::new(|| beside("tidegate-fault-server", "tidegate-suite"));

/// The workspace's root.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The `tidegate` under test: `$TIDEGATE_BIN`, else the one built beside the running test.
///
/// # Panics
/// When there is none, or it is older than what it is built from: the text says what to run.
#[must_use]
pub fn tidegate() -> PathBuf {
    TIDEGATE.clone()
}

/// The scripted fault server.
///
/// # Panics
/// As [`tidegate`].
#[must_use]
pub fn fault_server() -> PathBuf {
    FAULT_SERVER.clone()
}

/// Where the profile's programs are that the running test was built with: `target/PROFILE/deps/TEST` → `target/PROFILE`.
///
/// # Panics
/// When the running program isn't a test that cargo has built.
#[must_use]
pub fn profile() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().find(|dir| dir.ends_with("deps")).and_then(Path::parent);
    profile.unwrap_or_else(|| panic!("{} was not built by cargo", test.display())).to_owned()
}

/// A program of that profile.
fn beside(name: &str, package: &str) -> PathBuf {
    let program = profile().join(name);
    let build =
        format!("run `cargo build -p {package} --bins`, or the tests with `cargo nextest run --workspace`");
    assert!(program.is_file(), "{} is missing: {build}", program.display());
    if let Some(newer) = newer_source(&program) {
        panic!("{} is older than {}: {build}", program.display(), newer.display());
    }
    program
}

/// A file that the program is built from, as cargo has noted beside it, and that was changed since.
fn newer_source(program: &Path) -> Option<PathBuf> {
    let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    let built = changed(program)?;
    let noted = std::fs::read_to_string(program.with_extension("d")).ok()?;
    let (_, sources) = noted.trim_end().split_once(": ")?;
    sources.split(' ').map(PathBuf::from).find(|source| changed(source).is_some_and(|at| at > built))
}
