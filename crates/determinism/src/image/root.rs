//! A root file system in one read-only file, the same bytes for the same image, kept in a cache by digest.
//!
//! Owners, modes and times are those of the image. Nothing is left half-written under a name that is read again: every
//! file and tree is made beside its place and renamed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::digest::{Digest, Hashing};
use super::error::ImageError;
use super::limits::MAX_PASSWD_BYTES;
use super::open::Image;
use super::tree::Tree;
use super::unpack::unpack;
use super::user;
use crate::scratch;

/// A program that makes a file system whose bytes follow from what it is given.
const MKFS: &str = "mkfs.erofs";
/// The name of every file system that is made here: another one each time would be another file each time.
const UUID: &str = "74696465-6761-7465-726f-6f7400000001";
/// The time at which every file system is made, in 2100: files keep times that are earlier.
const MADE: &str = "4102444800";
/// What a container has where its image says nothing.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A machine takes memory in pieces of this size.
const PIECE: u64 = 2 * 1024 * 1024;
/// Counts up whenever the same image would become another file system.
const FORMAT: u32 = 1;

/// A root file system, and what to run in it.
#[derive(Debug, Clone)]
pub struct Root {
    /// The file system, read-only.
    pub erofs: PathBuf,
    /// The digest of that file, as `sha256:…`.
    pub digest: String,
    /// The same tree as a directory.
    pub directory: PathBuf,
    /// What to run in it, and as whom.
    pub config: Config,
    /// What isn't as the image says, in words.
    pub notes: Vec<String>,
    /// Files in it that are there to hold a secret.
    pub secrets: Vec<String>,
}

/// What to run, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Entrypoint and command; empty when the image names none.
    pub argv: Vec<String>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub workdir: String,
    /// The user, as a number.
    pub uid: u32,
    /// The group, as a number.
    pub gid: u32,
}

/// What is kept beside an unpacked image.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    erofs: String,
    config: Config,
    notes: Vec<String>,
    secrets: Vec<String>,
}

impl Root {
    /// Unpacks an image, unless that was done before.
    ///
    /// # Errors
    ///
    /// When a layer is damaged, unknown, too large or hostile, or the disk is full.
    pub fn of_image(image: &Image, cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Self, ImageError> {
        let rights = if is_root() { "root" } else { "plain" };
        let key = format!("{}-{rights}-{FORMAT}", image.digest().trim_start_matches("sha256:"));
        let (list, tree) = (cache.join(format!("{key}.json")), cache.join(format!("{key}.tree")));
        if let Some(root) = kept(cache, &list, &tree) {
            return Ok(root);
        }
        let scratch = scratch(cache)?;
        let fresh = scratch.path().join("tree");
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| ImageError::Write { path, source }
        };
        std::fs::create_dir(&fresh).map_err(write(&fresh))?;
        let unpacked = unpack(&image.layers, &fresh, scratch.path(), progress)?;
        let config = config(image, &fresh)?;
        progress(&format!("writing {} files as one", unpacked.entries));
        let digest = make(&fresh, cache, scratch.path())?;
        let mut secrets = unpacked.secrets.clone();
        secrets.sort();
        let kept = Kept { erofs: digest.to_string(), config, notes: unpacked.notes(), secrets };
        // What an earlier version left, or half of it, goes away with the scratch directory.
        if tree.exists() {
            std::fs::rename(&tree, scratch.path().join("old")).map_err(write(&tree))?;
        }
        std::fs::rename(&fresh, &tree).map_err(write(&tree))?;
        let text = serde_json::to_vec_pretty(&kept).map_err(|error| write(&list)(error.into()))?;
        let beside = scratch.path().join("list");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &list)).map_err(write(&list))?;
        Ok(Self::new(cache, tree, kept))
    }

    /// Takes a directory as it is. Owners are kept if this process may read them and is root.
    ///
    /// # Errors
    ///
    /// When it is no directory, is the root of this machine, or the disk is full.
    pub fn of_directory(
        directory: &Path,
        cache: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, ImageError> {
        let no_root = |why| ImageError::NoRoot { path: directory.to_owned(), why };
        let directory = directory.canonicalize().map_err(|_| no_root("there is no such directory"))?;
        if !directory.is_dir() {
            return Err(no_root("it is no directory"));
        }
        let scratch = scratch(cache)?;
        if scratch.path().canonicalize().is_ok_and(|cache| cache.starts_with(&directory)) {
            return Err(no_root("the file system would be written into it"));
        }
        progress("writing the directory as one file");
        let digest = make(&directory, cache, scratch.path())?;
        let kept = Kept {
            erofs: digest.to_string(),
            config: Config::default(),
            notes: Vec::new(),
            secrets: Vec::new(),
        };
        Ok(Self::new(cache, directory, kept))
    }

    fn new(cache: &Path, directory: PathBuf, kept: Kept) -> Self {
        let Kept { erofs: digest, config, notes, secrets } = kept;
        let erofs = file(cache, digest.trim_start_matches("sha256:"));
        Self { erofs, digest, directory, config, notes, secrets }
    }
}

impl Default for Config {
    fn default() -> Self {
        let env =
            [("HOME", "/root"), ("PATH", PATH)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { argv: Vec::new(), env: env.into(), workdir: "/".to_owned(), uid: 0, gid: 0 }
    }
}

fn config(image: &Image, root: &Path) -> Result<Config, ImageError> {
    let tree = Tree::open(root).map_err(|source| ImageError::Read { path: root.to_owned(), source })?;
    let database = |path: &str| {
        let mut text = Vec::new();
        let read = tree.read(path).and_then(|file| file.take(MAX_PASSWD_BYTES).read_to_end(&mut text));
        // An image without users is no fault: numbers need none.
        read.map_or(String::new(), |_| String::from_utf8_lossy(&text).into_owned())
    };
    let runtime = &image.runtime;
    let user = runtime.user.as_deref().unwrap_or_default();
    let user = user::resolve(user, &database("etc/passwd"), &database("etc/group"))?;
    let mut env = image.environment.clone();
    env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    env.entry("HOME".to_owned()).or_insert(user.home);
    let argv = runtime.entrypoint.iter().chain(&runtime.cmd).flatten().cloned().collect();
    let workdir = runtime.working_dir.clone().filter(|directory| !directory.is_empty());
    let workdir = workdir.unwrap_or_else(|| "/".to_owned());
    Ok(Config { argv, env, workdir, uid: user.uid, gid: user.gid })
}

/// What an earlier run left, if all of it is there and is what it was.
fn kept(cache: &Path, list: &Path, tree: &Path) -> Option<Root> {
    let kept: Kept = serde_json::from_slice(&std::fs::read(list).ok()?).ok()?;
    let wanted = Digest::try_from(kept.erofs.clone()).ok()?;
    let found = Hashing::new(File::open(file(cache, wanted.hex())).ok()?).finish().ok()?;
    (found == wanted && tree.is_dir()).then(|| Root::new(cache, tree.to_owned(), kept))
}

/// Writes a tree as one file, named by its digest.
fn make(tree: &Path, cache: &Path, scratch: &Path) -> Result<Digest, ImageError> {
    let fresh = scratch.join("root.erofs");
    let failed = |why: String| ImageError::FileSystem { why };
    let mut command = Command::new(MKFS);
    command.args(["--quiet", "-x-1", "-U", UUID]).env("SOURCE_DATE_EPOCH", MADE);
    if !is_root() {
        command.arg("--all-root");
    }
    let output = command.arg(&fresh).arg(tree).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(failed(format!("{}: {last}", output.status)));
    }
    let write = |source| ImageError::Write { path: fresh.clone(), source };
    let whole = File::options().write(true).open(&fresh).map_err(write)?;
    let size = whole.metadata().map_err(write)?.len();
    whole.set_len(size.next_multiple_of(PIECE)).map_err(write)?;
    let read = |source| ImageError::Read { path: fresh.clone(), source };
    let digest = Hashing::new(File::open(&fresh).map_err(read)?).finish().map_err(read)?;
    let path = file(cache, digest.hex());
    std::fs::rename(&fresh, &path).map_err(|source| ImageError::Write { path, source })?;
    Ok(digest)
}

fn file(cache: &Path, hex: &str) -> PathBuf {
    cache.join(format!("{hex}.erofs"))
}

/// A directory of this run in the cache; what runs that are over left there is removed.
fn scratch(cache: &Path) -> Result<tempfile::TempDir, ImageError> {
    let make = || -> io::Result<tempfile::TempDir> {
        std::fs::create_dir_all(cache)?;
        scratch::sweep(cache)?;
        tempfile::Builder::new().prefix(&scratch::prefix()).tempdir_in(cache)
    };
    make().map_err(|source| ImageError::Write { path: cache.to_owned(), source })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
