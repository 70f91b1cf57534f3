//! What the fuzzer does to the journal's reader, and what it found worth keeping, replayed. The fuzz target compiles this
//! file too.

use std::fs;
use std::path::Path;
use tidegate_store::{FileStore, Key, OpenOptions, Store, Txn, check};

const HEADER_BYTES: usize = 128;

/// Has the reader look at a journal made from `data`, in each of its ways.
///
/// The first byte says how: 0 takes the rest as the whole file, 1 as what follows a valid header, anything else as
/// records whose frames and checksums are made right, so that what is in them is looked at as well.
pub(crate) fn judge(data: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    drop(FileStore::open(dir.path(), OpenOptions::new().create(true)).unwrap());
    let journal = dir.path().join("journal");
    let header = fs::read(&journal).unwrap()[..HEADER_BYTES].to_vec();
    let bytes = match data.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((1, rest)) => [&header, rest].concat(),
        Some((_, rest)) => records(header, rest),
        None => Vec::new(),
    };
    fs::write(&journal, &bytes).unwrap();

    let checked = check(dir.path());
    let looked = FileStore::open(dir.path(), OpenOptions::new().read_only(true));
    assert_eq!(checked.is_ok(), looked.is_ok(), "a check and an opening agree");
    assert!(fs::read(&journal).unwrap() == bytes, "looking changes nothing");
    let Ok((reader, _)) = looked else {
        assert!(FileStore::open(dir.path(), OpenOptions::new()).is_err());
        assert!(fs::read(&journal).unwrap() == bytes, "what is refused is untouched");
        return;
    };
    // It may be a copy by what its header says: then it is only read.
    let seen = pollster::block_on(reader.list("")).map(|listing| listing.records);
    drop(reader);
    let (store, _) = FileStore::open(dir.path(), OpenOptions::new()).unwrap();
    let listed = pollster::block_on(store.list("")).map(|listing| listing.records);
    if let (Ok(seen), Ok(listed)) = (&seen, &listed) {
        assert_eq!(seen, listed, "cutting a torn tail changes no record");
    }
    let committed = pollster::block_on(store.commit(Txn::new().put_bytes(&Key::new("new").unwrap(), b"1")));
    drop(store);
    let (store, report) = FileStore::open(dir.path(), OpenOptions::new()).unwrap();
    if committed.is_ok() {
        assert_eq!(report.torn, None);
        assert!(pollster::block_on(store.get(&Key::new("new").unwrap())).unwrap().is_some());
    }
}

/// Records of `kind, length, mark, body` as often as `data` has them.
fn records(mut journal: Vec<u8>, mut data: &[u8]) -> Vec<u8> {
    let seed = u32::from_le_bytes(journal[HEADER_BYTES - 4..].try_into().unwrap());
    let mut previous = seed;
    while let Some((&[kind, length, mark], rest)) = data.split_first_chunk() {
        let (body, rest) = rest.split_at(rest.len().min(length.into()));
        data = rest;
        let mut record = b"\xF1TR\n".to_vec();
        record.extend_from_slice(&(body.len() as u32).to_le_bytes());
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&previous.to_le_bytes());
        record.extend_from_slice(&u64::from(mark).to_le_bytes());
        record.extend_from_slice(&[kind, 0, 0, 0]);
        record.extend_from_slice(body);
        previous = crc32c::crc32c_append(crc32c::crc32c_append(seed, &record[4..8]), &record[12..]);
        record[8..12].copy_from_slice(&previous.to_le_bytes());
        journal.extend_from_slice(&record);
    }
    journal
}

#[test]
fn the_corpus_is_read_or_refused_and_never_more() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus/journal");
    let mut files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{} files", files.len());
    for file in files {
        let data = fs::read(&file).unwrap();
        // The file, and each of its beginnings: what a fuzzer would try first.
        for length in (0..=data.len()).rev().step_by(data.len() / 8 + 1) {
            judge(&data[..length]);
        }
    }
}
