//! What the names in a layer may say. Pure: every rule is a function of bytes.

use super::limits::{MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES};

/// Marks in the layers of an image: what is gone from the layers below.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const BOOKKEEPING: &[u8] = b".wh..wh.";

/// The parts of an entry's name, below the root; none for the root itself.
pub(super) fn parts(name: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    if name.is_empty() {
        return Err("it has no name");
    }
    if name.starts_with(b"/") {
        return Err("its name is absolute");
    }
    if name.contains(&0) {
        return Err("its name has a zero byte");
    }
    if name.len() >= MAX_PATH_BYTES {
        return Err("its name is longer than a path may be");
    }
    let parts: Vec<&[u8]> =
        name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err("its name leads upwards");
    }
    if parts.iter().any(|part| part.len() > MAX_NAME_BYTES) {
        return Err("a part of its name is longer than a name may be");
    }
    if parts.len() > MAX_DEPTH {
        return Err("it lies too deep");
    }
    Ok(parts)
}

/// What an entry's own name says about the layers below.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mark<'a> {
    /// Nothing: it is an entry.
    None,
    /// This name is gone from the same directory.
    Gone(&'a [u8]),
    /// Everything is gone from the directory.
    Opaque,
    /// Notes of an old storage driver, which mean nothing here.
    Bookkeeping,
}

/// Reads the mark in an entry's own name.
pub(super) fn mark(name: &[u8]) -> Result<Mark<'_>, &'static str> {
    match name.strip_prefix(WHITEOUT) {
        None => Ok(Mark::None),
        Some(_) if name == OPAQUE => Ok(Mark::Opaque),
        Some(_) if name.starts_with(BOOKKEEPING) => Ok(Mark::Bookkeeping),
        Some(b"" | b"." | b"..") => Err("it takes away what has no name"),
        Some(gone) => Ok(Mark::Gone(gone)),
    }
}

/// Whether a symbolic link in a directory this deep names something below the root. An absolute target begins at the
/// root of the image, as it does in a container.
pub(super) fn stays_inside(depth: usize, target: &[u8]) -> Result<(), &'static str> {
    if target.is_empty() || target.contains(&0) {
        return Err("its target is no name");
    }
    if target.len() >= MAX_PATH_BYTES {
        return Err("its target is longer than a path may be");
    }
    let mut depth = if target.starts_with(b"/") { 0 } else { depth };
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => depth = depth.checked_sub(1).ok_or("it links out of the root")?,
            _ => depth += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Result<&str, &str>) {
        let found = parts(name.as_bytes()).map(|parts| String::from_utf8(parts.join(&b"|"[..])).unwrap());
        assert_eq!(found.as_deref().map_err(|why| *why), expected, "{name:?}");
    }

    #[test]
    fn a_name_stays_below_the_root() {
        check("a", Ok("a"));
        check("./a/b", Ok("a|b"));
        check("a//b/", Ok("a|b"));
        check("./", Ok(""));
        check("a/./b", Ok("a|b"));
        check("a/..b/c..", Ok("a|..b|c.."));
        check("", Err("it has no name"));
        check("/etc/passwd", Err("its name is absolute"));
        check("//a", Err("its name is absolute"));
        check("..", Err("its name leads upwards"));
        check("../a", Err("its name leads upwards"));
        check("a/../../b", Err("its name leads upwards"));
        check("a/..", Err("its name leads upwards"));
        check("a\0b", Err("its name has a zero byte"));
        check(&"a".repeat(255), Ok(&"a".repeat(255)));
        check(&"a".repeat(256), Err("a part of its name is longer than a name may be"));
        check(&"a/".repeat(128), Ok(&["a"; 128].join("|")));
        check(&"a/".repeat(129), Err("it lies too deep"));
        check(&"a/".repeat(2_048), Err("its name is longer than a path may be"));
    }

    #[test]
    fn a_mark_takes_away_one_name_or_all_of_them() {
        assert_eq!(mark(b"a"), Ok(Mark::None));
        assert_eq!(mark(b".wha"), Ok(Mark::None));
        assert_eq!(mark(b".wh.a"), Ok(Mark::Gone(b"a")));
        assert_eq!(mark(b".wh..a"), Ok(Mark::Gone(b".a")));
        assert_eq!(mark(b".wh..wh..opq"), Ok(Mark::Opaque));
        assert_eq!(mark(b".wh..wh.plnk"), Ok(Mark::Bookkeeping));
        for bad in [&b".wh."[..], b".wh..", b".wh..."] {
            assert_eq!(mark(bad), Err("it takes away what has no name"));
        }
    }

    #[track_caller]
    fn link(depth: usize, target: &str, inside: bool) {
        assert_eq!(stays_inside(depth, target.as_bytes()).is_ok(), inside, "{target:?} at depth {depth}");
    }

    #[test]
    fn a_link_names_something_below_the_root() {
        link(0, "usr/bin", true);
        link(0, "/run", true);
        link(0, "../run", false);
        link(1, "../run", true);
        link(1, "../../run", false);
        link(2, "../../etc/passwd", true);
        link(2, "a/../../../b", true);
        link(2, "a/../../../../b", false);
        link(2, "/../etc", false);
        link(0, "/a/../../etc", false);
        link(0, ".", true);
        link(0, "", false);
    }
}
