//! The first 128 bytes of a journal.

use super::bytes::Bytes;
use crate::file::identity::FileIdentity;
use tidegate_core::Epoch;

/// The format that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// The length of the header.
pub(crate) const HEADER_BYTES: usize = 128;

const MAGIC: &[u8; 8] = b"TIDEJRNL";
const CRC_AT: usize = HEADER_BYTES - 4;

/// What a journal says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The store, the same for all its journals.
    pub(crate) store: u128,
    pub(crate) epoch: Epoch,
    /// Which journal of the store this is; every rewrite raises it.
    pub(crate) generation: u64,
    /// The file it was written as.
    pub(crate) identity: FileIdentity,
}

/// What is there in a header's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAHeader {
    Empty,
    Zeros,
    Garbage,
    Newer(u32),
    Damaged(&'static str),
}

impl Header {
    /// The header's bytes, and its checksum, with which every record's checksum begins.
    pub(crate) fn encode(&self) -> ([u8; HEADER_BYTES], u32) {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes.extend_from_slice(&self.store.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.0.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.identity.device.to_le_bytes());
        bytes.extend_from_slice(&self.identity.inode.to_le_bytes());
        bytes.extend_from_slice(&self.identity.born.to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        header[..bytes.len()].copy_from_slice(&bytes);
        let crc = crc32c::crc32c(&header[..CRC_AT]);
        header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        (header, crc)
    }

    /// The header and its checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u32), NotAHeader> {
        if bytes.is_empty() {
            return Err(NotAHeader::Empty);
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(NotAHeader::Zeros);
        }
        let rest = bytes.strip_prefix(MAGIC).ok_or(NotAHeader::Garbage)?;
        let mut fields = Bytes(rest);
        let format = fields.u32().map_err(NotAHeader::Damaged)?;
        if format > FORMAT {
            return Err(NotAHeader::Newer(format));
        }
        let whole = bytes.first_chunk::<HEADER_BYTES>().ok_or(NotAHeader::Damaged("it is cut short"))?;
        let crc = crc32c::crc32c(&whole[..CRC_AT]);
        if whole[CRC_AT..] != crc.to_le_bytes() {
            return Err(NotAHeader::Damaged("its checksum is wrong"));
        }
        Self::fields(fields).map(|header| (header, crc)).map_err(NotAHeader::Damaged)
    }

    fn fields(mut fields: Bytes<'_>) -> Result<Self, &'static str> {
        if fields.u32()? != HEADER_BYTES as u32 {
            return Err("its length is not that of format 1");
        }
        Ok(Self {
            store: fields.u128()?,
            epoch: Epoch(fields.u64()?),
            generation: fields.u64()?,
            identity: FileIdentity {
                device: fields.u64()?,
                inode: fields.u64()?,
                born: fields.u64()?.cast_signed(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let identity = FileIdentity { device: 1 << 32 | 2, inode: 3, born: -4 };
        Header { store: 5, epoch: Epoch(6), generation: 7, identity }
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        assert_eq!(Header::decode(&header().encode().0).unwrap().0, header());
    }

    #[test]
    fn whatever_else_is_there_is_told_apart() {
        let (good, _) = header().encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            bytes.to_vec()
        };
        for (bytes, expected) in [
            (vec![], NotAHeader::Empty),
            (vec![0; 4096], NotAHeader::Zeros),
            (b"# a note".repeat(40), NotAHeader::Garbage),
            (good[..7].to_vec(), NotAHeader::Garbage),
            (with(8, 2), NotAHeader::Newer(2)),
            (good[..127].to_vec(), NotAHeader::Damaged("it is cut short")),
            (with(20, 0xff), NotAHeader::Damaged("its checksum is wrong")),
            (with(127, !good[127]), NotAHeader::Damaged("its checksum is wrong")),
        ] {
            assert_eq!(Header::decode(&bytes), Err(expected));
        }
    }
}
