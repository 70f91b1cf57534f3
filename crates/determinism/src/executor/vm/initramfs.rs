//! The machine's first file system: an archive in the kernel's own format, with process 1 and the modules in it. Pure.

/// Directories that process 1 mounts something on, or that hold the modules.
const DIRECTORIES: [&str; 7] = ["changes", "dev", "lower", "modules", "proc", "root", "sys"];
/// Where process 1 writes what it has to complain about: name, major, minor.
const CONSOLE: (&str, u32, u32) = ("dev/console", 5, 1);
/// The name that ends an archive.
const LAST: &str = "TRAILER!!!";
/// Everything in an archive begins at a multiple of this.
const ALIGNMENT: usize = 4;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// The archive. Modules are loaded in the order in which they are given.
pub(super) fn build(init: &[u8], modules: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Archive::default();
    for directory in DIRECTORIES {
        archive.entry(directory, DIRECTORY, &[], (0, 0));
    }
    let (console, major, minor) = CONSOLE;
    archive.entry(console, CHARACTER_DEVICE, &[], (major, minor));
    archive.entry("init", PROGRAM, init, (0, 0));
    for (place, (name, content)) in modules.iter().enumerate() {
        archive.entry(&format!("modules/{place:02}-{name}"), FILE, content, (0, 0));
    }
    archive.entry(LAST, 0, &[], (0, 0));
    archive.bytes
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, content: &[u8], (major, minor): (u32, u32)) {
        self.entries += 1;
        let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        // Owner, group and times are zero.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size(content.len()),
            0,
            0,
            major,
            minor,
            size(name.len() + 1),
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_everything_aligned_numbered_and_ended() {
        let archive = build(b"program", &[("a.ko".to_owned(), b"12345".to_vec())]);
        let text = String::from_utf8_lossy(&archive);
        assert_eq!(archive.len() % ALIGNMENT, 0);
        assert_eq!(text.matches("070701").count(), DIRECTORIES.len() + 4);
        assert!(text.contains("modules/00-a.ko") && text.contains("12345") && text.contains(LAST));
        assert_eq!(build(b"program", &[]), build(b"program", &[]));
    }
}
