//! The resource's side: whom the guard lets in.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tidegate_core::{Epoch, Fence, Revision};
use tidegate_leases::{FenceGuard, GuardError};

fn fence(revision: u64) -> Fence {
    Fence::new(Epoch(1), Revision(revision))
}

fn resource() -> (tempfile::TempDir, FenceGuard) {
    let directory = tempfile::tempdir().unwrap();
    let guard = FenceGuard::beside(directory.path().join("ledger.txt"));
    (directory, guard)
}

#[track_caller]
fn assert_stale(result: Result<tidegate_leases::Entered, GuardError>, expected: Fence) {
    match result {
        Err(GuardError::Stale { highest, .. }) => assert_eq!(highest, expected),
        other => panic!("expected it to be stale, got {other:?}"),
    }
}

#[test]
fn a_fence_below_the_highest_is_never_let_in_again_whoever_looks() {
    let (directory, guard) = resource();
    assert_eq!(guard.highest().unwrap(), Fence::default());
    const LAST: u64 = u64::MAX;
    for (shown, good) in [
        (5, true),
        (5, true),
        (4, false),
        (9, true),
        (5, false),
        (8, false),
        (9, true),
        (LAST, true),
        (LAST - 1, false),
        (0, false),
        (LAST, true),
    ] {
        let fresh_eyes = FenceGuard::beside(directory.path().join("ledger.txt"));
        assert_eq!(fresh_eyes.enter(fence(shown)).is_ok(), good, "{shown}");
    }
    assert_eq!(guard.highest().unwrap(), fence(LAST));
    assert!(guard.path().ends_with("ledger.txt.fence"));
}

#[test]
fn a_store_restored_from_a_backup_writes_under_a_higher_epoch_or_not_at_all() {
    let (_directory, guard) = resource();
    drop(guard.enter(fence(900)).unwrap());
    assert_stale(guard.enter(fence(12)), fence(900));
    drop(guard.enter(Fence::new(Epoch(2), Revision(1))).unwrap());
    assert!(guard.enter(fence(901)).is_err());
}

#[test]
fn nobody_else_is_in_while_somebody_is() {
    let (_directory, guard) = resource();
    let inside = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let entered = guard.enter(fence(7)).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(entered);
                }
            });
        }
    });
}

#[test]
fn a_damaged_mark_lets_nobody_in_and_says_what_to_do() {
    for bytes in [&b""[..], b"garbage", &[0; 8192]] {
        let (_directory, guard) = resource();
        drop(guard.enter(fence(3)).unwrap());
        fs::write(guard.path(), bytes).unwrap();
        let error = guard.enter(fence(4)).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains("remove the mark"), "{error}");
        assert!(guard.highest().is_err());
        assert_eq!(fs::read(guard.path()).unwrap(), bytes, "nothing is overwritten");
    }
}

#[test]
fn half_a_mark_is_mended_by_the_next_who_is_let_in() {
    let (_directory, guard) = resource();
    drop(guard.enter(fence(3)).unwrap());
    let whole = fs::read(guard.path()).unwrap();
    let mut half = whole.clone();
    half[..64].fill(b'x');
    fs::write(guard.path(), &half).unwrap();
    assert_stale(guard.enter(fence(2)), fence(3));
    drop(guard.enter(fence(3)).unwrap());
    assert_eq!(fs::read(guard.path()).unwrap(), whole);
}

#[test]
fn a_mark_is_not_kept_where_everybody_could_replace_it() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, guard) = resource();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(matches!(guard.enter(fence(1)), Err(GuardError::SharedDirectory { .. })));
}

#[test]
fn a_missing_directory_is_an_error_that_names_the_mark() {
    let (directory, _) = resource();
    let guard = FenceGuard::beside(directory.path().join("no/such/ledger.txt"));
    let error = guard.enter(fence(1)).unwrap_err().to_string();
    assert!(error.contains("no/such/ledger.txt.fence"), "{error}");
}
