//! Journals that earlier versions wrote can be read. The fixture of a format is never written again.

use crate::support::{Place, block_on, key};
use std::fs;
use std::path::Path;
use tidegate_core::{Epoch, Fence, Revision};
use tidegate_store::{FileStore, OpenOptions, Store, adopt, check};

/// A store that was adopted in epoch 40 with a snapshot of two records, had three more commits, and was closed.
const FORMAT_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/journals/format-1.journal");

fn put_into(place: &Place) {
    fs::copy(Path::new(FORMAT_1), place.journal()).unwrap();
}

fn assert_contents(store: &dyn Store) {
    let listing = block_on(store.list("")).unwrap();
    assert_eq!(listing.revision, Revision(4));
    let found: Vec<_> = listing.records.iter().map(|r| (r.key.as_str(), &*r.value, r.fence)).collect();
    let fence = |epoch, revision| Fence::new(Epoch(epoch), Revision(revision));
    let expected = [
        ("bytes", &[0, 255, 10][..], fence(40, 3)),
        ("kept", b"since the beginning", fence(1, 1)),
        ("last", b"3", fence(40, 4)),
        ("名/🌊", b"", fence(40, 2)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_journal_of_format_1_is_read() {
    let place = Place::new();
    put_into(&place);
    let (store, report) = FileStore::open(place.path(), OpenOptions::new().read_only(true)).unwrap();
    assert_eq!((report.epoch, report.torn), (Epoch(40), None));
    assert!(report.adopt.is_some(), "a fixture is a copy");
    assert_contents(&store);
    let report = check(place.path()).unwrap();
    assert_eq!((report.format, report.generation, report.journal_records), (1, 2, 6));
    assert_eq!((report.journal_bytes, report.marked_durable), (500, 472));
}

#[test]
fn a_journal_of_format_1_goes_on_once_it_is_adopted() {
    let place = Place::new();
    put_into(&place);
    assert_eq!(adopt(place.path(), 0).unwrap().epoch, Epoch(41));
    let store = place.open();
    assert_contents(&store);
    let fence = block_on(store.commit(tidegate_store::Txn::new().put_bytes(&key("new"), b""))).unwrap().fence;
    assert_eq!(fence, Fence::new(Epoch(41), Revision(5)));
}
