//! What is inside the records.

use super::bytes::Bytes;
use crate::state::Commit;
use crate::{Key, Record};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::{Epoch, Fence, Revision};

/// The longest body a reader believes in. Above anything written (a batch stops growing at 4 MiB and its last
/// transaction has at most 4 MiB more, with 7 bytes around each key of one byte at least), so that a damaged length
/// can't ask for the machine's memory.
pub(crate) const MAX_BODY_BYTES: usize = 128 << 20;

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// The end of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) revision: Revision,
    pub(crate) records: u64,
}

impl Base {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.revision.0.to_le_bytes(), self.records.to_le_bytes()].concat()
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, &'static str> {
        let mut bytes = Bytes(body);
        let base = Self { revision: Revision(bytes.u64()?), records: bytes.u64()? };
        bytes.end().map(|()| base)
    }
}

/// Commits with consecutive revisions.
pub(crate) fn encode_commits(commits: &[Commit]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&(commits.len() as u32).to_le_bytes());
    for commit in commits {
        body.extend_from_slice(&commit.revision.0.to_le_bytes());
        body.extend_from_slice(&(commit.writes.len() as u32).to_le_bytes());
        for (key, value) in &commit.writes {
            body.push(if value.is_some() { PUT } else { DELETE });
            put_pair(&mut body, key, value.as_deref().unwrap_or_default());
        }
    }
    body
}

pub(crate) fn decode_commits(body: &[u8]) -> Result<Vec<Commit>, &'static str> {
    let mut bytes = Bytes(body);
    let mut commits = Vec::new();
    for _ in 0..bytes.u32()? {
        let revision = Revision(bytes.u64()?);
        let mut writes = BTreeMap::new();
        for _ in 0..bytes.u32()? {
            let put = match bytes.u8()? {
                PUT => true,
                DELETE => false,
                _ => return Err("it has an unknown operation"),
            };
            let (key, value) = take_pair(&mut bytes)?;
            writes.insert(key, put.then_some(value));
        }
        commits.push(Commit { revision, writes });
    }
    bytes.end().map(|()| commits)
}

/// Appends one live record to a snapshot's body.
pub(crate) fn encode_live(body: &mut Vec<u8>, record: &Record) {
    body.extend_from_slice(&record.fence.epoch.0.to_le_bytes());
    body.extend_from_slice(&record.fence.revision.0.to_le_bytes());
    put_pair(body, &record.key, &record.value);
}

pub(crate) fn decode_live(body: &[u8]) -> Result<Vec<Record>, &'static str> {
    let mut bytes = Bytes(body);
    let mut records = Vec::new();
    while !bytes.0.is_empty() {
        let fence = Fence::new(Epoch(bytes.u64()?), Revision(bytes.u64()?));
        let (key, value) = take_pair(&mut bytes)?;
        records.push(Record { key, value, fence });
    }
    Ok(records)
}

fn put_pair(body: &mut Vec<u8>, key: &Key, value: &[u8]) {
    body.extend_from_slice(&(key.as_str().len() as u16).to_le_bytes());
    body.extend_from_slice(&(value.len() as u32).to_le_bytes());
    body.extend_from_slice(key.as_str().as_bytes());
    body.extend_from_slice(value);
}

fn take_pair(bytes: &mut Bytes<'_>) -> Result<(Key, Arc<[u8]>), &'static str> {
    let (key, value) = (bytes.u16()?.into(), bytes.u32()? as usize);
    let key = std::str::from_utf8(bytes.take(key)?).ok().and_then(|key| Key::new(key).ok());
    Ok((key.ok_or("it has an impossible key")?, bytes.take(value)?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    #[test]
    fn commits_come_back_as_they_were_and_never_from_less() {
        let writes = BTreeMap::from([(key("a/ b"), Some(Arc::from(&b"\x00\xff"[..]))), (key("🌊"), None)]);
        let commits = vec![
            Commit { revision: Revision(7), writes },
            Commit { revision: Revision(8), writes: BTreeMap::from([(key("e"), Some(Arc::from(&b""[..])))]) },
        ];
        let body = encode_commits(&commits);
        assert_eq!(decode_commits(&body).unwrap(), commits);
        for cut in 0..body.len() {
            assert!(decode_commits(&body[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(decode_commits(&[body, vec![0]].concat()), Err("it has bytes too many"));
    }

    #[test]
    fn a_snapshot_keeps_the_fence_of_every_record() {
        let fence = Fence::new(Epoch(3), Revision(4));
        let record = Record { key: key("k"), value: Arc::from(&b"v"[..]), fence };
        let mut body = Vec::new();
        encode_live(&mut body, &record);
        encode_live(&mut body, &record);
        assert_eq!(decode_live(&body).unwrap(), [record.clone(), record]);
        let base = Base { revision: Revision(9), records: 2 };
        assert_eq!(Base::decode(&base.encode()).unwrap(), base);
    }
}
