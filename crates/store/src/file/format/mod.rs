//! Format 1 of the journal, byte for byte, as `docs/store-format.md` describes it. Pure: bytes in, values out. Nothing
//! here knows a file.

mod body;
mod bytes;
mod frame;
mod header;

pub(crate) use body::{Base, MAX_BODY_BYTES, decode_commits, decode_live, encode_commits, encode_live};
pub(crate) use frame::{FRAME_BYTES, Frame, Kind, MARKER, Parsed, encode_frame, parse_frame};
pub(crate) use header::{FORMAT, HEADER_BYTES, Header, NotAHeader};
