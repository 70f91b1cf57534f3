//! The frame around every record: how long it is, that it is whole, what came before it and what is known durable.

use super::MAX_BODY_BYTES;

/// The length of a frame without its body.
pub(crate) const FRAME_BYTES: usize = 28;

/// The first four bytes of every record, by which records are found again behind damage.
pub(crate) const MARKER: [u8; 4] = *b"\xF1TR\n";

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Transactions that were appended together.
    Commits,
    /// Part of a snapshot.
    Live,
    /// The end of the snapshot: its revision and how many records it has.
    Base,
    /// Nothing but its durable mark.
    Mark,
}

/// A record as it stands in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its checksum, which its successor carries.
    pub(crate) crc: u32,
    /// The checksum that its predecessor has to have.
    pub(crate) previous: u32,
    /// The offset up to which everything was known durable when it was appended.
    pub(crate) mark: u64,
    pub(crate) kind: Kind,
    pub(crate) body: &'a [u8],
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    Whole(Frame<'a>),
    /// The record needs this many bytes in all.
    Short(usize),
    /// No record, torn or damaged.
    Invalid(&'static str),
    /// A whole record that this version doesn't understand.
    Unknown,
}

/// A record's bytes and its checksum.
pub(crate) fn encode_frame(seed: u32, previous: u32, mark: u64, kind: Kind, body: &[u8]) -> (Vec<u8>, u32) {
    assert!(body.len() <= MAX_BODY_BYTES, "a record is bounded before it is built");
    let mut bytes = Vec::with_capacity(FRAME_BYTES + body.len());
    bytes.extend_from_slice(&MARKER);
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&previous.to_le_bytes());
    bytes.extend_from_slice(&mark.to_le_bytes());
    bytes.extend_from_slice(&[number(kind), 0, 0, 0]);
    bytes.extend_from_slice(body);
    let crc = checksum(seed, &bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    (bytes, crc)
}

/// The record that `bytes` begin with.
pub(crate) fn parse_frame(seed: u32, bytes: &[u8]) -> Parsed<'_> {
    let Some(frame) = bytes.first_chunk::<FRAME_BYTES>() else { return Parsed::Short(FRAME_BYTES) };
    if frame[..4] != MARKER {
        return Parsed::Invalid("no record begins here");
    }
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| frame[at + i]));
    let length = u32_at(4) as usize;
    if length > MAX_BODY_BYTES {
        return Parsed::Invalid("its length is impossible");
    }
    let Some(whole) = bytes.get(..FRAME_BYTES + length) else { return Parsed::Short(FRAME_BYTES + length) };
    let crc = u32_at(8);
    if checksum(seed, whole) != crc {
        return Parsed::Invalid("its checksum is wrong");
    }
    match kind(frame[24]) {
        None => Parsed::Unknown,
        Some(kind) => Parsed::Whole(Frame {
            crc,
            previous: u32_at(12),
            mark: u64::from_le_bytes(std::array::from_fn(|i| frame[16 + i])),
            kind,
            body: &whole[FRAME_BYTES..],
        }),
    }
}

/// Over everything but the marker and the checksum itself, beginning with the header's, so that a record of another
/// journal is never valid in this one.
fn checksum(seed: u32, record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &record[4..8]), &record[12..])
}

fn number(kind: Kind) -> u8 {
    match kind {
        Kind::Commits => 1,
        Kind::Live => 2,
        Kind::Base => 3,
        Kind::Mark => 4,
    }
}

fn kind(number: u8) -> Option<Kind> {
    [Kind::Commits, Kind::Live, Kind::Base, Kind::Mark].into_iter().find(|kind| self::number(*kind) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_and_only_whole() {
        let (bytes, crc) = encode_frame(1, 2, 3, Kind::Mark, b"body");
        let whole = Frame { crc, previous: 2, mark: 3, kind: Kind::Mark, body: b"body" };
        assert_eq!(parse_frame(1, &bytes), Parsed::Whole(whole));
        for cut in 0..bytes.len() {
            assert!(matches!(parse_frame(1, &bytes[..cut]), Parsed::Short(n) if n > cut), "cut at {cut}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (bytes, _) = encode_frame(1, 2, 3, Kind::Commits, b"body");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let parsed = parse_frame(1, &flipped);
            assert!(matches!(parsed, Parsed::Invalid(_) | Parsed::Short(_)), "bit {bit}: {parsed:?}");
        }
    }

    #[test]
    fn a_record_of_another_journal_is_not_one_of_this() {
        let (bytes, _) = encode_frame(1, 2, 3, Kind::Commits, b"body");
        assert_eq!(parse_frame(9, &bytes), Parsed::Invalid("its checksum is wrong"));
    }
}
