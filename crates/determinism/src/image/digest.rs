//! Digests: the names of blobs, and the readers that hold bytes against them.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::ImageError;
use crate::subject::hex;

const ALGORITHM: &str = "sha256:";

/// `sha256:` and 64 hexadecimal digits. No other algorithm is in use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Digest(String);

impl Digest {
    /// Without the algorithm: safe as the name of a file.
    pub(super) fn hex(&self) -> &str {
        &self.0[ALGORITHM.len()..]
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    fn finish(hash: Sha256) -> Self {
        Self(format!("{ALGORITHM}{}", hex(&hash.finalize())))
    }
}

impl TryFrom<String> for Digest {
    type Error = ImageError;

    fn try_from(text: String) -> Result<Self, ImageError> {
        let digits = text.strip_prefix(ALGORITHM).unwrap_or_default();
        let good =
            digits.len() == 64 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if good { Ok(Self(text)) } else { Err(ImageError::NoDigest { digest: text }) }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts and hashes what passes through.
#[derive(Debug)]
pub(super) struct Hashing<R> {
    inner: R,
    hash: Sha256,
    pub(super) bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// Reads what is left and answers with the digest of everything.
    pub(super) fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(Digest::finish(self.hash))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha256_in_lower_case_and_nothing_else() {
        let good = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(Digest::try_from(good.clone()).unwrap().hex(), "0a".repeat(32));
        for bad in [
            "",
            "sha256:",
            "latest",
            "sha256:0a",
            &good.to_uppercase(),
            &format!("{good}0"),
            &good.replace("sha256", "sha512"),
            &good.replace("0a0a", "../."),
        ] {
            assert!(Digest::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_are_hashed_to_their_end_however_little_was_read() {
        let mut hashing = Hashing::new(&b"abc"[..]);
        hashing.read_exact(&mut [0]).unwrap();
        assert_eq!(hashing.finish().unwrap(), Digest::of(b"abc"));
    }
}
