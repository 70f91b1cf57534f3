//! From layers to a tree: what is gone from the layers below first, then what the layer brings. Decides what an entry
//! may do, counts everything, and writes through `Tree` alone.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use rustix::fs::{FileType, makedev};
use rustix::io::Errno;

use super::blobs::unsupported;
use super::entry::{self, Entry, Fault, Kind};
use super::error::ImageError;
use super::layer::Layer;
use super::limits::{MAX_ENTRIES, MAX_UNPACKED_BYTES};
use super::name::{self, Mark};
use super::secret;
use super::section::Section;
use super::tree::{Attributes, Place, Tree};

const CHUNK: usize = 128 * 1024;
/// What a directory has that no entry describes.
const PLAIN: Attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0 };

/// What unpacking an image showed.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// Extended attributes that were left out.
    pub(super) xattrs: u64,
    /// Devices that only root could have made.
    pub(super) devices: u64,
    /// Owners that only root could have kept.
    pub(super) owners: u64,
    /// Files that are there to hold a secret.
    pub(super) secrets: Vec<String>,
    /// Directories with what they get at the end.
    directories: BTreeMap<Vec<u8>, Attributes>,
}

/// Unpacks the layers of an image into an empty directory.
pub(super) fn unpack(
    layers: &[Layer],
    root: &Path,
    scratch: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Unpacked, ImageError> {
    let write = |source| ImageError::Write { path: root.to_owned(), source };
    let tree = Tree::open(root).map_err(write)?;
    let mut unpacked = Unpacked::default();
    unpacked.directories.insert(Vec::new(), PLAIN);
    for (number, layer) in layers.iter().enumerate() {
        let mib = layer.data.size >> 20;
        progress(&format!("unpacking layer {} of {} ({mib} MiB)", number + 1, layers.len()));
        let plain = layer.plain(scratch)?;
        let writer = Writer { tree: &tree, root, layer: &layer.name };
        writer.each(&plain, |entry| writer.take_away(&entry))?;
        writer.each(&plain, |entry| writer.bring(entry, &mut unpacked))?;
    }
    for (path, attributes) in &unpacked.directories {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        tree.describe(&parts, *attributes).map_err(write)?;
    }
    Ok(unpacked)
}

/// One layer on its way into the tree.
#[derive(Debug, Clone, Copy)]
struct Writer<'a> {
    tree: &'a Tree,
    root: &'a Path,
    layer: &'a str,
}

impl Writer<'_> {
    fn each(
        &self,
        plain: &Section,
        seen: impl FnMut(Entry) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        entry::each(plain, seen).map_err(|fault| match fault {
            Fault::Inner(error) => error,
            Fault::Unreadable(why) => ImageError::Unreadable { what: self.layer.to_owned(), why },
            Fault::Unsupported(kind) => unsupported(self.layer.to_owned(), kind),
        })
    }

    fn hostile(&self, name: &[u8], why: &'static str) -> ImageError {
        let entry = String::from_utf8_lossy(name).into_owned();
        ImageError::Hostile { layer: self.layer.to_owned(), entry, why }
    }

    /// Files in the way of a directory and circles of links are the archive's fault; the rest is the disk's.
    fn failed(&self, name: &[u8], source: io::Error) -> ImageError {
        let in_the_way = [Errno::EXIST, Errno::NOTDIR, Errno::NOENT, Errno::LOOP, Errno::NAMETOOLONG];
        if Errno::from_io_error(&source).is_some_and(|errno| in_the_way.contains(&errno)) {
            return self.hostile(name, "the way to it leads through something that is no directory");
        }
        let path = self.root.join(String::from_utf8_lossy(name).as_ref());
        ImageError::Write { path, source }
    }

    fn parts<'a>(&self, name: &'a [u8]) -> Result<Vec<&'a [u8]>, ImageError> {
        name::parts(name).map_err(|why| self.hostile(name, why))
    }

    fn mark<'a>(&self, name: &[u8], parts: &[&'a [u8]]) -> Result<Mark<'a>, ImageError> {
        parts.last().map_or(Ok(Mark::None), |own| name::mark(own)).map_err(|why| self.hostile(name, why))
    }

    /// First half: what this layer takes away is from the layers below, wherever in the layer it is written.
    fn take_away(&self, entry: &Entry) -> Result<(), ImageError> {
        let mut parts = self.parts(&entry.name)?;
        let done = match self.mark(&entry.name, &parts)? {
            Mark::None | Mark::Bookkeeping => Ok(()),
            Mark::Opaque => {
                parts.pop();
                self.tree.empty(&parts)
            }
            Mark::Gone(gone) => {
                parts.pop();
                parts.push(gone);
                self.tree.find(&parts).and_then(|place| place.map_or(Ok(()), |place| place.clear()))
            }
        };
        done.map_err(|error| self.failed(&entry.name, error))
    }

    /// Second half: what it brings.
    fn bring(&self, entry: Entry, unpacked: &mut Unpacked) -> Result<(), ImageError> {
        unpacked.count(&entry)?;
        let parts = self.parts(&entry.name)?;
        if self.mark(&entry.name, &parts)? != Mark::None {
            return Ok(());
        }
        let attributes = Attributes { mode: entry.mode, uid: entry.uid, gid: entry.gid, mtime: entry.mtime };
        if !self.tree.privileged() && (entry.uid, entry.gid) != (0, 0) {
            unpacked.owners += 1;
        }
        if secret::is_place_of_one(&parts) && entry.kind == Kind::File {
            unpacked.secrets.push(format!("/{}", String::from_utf8_lossy(&parts.join(&b'/'))));
        }
        let failed = |error| self.failed(&entry.name, error);
        let made = |parts: &[&[u8]]| {
            unpacked.directories.insert(parts.join(&b'/'), PLAIN);
        };
        let Some(place) = self.tree.make(&parts, made).map_err(failed)? else {
            if entry.kind != Kind::Directory {
                return Err(self.hostile(&entry.name, "it would replace the root itself"));
            }
            unpacked.directories.insert(Vec::new(), attributes);
            return Ok(());
        };
        let there = place.kind().map_err(failed)?;
        if entry.kind == Kind::Directory {
            if there != Some(FileType::Directory) {
                place.clear().and_then(|()| place.mkdir()).map_err(failed)?;
            }
            unpacked.directories.insert(parts.join(&b'/'), attributes);
            return Ok(());
        }
        let linked = match &entry.kind {
            Kind::Hardlink(target) => {
                name::parts(target).map_err(|_| self.hostile(&entry.name, "it links out of the root"))?
            }
            _ => Vec::new(),
        };
        // A link to itself changes nothing, and would lose the file that it names.
        if linked == parts {
            return Ok(());
        }
        place.clear().map_err(failed)?;
        match &entry.kind {
            Kind::Directory => Ok(()),
            Kind::File => self.file(&place, &entry, attributes),
            Kind::Symlink(target) => {
                name::stays_inside(parts.len() - 1, target).map_err(|why| self.hostile(&entry.name, why))?;
                self.tree.symlink(&place, target).and_then(|()| self.tree.finish(&place, attributes, true))
            }
            .map_err(failed),
            Kind::Hardlink(_) => self.hardlink(&place, &entry.name, &linked),
            Kind::Fifo => self.node(&place, FileType::Fifo, 0, attributes).map_err(failed),
            Kind::Character { major, minor } | Kind::Block { major, minor } => {
                if !self.tree.privileged() {
                    unpacked.devices += 1;
                    return Ok(());
                }
                let block = matches!(entry.kind, Kind::Block { .. });
                let kind = if block { FileType::BlockDevice } else { FileType::CharacterDevice };
                self.node(&place, kind, makedev(*major, *minor), attributes).map_err(failed)
            }
        }
    }

    fn node(&self, place: &Place<'_>, kind: FileType, device: u64, attributes: Attributes) -> io::Result<()> {
        self.tree.node(place, kind, device)?;
        self.tree.finish(place, attributes, false)
    }

    fn hardlink(&self, place: &Place<'_>, name: &[u8], target: &[&[u8]]) -> Result<(), ImageError> {
        let failed = |error| self.failed(name, error);
        let target = self.tree.find(target).map_err(failed)?;
        let kind = target.as_ref().map(Place::kind).transpose().map_err(failed)?.flatten();
        match (target, kind) {
            (Some(_), Some(FileType::Directory)) => Err(self.hostile(name, "it links to a directory")),
            (Some(target), Some(_)) => self.tree.hardlink(place, &target).map_err(failed),
            _ => Err(self.hostile(name, "it links to something that isn't there")),
        }
    }

    fn file(&self, place: &Place<'_>, entry: &Entry, attributes: Attributes) -> Result<(), ImageError> {
        let failed = |error| self.failed(&entry.name, error);
        let mut file = self.tree.create(place).map_err(failed)?;
        let mut data = entry.data.clone();
        let (mut chunk, mut left) = (vec![0; CHUNK], data.size);
        while left > 0 {
            let unreadable = |why: String| ImageError::Unreadable { what: self.layer.to_owned(), why };
            let count = data.read(&mut chunk).map_err(|error| unreadable(error.to_string()))?;
            if count == 0 {
                return Err(unreadable("it ends within a file".to_owned()));
            }
            file.write_all(&chunk[..count]).map_err(failed)?;
            left = left.saturating_sub(count as u64);
        }
        drop(file);
        self.tree.finish(place, attributes, false).map_err(failed)
    }
}

impl Unpacked {
    fn count(&mut self, entry: &Entry) -> Result<(), ImageError> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(entry.data.size);
        self.xattrs += entry.xattrs;
        let beyond = |what: &str, limit| ImageError::TooLarge { what: what.to_owned(), limit };
        if self.entries > MAX_ENTRIES {
            return Err(beyond("the image in files", MAX_ENTRIES));
        }
        if self.bytes > MAX_UNPACKED_BYTES {
            return Err(beyond("the image in bytes", MAX_UNPACKED_BYTES));
        }
        Ok(())
    }

    /// What isn't as the image says, in words.
    pub(super) fn notes(&self) -> Vec<String> {
        [
            (self.xattrs, "extended attributes were left out"),
            (self.owners, "files belong to root: only root may keep their owners"),
            (self.devices, "devices were left out: only root may make them"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}
