//! One layer: from what is stored to a plain tar archive that is what its digests say. Bounded while it is read, so
//! that a bomb ends at the bound and not at the end of the disk.

use std::io::{BufReader, Read, Write as _};
use std::path::Path;

use super::digest::{Digest, Hashing};
use super::error::ImageError;
use super::limits::{MAX_RATIO, MAX_UNPACKED_BYTES, RATIO_FREE_BYTES};
use super::section::Section;

const CHUNK: usize = 128 * 1024;

/// A layer as an image stores it.
#[derive(Debug)]
pub(super) struct Layer {
    /// What messages call it.
    pub(super) name: String,
    /// How it is stored, where the image says so.
    pub(super) media_type: String,
    /// The digest of what is stored; docker's archives have none.
    pub(super) digest: Option<Digest>,
    /// The digest of the plain archive.
    pub(super) diff_id: Digest,
    pub(super) data: Section,
}

/// How a layer is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    Plain,
    Gzip,
    Zstd,
}

impl Layer {
    /// The plain archive, in a file without a name in `scratch` unless it is stored as one.
    pub(super) fn plain(&self, scratch: &Path) -> Result<Section, ImageError> {
        let storage = storage(&self.media_type, self.magic()?).map_err(|kind| ImageError::Unsupported {
            what: self.name.clone(),
            kind,
            remedy: "write the image again with layers of tar, tar+gzip or tar+zstd",
        })?;
        // Held against its digest first: nothing that isn't what it should be reaches a decoder.
        let stored = Hashing::new(self.data.clone()).finish().map_err(|error| self.unreadable(&error))?;
        if let Some(digest) = &self.digest {
            self.hold(digest, &stored)?;
        }
        if storage == Storage::Plain {
            self.hold(&self.diff_id, &stored)?;
            return Ok(self.data.clone());
        }
        let write = |source| ImageError::Write { path: scratch.to_owned(), source };
        let mut file = tempfile::tempfile_in(scratch).map_err(write)?;
        let source = BufReader::new(self.data.clone());
        let plain = if storage == Storage::Gzip {
            self.inflate(&mut flate2::bufread::MultiGzDecoder::new(source), &mut file, scratch)?
        } else {
            let decoder = zstd::Decoder::with_buffer(source).map_err(|error| self.unreadable(&error));
            self.inflate(&mut decoder?, &mut file, scratch)?
        };
        self.hold(&self.diff_id, &plain)?;
        Section::whole(file).map_err(write)
    }

    fn inflate(
        &self,
        from: &mut dyn Read,
        to: &mut std::fs::File,
        scratch: &Path,
    ) -> Result<Digest, ImageError> {
        let mut plain = Hashing::new(from);
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = match plain.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(self.unreadable(&error)),
            };
            if plain.bytes > bound(self.data.size) {
                return Err(ImageError::TooLarge {
                    what: format!("{} in unpacked bytes", self.name),
                    limit: bound(self.data.size),
                });
            }
            to.write_all(&chunk[..count])
                .map_err(|source| ImageError::Write { path: scratch.to_owned(), source })?;
        }
        plain.finish().map_err(|error| self.unreadable(&error))
    }

    fn magic(&self) -> Result<[u8; 4], ImageError> {
        self.data.magic().map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &std::io::Error) -> ImageError {
        ImageError::Unreadable { what: self.name.clone(), why: error.to_string() }
    }

    fn hold(&self, wanted: &Digest, found: &Digest) -> Result<(), ImageError> {
        if wanted == found {
            return Ok(());
        }
        Err(ImageError::Damaged {
            what: self.name.clone(),
            wanted: wanted.to_string(),
            found: found.to_string(),
        })
    }
}

/// What a layer of this many stored bytes may become.
fn bound(stored: u64) -> u64 {
    stored.saturating_mul(MAX_RATIO).clamp(RATIO_FREE_BYTES, MAX_UNPACKED_BYTES)
}

/// How a layer is stored, by what the image says and, where it says nothing, by how it begins.
fn storage(media_type: &str, magic: [u8; 4]) -> Result<Storage, String> {
    if media_type.is_empty() {
        return Ok(match magic {
            [0x1f, 0x8b, ..] => Storage::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Storage::Zstd,
            _ => Storage::Plain,
        });
    }
    let oci = ["application/vnd.oci.image.layer.v1.", "application/vnd.oci.image.layer.nondistributable.v1."];
    let docker =
        ["application/vnd.docker.image.rootfs.diff.", "application/vnd.docker.image.rootfs.foreign.diff."];
    let rest = oci.iter().chain(&docker).find_map(|prefix| media_type.strip_prefix(prefix));
    match rest {
        Some("tar") => Ok(Storage::Plain),
        Some("tar+gzip" | "tar.gzip") => Ok(Storage::Gzip),
        Some("tar+zstd" | "tar.zstd") => Ok(Storage::Zstd),
        _ => Err(format!("a layer of type {media_type:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(media_type: &str, magic: [u8; 4], expected: Option<Storage>) {
        assert_eq!(storage(media_type, magic).ok(), expected, "{media_type}");
    }

    #[test]
    fn what_the_image_says_about_a_layer_goes_before_how_it_begins() {
        let (gzip, zstd, plain) = ([0x1f, 0x8b, 8, 0], [0x28, 0xb5, 0x2f, 0xfd], *b"etc/");
        check("", gzip, Some(Storage::Gzip));
        check("", zstd, Some(Storage::Zstd));
        check("", plain, Some(Storage::Plain));
        check("application/vnd.oci.image.layer.v1.tar", gzip, Some(Storage::Plain));
        check("application/vnd.oci.image.layer.v1.tar+gzip", plain, Some(Storage::Gzip));
        check("application/vnd.oci.image.layer.v1.tar+zstd", plain, Some(Storage::Zstd));
        check("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", gzip, Some(Storage::Gzip));
        check("application/vnd.docker.image.rootfs.diff.tar.gzip", gzip, Some(Storage::Gzip));
        check("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", gzip, Some(Storage::Gzip));
        for unknown in [
            "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
            "application/vnd.oci.image.layer.v1.tar+xz",
            "application/vnd.in-toto+json",
            "text/plain",
        ] {
            check(unknown, gzip, None);
        }
    }

    #[test]
    fn a_small_layer_may_shrink_as_it_likes_and_a_large_one_may_not() {
        assert_eq!(bound(1_000), RATIO_FREE_BYTES);
        assert_eq!(bound(1_000_000), 200_000_000);
        assert_eq!(bound(u64::MAX), MAX_UNPACKED_BYTES);
    }
}
