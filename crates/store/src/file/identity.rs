//! Which file a file is: what tells a copy from the original.

use rustix::fs::{AtFlags, StatxFlags};
use std::fmt;
use std::fs::File;
use std::io;

/// Device, inode and birth time. A copy or a restored backup differs in at least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Nanoseconds since 1970, or 0 on a file system that doesn't record it.
    pub(crate) born: i64,
}

impl FileIdentity {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let mask = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask)?;
        let born = if stat.stx_mask & StatxFlags::BTIME.bits() == 0 {
            0
        } else {
            stat.stx_btime.tv_sec.saturating_mul(1_000_000_000).saturating_add(stat.stx_btime.tv_nsec.into())
        };
        let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
        Ok(Self { device, inode: stat.stx_ino, born })
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (self.device >> 32, self.device & 0xffff_ffff);
        write!(f, "device {major}:{minor}, inode {}, born {} ns", self.inode, self.born)
    }
}
