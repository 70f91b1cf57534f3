//! Writing below one directory and nowhere else. Every name is resolved by the kernel with that directory as its root,
//! so that no link inside it leads out, whatever was unpacked before.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dev, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat, fchmod,
    futimens, linkat, mkdirat, mknodat, openat, openat2, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

/// A directory that everything stays below.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// Whether owners can be kept and devices made.
    privileged: bool,
}

/// A name in a directory of the tree.
#[derive(Debug)]
pub(super) struct Place<'a> {
    directory: OwnedFd,
    name: &'a OsStr,
}

/// What every kind of entry has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: i64,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Links are followed below the root, as in a container; those of /proc never.
const BELOW: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
/// What a directory has that no entry describes.
const PLAIN: Mode = Mode::from_raw_mode(0o755);

impl Tree {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(root, DIRECTORY, Mode::empty())?;
        Ok(Self { root, privileged: rustix::process::geteuid().is_root() })
    }

    pub(super) fn privileged(&self) -> bool {
        self.privileged
    }

    /// The place of a name, without making anything; `None` when its directory isn't there.
    pub(super) fn find<'a>(&self, parts: &[&'a [u8]]) -> io::Result<Option<Place<'a>>> {
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        match self.directory(parents) {
            Ok(directory) => Ok(Some(Place { directory, name: OsStr::from_bytes(name) })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The place of a name, in a directory that is made if it isn't there; `made` hears of each that was.
    pub(super) fn make<'a>(
        &self,
        parts: &[&'a [u8]],
        mut made: impl FnMut(&[&'a [u8]]),
    ) -> io::Result<Option<Place<'a>>> {
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        for depth in 1..=parents.len() {
            if let Err(Errno::NOENT) = self.directory(&parents[..depth]) {
                let above = self.directory(&parents[..depth - 1])?;
                mkdirat(&above, parents[depth - 1], PLAIN)?;
                made(&parents[..depth]);
            }
        }
        let directory = self.directory(parents)?;
        Ok(Some(Place { directory, name: OsStr::from_bytes(name) }))
    }

    /// A directory, through links.
    fn directory(&self, parts: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
        self.resolve(parts, DIRECTORY)
    }

    fn resolve(&self, parts: &[&[u8]], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') };
        openat2(&self.root, path, flags, Mode::empty(), BELOW)
    }

    /// A file that was written, to be read.
    pub(super) fn read(&self, path: &str) -> io::Result<File> {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        // A pipe among the files would be waited on for ever.
        Ok(File::from(self.resolve(&parts, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC)?))
    }

    /// Gives a directory its attributes; its time changes with each entry, so this is the last that is done to it.
    pub(super) fn describe(&self, parts: &[&[u8]], attributes: Attributes) -> io::Result<()> {
        let directory = match self.resolve(parts, DIRECTORY) {
            // A later layer put something else there.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            found => found?,
        };
        if self.privileged {
            rustix::fs::fchown(
                &directory,
                Some(Uid::from_raw(attributes.uid)),
                Some(Gid::from_raw(attributes.gid)),
            )?;
        }
        fchmod(&directory, Mode::from_raw_mode(attributes.mode))?;
        futimens(&directory, &times(attributes.mtime))?;
        Ok(())
    }

    /// Takes away what is in a directory, or in the root itself.
    pub(super) fn empty(&self, parts: &[&[u8]]) -> io::Result<()> {
        match self.directory(parts) {
            Ok(directory) => empty(directory),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A new file; what is written to it, and `finish`, are the caller's.
    pub(super) fn create(&self, place: &Place<'_>) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&place.directory, place.name, flags, Mode::from_raw_mode(0o600))?))
    }

    pub(super) fn symlink(&self, place: &Place<'_>, target: &[u8]) -> io::Result<()> {
        Ok(symlinkat(target, &place.directory, place.name)?)
    }

    /// One more name for a file that is there.
    pub(super) fn hardlink(&self, place: &Place<'_>, target: &Place<'_>) -> io::Result<()> {
        Ok(linkat(&target.directory, target.name, &place.directory, place.name, AtFlags::empty())?)
    }

    pub(super) fn node(&self, place: &Place<'_>, kind: FileType, device: Dev) -> io::Result<()> {
        Ok(mknodat(&place.directory, place.name, kind, Mode::from_raw_mode(0o600), device)?)
    }

    /// Gives anything but a directory its attributes. The mode comes after the owner, who takes it away.
    pub(super) fn finish(&self, place: &Place<'_>, attributes: Attributes, is_link: bool) -> io::Result<()> {
        if self.privileged {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            chownat(&place.directory, place.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if !is_link {
            let mode = Mode::from_raw_mode(attributes.mode);
            rustix::fs::chmodat(&place.directory, place.name, mode, AtFlags::empty())?;
        }
        let times = times(attributes.mtime);
        Ok(utimensat(&place.directory, place.name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

impl Place<'_> {
    /// What is there; `None` when nothing is.
    pub(super) fn kind(&self) -> io::Result<Option<FileType>> {
        match statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn mkdir(&self) -> io::Result<()> {
        Ok(mkdirat(&self.directory, self.name, PLAIN)?)
    }

    /// Takes away what is there, with everything in it.
    pub(super) fn clear(&self) -> io::Result<()> {
        match self.kind()? {
            None => Ok(()),
            // The standard library's own walk never follows a link, whoever is changing the tree.
            Some(FileType::Directory) => std::fs::remove_dir_all(self.path()),
            Some(_) => Ok(unlinkat(&self.directory, self.name, AtFlags::empty())?),
        }
    }

    fn path(&self) -> PathBuf {
        descriptor(&self.directory).join(self.name)
    }
}

fn empty(directory: OwnedFd) -> io::Result<()> {
    for entry in std::fs::read_dir(descriptor(&directory))? {
        let name = entry?.file_name();
        Place { directory: directory.try_clone()?, name: &name }.clear()?;
    }
    Ok(())
}

fn descriptor(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

fn times(mtime: i64) -> Timestamps {
    let time = Timespec { tv_sec: mtime, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
