//! Archives that want out, or never want to end.

use super::made::{
    Entry, Stored, device, dir, file, gzip, hardlink, long, of_type, pax, plain, stored, symlink, tar, zstd,
};
use super::tree;

/// One layer with these entries is refused, and nothing is written outside.
#[track_caller]
fn refused(entries: &[Entry], expected: &str) {
    check(&[plain(entries)], expected);
}

#[track_caller]
fn check(layers: &[Stored], expected: &str) {
    match tree(layers) {
        Err(said) => assert!(said.contains(expected), "{said}"),
        Ok(tree) => panic!("unpacked as {tree}"),
    }
}

#[test]
fn a_name_that_leads_out_of_the_root_is_refused() {
    refused(&[file("/etc/passwd", "x")], "\"/etc/passwd\" is refused: its name is absolute");
    refused(&[file("../x", "x")], "its name leads upwards");
    refused(&[dir("a"), file("a/../../x", "x")], "its name leads upwards");
    refused(&[dir("a"), file("a/..", "x")], "its name leads upwards");
    refused(&[pax(&[("path", "/x")]), file("good", "x")], "its name is absolute");
    refused(&[pax(&[("path", "a/../../x")]), file("good", "x")], "its name leads upwards");
    refused(&[long(b'L', "../x"), file("good", "x")], "its name leads upwards");
    refused(&[pax(&[("path", "a\0b")]), file("good", "x")], "a zero byte");
    refused(&[file("", "x")], "it has no name");
    refused(&[file("./", "x"), symlink("./", "x")], "it would replace the root itself");
    refused(&[dir("a"), file("a/.wh...", "")], "it takes away what has no name");
    refused(&[file(".wh.", "")], "it takes away what has no name");
    refused(&[file("../.wh.x", "")], "its name leads upwards");
    refused(&[file("/.wh..wh..opq", "")], "its name is absolute");
}

#[test]
fn a_link_out_of_the_root_is_refused_when_it_is_made() {
    refused(&[symlink("out", "../etc")], "it links out of the root");
    refused(&[dir("a"), symlink("a/out", "../../etc")], "it links out of the root");
    refused(&[symlink("out", "/../etc")], "it links out of the root");
    refused(&[symlink("out", "a/../../etc")], "it links out of the root");
    refused(&[symlink("out", "")], "its target is no name");
    refused(&[pax(&[("linkpath", "../../etc")]), symlink("out", "x")], "it links out of the root");
    refused(&[long(b'K', "../../etc"), symlink("out", "x")], "it links out of the root");
    refused(&[hardlink("out", "/etc/passwd")], "it links out of the root");
    refused(&[hardlink("out", "../../etc/passwd")], "it links out of the root");
    refused(&[hardlink("out", "nothing")], "it links to something that isn't there");
    refused(&[dir("d"), hardlink("out", "d")], "it links to a directory");
    refused(&[symlink("l", "d"), dir("d"), hardlink("out", "l/../../x")], "it links out of the root");
}

#[test]
fn writing_through_a_link_ends_below_the_root() {
    // As in a container, an absolute target begins at the root of the image: there is no /tmp in it.
    refused(&[symlink("l", "/tmp"), file("l/x", "x")], "leads through something that is no directory");
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().to_str().unwrap();
    refused(&[symlink("l", target), file("l/x", "x")], "leads through something that is no directory");
    check(
        &[plain(&[symlink("l", target)]), plain(&[file("l/.wh.x", "")]), plain(&[file("l/x", "x")])],
        "leads through something that is no directory",
    );
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    // Each link is harmless by itself; together they would climb, and end at the root as `..` does in every root.
    let climbing =
        [dir("x/y/z"), symlink("x/y/z/a", "../../.."), symlink("x/b", "y/z/a/../../.."), file("x/b/c", "")];
    assert!(tree(&[plain(&climbing)]).unwrap().starts_with("c 644 \"\"\n"));
    refused(
        &[symlink("a", "b"), symlink("b", "a"), file("a/x", "x")],
        "leads through something that is no directory",
    );
    refused(&[file("a", "x"), file("a/b", "x")], "leads through something that is no directory");
    refused(&[of_type("a", b'6'), file("a/b", "x")], "leads through something that is no directory");
    refused(&[device("a", 1, 3), file("a/b", "x")], "leads through something that is no directory");
}

#[test]
fn what_is_taken_away_is_below_the_root_too() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("kept"), "x").unwrap();
    let target = outside.path().to_str().unwrap();
    for mark in ["l/.wh.kept", "l/.wh..wh..opq"] {
        let unpacked = tree(&[plain(&[symlink("l", target)]), plain(&[file(mark, "")])]).unwrap();
        assert_eq!(unpacked, format!("l -> {target}\n"));
    }
    // A link that is taken away is the link, and not what it names.
    let unpacked = tree(&[plain(&[symlink("l", target)]), plain(&[file(".wh.l", "")])]).unwrap();
    assert_eq!(unpacked, "");
    assert!(outside.path().join("kept").exists());
}

#[test]
fn names_and_headers_have_bounds() {
    let deep = "a/".repeat(129);
    refused(&[long(b'L', &deep), dir("x")], "it lies too deep");
    refused(&[long(b'L', &"a".repeat(256)), file("x", "")], "longer than a name may be");
    refused(&[long(b'L', &"a/".repeat(3_000)), file("x", "")], "longer than a path may be");
    refused(&[long(b'L', &"a".repeat(2 << 20)), file("x", "")], "a header of");
    refused(&[pax(&[("comment", &"a".repeat(2 << 20))]), file("x", "")], "a header of");
    refused(&[pax(&[("size", "1000000")]), file("x", "short")], "two sizes for one entry");
    refused(&[pax(&[("uid", "-1")]), file("x", "")], "the attribute uid is \"-1\"");
    refused(&[pax(&[("mtime", "soon")]), file("x", "")], "the time \"soon\"");
    refused(&[file("x", "").owner(1 << 33)], "an owner numbered 8589934592");
}

#[test]
fn kinds_of_entries_that_are_unknown_are_refused_by_name() {
    refused(&[of_type("x", b'S')], "a file with holes");
    refused(&[of_type("x", b'V')], "an entry of type 'V'");
    refused(&[of_type("x", b'M')], "an entry of type 'M'");
    refused(&[of_type("x", b'D')], "an entry of type 'D'");
    refused(&[pax(&[("GNU.sparse.major", "1")]), file("x", "")], "a file with holes");
    let mut unknown = plain(&[file("x", "")]);
    for media_type in
        ["application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "application/octet-stream", "tar"]
    {
        unknown.media_type = media_type.to_owned();
        check(std::slice::from_ref(&unknown), &format!("a layer of type {media_type:?}"));
    }
}

#[test]
fn an_archive_that_is_cut_short_is_refused_wherever_it_ends() {
    let whole = tar(&[file("a", &"x".repeat(2_000)), file("b", &"y".repeat(2_000))]);
    // A header of 512 bytes, 2000 bytes of the first file up to 2512, and then the same again from 2560 on.
    for end in [1, 100, 511, 513, 1_000, 2_511, 2_561, 3_000, 3_073, 4_000, 5_071] {
        let cut = whole[..end].to_vec();
        check(&[stored("", cut.clone(), cut)], "is cut short or can't be read");
    }
    let lies = tar(&[file("a", "x").says_size(1 << 40)]);
    check(&[stored("", lies.clone(), lies)], "it ends within an entry");
    for (suffix, squeezed) in [("+gzip", gzip(&whole)), ("+zstd", zstd(&whole))] {
        for end in [1, 5, squeezed.len() / 2, squeezed.len() - 1] {
            check(
                &[stored(suffix, squeezed[..end].to_vec(), whole.clone())],
                "is cut short or can't be read",
            );
        }
        check(&[stored(suffix, whole.clone(), whole.clone())], "is cut short or can't be read");
        // What is stored is what was asked for, and what comes out of it isn't.
        let other = tar(&[file("a", "other")]);
        check(&[stored(suffix, squeezed, other)], "is damaged: it should be sha256:");
    }
}

#[test]
fn a_bomb_ends_at_its_bound() {
    let zeros = vec![0; 68 << 20];
    for (suffix, squeezed) in [("+gzip", gzip(&zeros)), ("+zstd", zstd(&zeros))] {
        assert!(squeezed.len() < 1 << 20);
        check(&[stored(suffix, squeezed, zeros.clone())], "is beyond the bound of 67108864");
    }
    let many: Vec<Stored> = std::iter::repeat_n(plain(&[]), 257).collect();
    check(&many, "the image in layers is beyond the bound of 256");
}
