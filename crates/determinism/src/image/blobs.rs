//! Where the bytes of an image are: the files of an OCI layout, or the members of an archive. Everything that is read
//! whole is bounded and held against its digest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::digest::Digest;
use super::document::Descriptor;
use super::entry::{self, Fault, Kind};
use super::error::ImageError;
use super::limits::{MAX_DOCUMENT_BYTES, MAX_MEMBERS};
use super::name;
use super::section::Section;

/// Links from one member of an archive to another: docker writes one where two layers are the same.
const MAX_LINKS: usize = 8;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Blobs {
    Layout(PathBuf),
    Archive { path: PathBuf, members: BTreeMap<String, Member> },
}

/// A file of an archive, or a link to one.
#[derive(Debug)]
pub(super) enum Member {
    File(Section),
    Link(String),
}

impl Blobs {
    pub(super) fn open(path: &Path) -> Result<Self, ImageError> {
        let read = |source| ImageError::Read { path: path.to_owned(), source };
        let kind = std::fs::metadata(path).map_err(read)?.file_type();
        if kind.is_dir() {
            return Ok(Self::Layout(path.to_owned()));
        }
        if !kind.is_file() {
            let why = "it is neither a directory nor a file".to_owned();
            return Err(ImageError::NotAnImage { path: path.to_owned(), why });
        }
        let archive = Section::whole(File::open(path).map_err(read)?).map_err(read)?;
        if archive.magic().map_err(read)?[..2] == GZIP {
            let why = "it is compressed as a whole: unpack it with `gunzip`".to_owned();
            return Err(ImageError::NotAnImage { path: path.to_owned(), why });
        }
        Ok(Self::Archive { path: path.to_owned(), members: members(path, &archive)? })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Layout(path) | Self::Archive { path, .. } => path,
        }
    }

    /// The file with this name; `None` when there is none.
    pub(super) fn file(&self, name: &str) -> Result<Option<Section>, ImageError> {
        match self {
            Self::Layout(root) => {
                let path = root.join(name);
                if !path.is_file() {
                    return Ok(None);
                }
                let file = File::open(&path).and_then(Section::whole);
                file.map(Some).map_err(|source| ImageError::Read { path, source })
            }
            Self::Archive { members, .. } => {
                let mut name = name.to_owned();
                for _ in 0..MAX_LINKS {
                    match members.get(&name) {
                        Some(Member::File(section)) => return Ok(Some(section.clone())),
                        Some(Member::Link(target)) => name.clone_from(target),
                        None => break,
                    }
                }
                Ok(None)
            }
        }
    }

    /// A file that has to be there.
    pub(super) fn needed(&self, name: &str) -> Result<Section, ImageError> {
        self.file(name)?.ok_or_else(|| ImageError::NotAnImage {
            path: self.path().to_owned(),
            why: format!("it has no {name}"),
        })
    }

    /// The blob that a descriptor names, of the size that it names. Its digest is for whoever reads it.
    pub(super) fn blob(&self, descriptor: &Descriptor) -> Result<Section, ImageError> {
        let section = self.needed(&format!("blobs/sha256/{}", descriptor.digest.hex()))?;
        if section.size != descriptor.size {
            return Err(ImageError::Damaged {
                what: format!("the blob {}", descriptor.digest),
                wanted: format!("{} bytes", descriptor.size),
                found: format!("{} bytes", section.size),
            });
        }
        Ok(section)
    }

    /// A document that a descriptor names.
    pub(super) fn document<T: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<T, ImageError> {
        let what = format!("the blob {}", descriptor.digest);
        let bytes = bytes(&what, self.blob(descriptor)?)?;
        let found = Digest::of(&bytes);
        if found != descriptor.digest {
            let wanted = descriptor.digest.to_string();
            return Err(ImageError::Damaged { what, wanted, found: found.to_string() });
        }
        parse(&what, &bytes)
    }
}

/// A document as bytes.
pub(super) fn bytes(what: &str, mut section: Section) -> Result<Vec<u8>, ImageError> {
    if section.size > MAX_DOCUMENT_BYTES {
        return Err(ImageError::TooLarge { what: format!("{what} in bytes"), limit: MAX_DOCUMENT_BYTES });
    }
    let mut bytes = Vec::new();
    let read = section.read_to_end(&mut bytes);
    read.map_err(|error| ImageError::Unreadable { what: what.to_owned(), why: error.to_string() })?;
    Ok(bytes)
}

/// A document as what it says.
pub(super) fn parse<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ImageError::Unreadable { what: what.to_owned(), why: error.to_string() })
}

fn members(path: &Path, archive: &Section) -> Result<BTreeMap<String, Member>, ImageError> {
    let what = || path.display().to_string();
    let mut members = BTreeMap::new();
    let read = entry::each(archive, |entry| {
        let hostile = |why| ImageError::Hostile {
            layer: what(),
            entry: String::from_utf8_lossy(&entry.name).into_owned(),
            why,
        };
        let parts = name::parts(&entry.name).map_err(hostile)?;
        let joined = |parts: &[&[u8]]| {
            String::from_utf8(parts.join(&b"/"[..])).map_err(|_| hostile("its name is no text"))
        };
        let name = joined(&parts)?;
        let member = match entry.kind {
            Kind::Directory => return Ok(()),
            Kind::File => Member::File(entry.data),
            Kind::Symlink(target) => Member::Link(joined(&follow(&parts, &target).map_err(hostile)?)?),
            Kind::Hardlink(target) => Member::Link(joined(&name::parts(&target).map_err(hostile)?)?),
            _ => return Err(hostile("it is a device")),
        };
        if members.insert(name, member).is_some() {
            return Err(hostile("it is there twice"));
        }
        if members.len() > MAX_MEMBERS {
            return Err(ImageError::TooLarge {
                what: "the archive in files".to_owned(),
                limit: MAX_MEMBERS as u64,
            });
        }
        Ok(())
    });
    read.map_err(|fault| match fault {
        Fault::Inner(error) => error,
        Fault::Unreadable(why) => ImageError::Unreadable { what: what(), why },
        Fault::Unsupported(kind) => unsupported(what(), kind),
    })?;
    if members.is_empty() {
        let why = "it is no tar archive, or an empty one".to_owned();
        return Err(ImageError::NotAnImage { path: path.to_owned(), why });
    }
    Ok(members)
}

/// An entry that isn't known here.
pub(super) fn unsupported(what: String, kind: String) -> ImageError {
    ImageError::Unsupported {
        what,
        kind,
        remedy: "write the image again with `skopeo copy` or `podman save`",
    }
}

/// Where a symbolic link inside an archive leads.
fn follow<'a>(from: &[&'a [u8]], target: &'a [u8]) -> Result<Vec<&'a [u8]>, &'static str> {
    if target.starts_with(b"/") {
        return Err("it links out of the archive");
    }
    let mut parts = from.split_last().map_or(Vec::new(), |(_, directory)| directory.to_vec());
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop().ok_or("it links out of the archive")?;
            }
            _ => parts.push(part),
        }
    }
    Ok(parts)
}
