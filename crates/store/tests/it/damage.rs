//! What is cut, and what is refused: a torn tail and damage are told apart, and neither is ever a silent fresh start.

use crate::support::{Place, Tame, block_on, everything, is_pending, put};
use std::pin::pin;
use std::sync::Arc;
use tidegate_store::{FileError, FileStore, OpenOptions, Store, check};

/// Records as `docs/store-format.md` describes them.
const HEADER: usize = 128;
const FRAME: usize = 28;
const COMMITS: u8 = 1;
const MARK: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
    kind: u8,
}

fn spans(bytes: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = HEADER;
    while start < bytes.len() {
        let length = u32::from_le_bytes(bytes[start + 4..start + 8].try_into().unwrap()) as usize;
        let end = start + FRAME + length;
        spans.push(Span { start, end, kind: bytes[start + 24] });
        start = end;
    }
    spans
}

fn commits(bytes: &[u8]) -> Vec<Span> {
    spans(bytes).into_iter().filter(|span| span.kind == COMMITS).collect()
}

/// A closed store with the records a, b and c, one commit each.
fn three_commits() -> Place {
    let place = Place::new();
    let store = place.open();
    for name in ["a", "b", "c"] {
        block_on(store.commit(put(name, name))).unwrap();
    }
    place
}

fn names(store: &FileStore) -> String {
    everything(store).2.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_journal_cut_at_any_byte_of_its_last_record_loses_exactly_that_record_and_says_so_once() {
    let place = three_commits();
    let whole = place.bytes();
    let last = commits(&whole)[2];
    for cut in last.start..last.end {
        place.overwrite(&whole[..cut]);
        let (store, report) = place.try_open().unwrap();
        let torn = report.torn.map(|torn| (torn.offset as usize, torn.bytes as usize));
        let expected = (cut > last.start).then_some((last.start, cut - last.start));
        assert_eq!(torn, expected, "cut at {cut}");
        assert_eq!(names(&store), "ab", "cut at {cut}");
        assert_eq!(place.bytes().len(), last.start, "cut at {cut}");
        drop(store);
        let (_store, report) = place.try_open().unwrap();
        assert_eq!(report.torn, None, "cut at {cut}: it is said once");
    }
}

#[test]
fn after_a_cut_the_store_goes_on_where_it_was() {
    let place = three_commits();
    let whole = place.bytes();
    place.overwrite(&whole[..commits(&whole)[2].end - 1]);
    let store = place.open();
    let fence = block_on(store.commit(put("d", "d"))).unwrap().fence;
    assert_eq!(fence.revision.0, 3, "the lost one was never acknowledged");
    drop(store);
    assert_eq!(names(&place.open()), "abd");
}

#[test]
fn a_byte_changed_anywhere_before_the_mark_is_refused_with_offset_and_record_and_nothing_is_overwritten() {
    let place = three_commits();
    let whole = place.bytes();
    let spans = spans(&whole);
    assert_eq!(spans.last().unwrap().kind, MARK, "a closed store ends in a mark");
    for at in 0..spans.last().unwrap().start {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        place.overwrite(&changed);
        let error = place.try_open().map(|_| ()).unwrap_err();
        match spans.iter().position(|span| (span.start..span.end).contains(&at)) {
            Some(index) => match error {
                FileError::Damaged { offset, record, .. } => {
                    assert_eq!(
                        (offset as usize, record as usize),
                        (spans[index].start, index + 1),
                        "byte {at}"
                    );
                }
                other => panic!("byte {at}: {other}"),
            },
            None => assert!(
                matches!(
                    error,
                    FileError::Damaged { offset: 0, .. }
                        | FileError::NotAJournal { .. }
                        | FileError::NewerFormat { .. }
                ),
                "byte {at}: {error}"
            ),
        }
        assert!(place.bytes() == changed, "byte {at}: nothing is overwritten");
    }
}

#[test]
fn the_refusal_names_the_command_that_helps() {
    let place = three_commits();
    let mut bytes = place.bytes();
    let middle = commits(&bytes)[1];
    bytes[middle.start + FRAME] ^= 1;
    place.overwrite(&bytes);
    for error in [place.try_open().map(|_| ()), check(place.path()).map(|_| ())].map(Result::unwrap_err) {
        assert_eq!(
            error.to_string(),
            format!(
                "{:?} is damaged at offset {}, record 3: its checksum is wrong; nothing was changed; \
                 run `tidegate store check`, then restore a backup",
                place.journal(),
                middle.start
            )
        );
    }
}

#[test]
fn what_was_written_out_of_order_before_a_power_cut_is_torn_and_no_damage() {
    let place = Place::new();
    let (first, second) = (Tame::new(), Tame::new());
    let open = |medium: &Arc<Tame>| place.open_with(OpenOptions::new().medium(medium.clone()));
    let (store, other) = (open(&first), open(&second));
    block_on(store.commit(put("a", "a"))).unwrap();
    first.hold_syncs(true);
    second.hold_syncs(true);
    let (mut b, mut c) = (pin!(store.commit(put("b", "b"))), pin!(other.commit(put("c", "c"))));
    assert!(is_pending(b.as_mut()));
    first.wait_for_a_held_sync();
    assert!(is_pending(c.as_mut()));
    second.wait_for_a_held_sync();
    let mut bytes = place.bytes();
    let [_, lost, _kept] = commits(&bytes)[..] else { panic!("three records") };
    bytes[lost.start + FRAME] ^= 1;
    let crashed = Place::new();
    drop(crashed.open());
    crashed.overwrite(&with_header_of(&crashed, &bytes));
    let (reopened, report) = crashed.try_open().unwrap();
    assert_eq!(report.torn.map(|torn| torn.offset as usize), Some(lost.start));
    assert_eq!(names(&reopened), "a");
    first.hold_syncs(false);
    second.hold_syncs(false);
    block_on(b).unwrap();
    block_on(c).unwrap();
}

/// The records of another journal, as they would stand in this one.
fn with_header_of(place: &Place, bytes: &[u8]) -> Vec<u8> {
    let mut moved = place.bytes()[..HEADER].to_vec();
    let seed = crc_of_header(&moved);
    let mut previous = seed;
    let old_seed = crc_of_header(bytes);
    for span in spans(bytes) {
        let mut record = bytes[span.start..span.end].to_vec();
        let valid = crc(old_seed, &record) == u32::from_le_bytes(record[8..12].try_into().unwrap());
        record[12..16].copy_from_slice(&previous.to_le_bytes());
        previous = crc(seed, &record) ^ u32::from(!valid);
        record[8..12].copy_from_slice(&previous.to_le_bytes());
        moved.extend_from_slice(&record);
    }
    moved
}

fn crc_of_header(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[HEADER - 4..HEADER].try_into().unwrap())
}

fn crc(seed: u32, record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &record[4..8]), &record[12..])
}

#[test]
fn a_whole_record_that_follows_another_past_is_no_part_of_this_one() {
    let place = three_commits();
    let mut bytes = place.bytes();
    let [_, second, third] = commits(&bytes)[..] else { panic!("three records") };
    bytes.truncate(third.end);
    // As if the second had been lost, another one written in its place, and the old third one come back.
    *bytes[second.start..second.end].last_mut().unwrap() = b'B';
    let checksum = crc(crc_of_header(&bytes), &bytes[second.start..second.end]);
    bytes[second.start + 8..second.start + 12].copy_from_slice(&checksum.to_le_bytes());
    place.overwrite(&bytes);
    let (store, report) = place.try_open().unwrap();
    assert_eq!(report.torn.map(|torn| torn.offset as usize), Some(third.start));
    assert_eq!(everything(&store).2, [("a", "a"), ("b", "B")].map(|(k, v)| (k.to_owned(), v.to_owned())));
}

#[test]
fn a_whole_record_of_an_unknown_kind_is_never_cut() {
    let place = three_commits();
    let mut bytes = place.bytes();
    let last = *spans(&bytes).last().unwrap();
    let mut record = bytes[last.start..].to_vec();
    record[12..16].copy_from_slice(&bytes[last.start + 8..last.start + 12]);
    record[24] = 9;
    let checksum = crc(crc_of_header(&bytes), &record);
    record[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&record);
    place.overwrite(&bytes);
    let error = place.try_open().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("its kind is unknown to this version"), "{error}");
    assert!(place.bytes() == bytes);
}

#[test]
fn what_never_was_a_journal_is_told_apart_and_left_untouched() {
    let place = three_commits();
    let whole = place.bytes();
    let mut newer = whole.clone();
    newer[8] = 2;
    for (bytes, expected) in [
        (vec![], "is not a journal: it is empty"),
        (vec![0; 4096], "is not a journal: it is all zeros"),
        (vec![0; 5], "is not a journal: it is all zeros"),
        (b"#!/bin/sh\necho hello\n".repeat(20), "is not a journal: it begins differently"),
        (whole[..100].to_vec(), "is damaged at offset 0, record 1: it is cut short"),
        (whole[..HEADER].to_vec(), "record 1: its snapshot isn't complete"),
        (whole[..HEADER + 3].to_vec(), "record 1: it is cut short"),
        (newer, "has format 2, this version reads up to 1"),
    ] {
        place.overwrite(&bytes);
        for options in
            [OpenOptions::new(), OpenOptions::new().create(true), OpenOptions::new().read_only(true)]
        {
            let error = FileStore::open(place.path(), options).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains(&format!("{:?}", place.journal())), "{error}");
        }
        assert!(place.bytes() == bytes, "{expected}: untouched");
    }
}

#[test]
fn a_tail_of_zeros_is_torn() {
    let place = three_commits();
    let whole = place.bytes();
    place.overwrite(&[&whole[..], &[0; 4096]].concat());
    let (store, report) = place.try_open().unwrap();
    assert_eq!(report.torn.map(|torn| (torn.offset, torn.bytes)), Some((whole.len() as u64, 4096)));
    assert_eq!(names(&store), "abc");
}

#[test]
fn a_reader_that_may_change_nothing_stops_at_a_torn_tail_and_leaves_it() {
    let place = three_commits();
    let whole = place.bytes();
    let torn = &whole[..commits(&whole)[2].end - 1];
    place.overwrite(torn);
    let (store, report) = FileStore::open(place.path(), OpenOptions::new().read_only(true)).unwrap();
    assert!(report.torn.is_some_and(|torn| torn.to_string().contains("nothing acknowledged was in them")));
    assert_eq!(names(&store), "ab");
    assert_eq!(check(place.path()).unwrap().revision.0, 2);
    drop(store);
    assert!(place.bytes() == torn);
}

#[test]
fn a_tail_that_a_dying_process_left_is_cut_by_the_next_commit_and_told_once() {
    use std::io::Write;
    let place = three_commits();
    let store = place.open();
    let end = place.bytes().len() as u64;
    std::fs::File::options().append(true).open(place.journal()).unwrap().write_all(b"\xF1TR\n half").unwrap();
    assert_eq!(names(&store), "abc", "a reader stops before it");
    block_on(store.commit(put("d", "d"))).unwrap();
    assert_eq!(store.take_torn_tail().map(|torn| (torn.offset, torn.bytes)), Some((end, 9)));
    assert_eq!(store.take_torn_tail(), None);
    drop(store);
    assert_eq!(names(&place.open()), "abcd");
}

#[test]
fn a_journal_that_shrinks_under_a_running_store_is_noticed() {
    let place = three_commits();
    let store = place.open();
    let whole = place.bytes();
    place.overwrite(&whole[..commits(&whole)[1].end]);
    let read = block_on(store.list("")).unwrap_err().to_string();
    let written = block_on(store.commit(put("d", "d"))).unwrap_err().to_string();
    for error in [read, written] {
        assert!(error.contains("it has become shorter; something else wrote to it"), "{error}");
    }
}
