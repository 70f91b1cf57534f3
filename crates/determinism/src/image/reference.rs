//! How an image is named: `PATH[@DIGEST]`. Pure: whether a path exists is asked of the caller.

use std::path::{Path, PathBuf};

use super::digest::Digest;
use super::error::ImageError;

/// A path, and what has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) path: PathBuf,
    pub(super) digest: Option<Digest>,
}

/// Reads a reference; a path may have an `@` or a `:` of its own if it exists.
pub(super) fn parse(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Reference, ImageError> {
    let whole = PathBuf::from(text);
    if exists(&whole) {
        return Ok(Reference { path: whole, digest: None });
    }
    if let Some((path, digest)) = text.rsplit_once('@') {
        let digest = Digest::try_from(digest.to_owned())?;
        let path = PathBuf::from(path);
        return if exists(&path) {
            Ok(Reference { path, digest: Some(digest) })
        } else {
            Err(ImageError::Unavailable { path })
        };
    }
    let last = text.rsplit('/').next().unwrap_or_default();
    if last.contains(':') {
        return Err(ImageError::Tag { reference: text.to_owned() });
    }
    Err(ImageError::Unavailable { path: whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:00000000000000000000000000000000000000000000000000000000000000ff";

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, bool), &str>) {
        let there = ["image", "dir/a@b", "dir/a:b", "image.tar"];
        let found = parse(text, |path| there.iter().any(|name| Path::new(name) == path));
        match (found, expected) {
            (Ok(reference), Ok((path, pinned))) => {
                assert_eq!((reference.path.as_path(), reference.digest.is_some()), (Path::new(path), pinned));
            }
            (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{error}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn a_path_is_taken_as_it_is_and_a_digest_follows_an_at() {
        check("image", Ok(("image", false)));
        check(&format!("image@{D}"), Ok(("image", true)));
        check("dir/a@b", Ok(("dir/a@b", false)));
        check(&format!("dir/a@b@{D}"), Ok(("dir/a@b", true)));
        check("dir/a:b", Ok(("dir/a:b", false)));
    }

    #[test]
    fn a_tag_is_no_digest_and_nothing_is_pulled() {
        check("alpine:3.22", Err("a name with a tag"));
        check("image:latest", Err("a name with a tag"));
        check("docker.io/library/alpine:3", Err("a name with a tag"));
        check("localhost:5000/alpine", Err("nothing is ever pulled"));
        check(&format!("ghcr.io/a/b@{D}"), Err("nothing is ever pulled"));
        check("image@latest", Err("\"latest\" is no digest"));
        check("image@sha256:abc", Err("is no digest"));
        check("", Err("there is no image"));
        check("@", Err("is no digest"));
    }
}
