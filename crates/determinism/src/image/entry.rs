//! The entries of a tar archive, with long names and attributes put together. Reads only; what an entry may do is
//! decided elsewhere.

use std::io::{Read as _, Seek as _, SeekFrom};

use tar::{Archive, EntryType, Header, PaxExtensions};

use super::limits::MAX_EXTENSION_BYTES;
use super::section::Section;

/// Attributes that are no part of the POSIX headers.
const XATTR: &str = "SCHILY.xattr.";
const SPARSE: &str = "GNU.sparse.";

/// One file of an archive.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Seconds since 1970.
    pub(super) mtime: i64,
    /// Extended attributes that it has.
    pub(super) xattrs: u64,
    pub(super) data: Section,
}

/// What an entry is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
    Hardlink(Vec<u8>),
    Character { major: u32, minor: u32 },
    Block { major: u32, minor: u32 },
    Fifo,
}

/// Why an archive's entries can't be read, or what was done with one of them failed.
#[derive(Debug)]
pub(super) enum Fault<E> {
    Unreadable(String),
    Unsupported(String),
    Inner(E),
}

/// What headers before an entry say about it.
#[derive(Debug, Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<i64>,
    size: Option<u64>,
    xattrs: u64,
    sparse: bool,
}

/// Hands every entry of an archive on, in order.
pub(super) fn each<E>(
    archive: &Section,
    mut seen: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), Fault<E>> {
    let unreadable = |error: std::io::Error| Fault::Unreadable(error.to_string());
    let mut source = archive.clone();
    source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let mut reader = Archive::new(source);
    let mut extensions = Extensions::default();
    for raw in reader.entries_with_seek().map_err(unreadable)?.raw(true) {
        let raw = raw.map_err(unreadable)?;
        let header = raw.header();
        let size = header.entry_size().map_err(unreadable)?;
        // The reader finds the next entry by seeking, which doesn't notice the end of a file.
        let data = archive
            .part(raw.raw_file_position(), size)
            .ok_or_else(|| Fault::Unreadable("it ends within an entry".to_owned()))?;
        if extensions.read(header.entry_type(), &data).map_err(Fault::Unreadable)? {
            continue;
        }
        let entry = std::mem::take(&mut extensions).entry(header, data)?;
        seen(entry).map_err(Fault::Inner)?;
    }
    Ok(())
}

impl Extensions {
    /// Takes in a header that belongs to the next entry; false for one that is an entry itself.
    fn read(&mut self, kind: EntryType, data: &Section) -> Result<bool, String> {
        if !(kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions())
        {
            return Ok(false);
        }
        if data.size > MAX_EXTENSION_BYTES {
            return Err(format!("a header of {} bytes", data.size));
        }
        let mut bytes = Vec::new();
        data.clone().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let text = || bytes.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
        if kind.is_gnu_longname() {
            self.name = text();
        } else if kind.is_gnu_longlink() {
            self.link = text();
        } else if kind.is_pax_local_extensions() {
            self.attributes(&bytes)?;
        }
        Ok(true)
    }

    fn attributes(&mut self, bytes: &[u8]) -> Result<(), String> {
        for attribute in PaxExtensions::new(bytes) {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let key = attribute.key().map_err(|error| error.to_string())?;
            let value = attribute.value_bytes();
            let number = || -> Result<u64, String> {
                let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
                text.parse().map_err(|_| format!("the attribute {key} is {text:?}"))
            };
            match key {
                "path" => self.name = Some(value.to_vec()),
                "linkpath" => self.link = Some(value.to_vec()),
                "uid" => self.uid = Some(number()?),
                "gid" => self.gid = Some(number()?),
                "size" => self.size = Some(number()?),
                "mtime" => self.mtime = Some(seconds(value)?),
                _ if key.starts_with(XATTR) => self.xattrs += 1,
                _ if key.starts_with(SPARSE) => self.sparse = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn entry<E>(self, header: &Header, data: Section) -> Result<Entry, Fault<E>> {
        let unreadable = |error: std::io::Error| Fault::Unreadable(error.to_string());
        let name = self.name.unwrap_or_else(|| header.path_bytes().into_owned());
        if self.size.is_some_and(|size| size != data.size) {
            return Err(Fault::Unreadable("two sizes for one entry".to_owned()));
        }
        let link = |link: Option<Vec<u8>>| {
            link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned)).unwrap_or_default()
        };
        let device = || -> std::io::Result<(u32, u32)> {
            Ok((header.device_major()?.unwrap_or_default(), header.device_minor()?.unwrap_or_default()))
        };
        let kind = match header.entry_type() {
            _ if self.sparse => return Err(Fault::Unsupported("a file with holes".to_owned())),
            // The oldest archives mark a directory by its name alone.
            EntryType::Regular if name.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link(self.link)),
            EntryType::Link => Kind::Hardlink(link(self.link)),
            EntryType::Char => {
                let (major, minor) = device().map_err(unreadable)?;
                Kind::Character { major, minor }
            }
            EntryType::Block => {
                let (major, minor) = device().map_err(unreadable)?;
                Kind::Block { major, minor }
            }
            EntryType::Fifo => Kind::Fifo,
            EntryType::GNUSparse => return Err(Fault::Unsupported("a file with holes".to_owned())),
            other => {
                return Err(Fault::Unsupported(format!("an entry of type {:?}", other.as_byte() as char)));
            }
        };
        let id = |pax: Option<u64>, plain: std::io::Result<u64>| {
            let id = pax.map_or(plain, Ok).map_err(unreadable)?;
            u32::try_from(id).map_err(|_| Fault::Unreadable(format!("an owner numbered {id}")))
        };
        let mtime = match self.mtime {
            Some(mtime) => mtime,
            None => i64::try_from(header.mtime().map_err(unreadable)?).unwrap_or(i64::MAX),
        };
        Ok(Entry {
            kind,
            mode: header.mode().map_err(unreadable)? & 0o7777,
            uid: id(self.uid, header.uid())?,
            gid: id(self.gid, header.gid())?,
            mtime,
            xattrs: self.xattrs,
            name,
            data,
        })
    }
}

/// The whole seconds of a time like `1700000000.123456789`.
fn seconds(value: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
    let whole = text.split('.').next().unwrap_or_default();
    whole.parse().map_err(|_| format!("the time {text:?}"))
}
