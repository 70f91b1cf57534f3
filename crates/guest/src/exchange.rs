//! The memory that is shared with the host, as the block device that the kernel makes of it.
//!
//! Read and written past the page cache, or a machine restored from a snapshot would see the request of its first life.

use std::fs::{File, OpenOptions};
use std::io::{self, Error};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use rustix::fs::OFlags;
use tidegate_guest::{
    BLOCK, EXCHANGE_BYTES, REQUEST_BYTES, Request, Status, read_request, request_extent, request_length,
    status_header,
};

use crate::machine::{Access, memory_device, pause};

/// Between two looks for a request. While nothing happens the machine's clock runs ahead of the host's, the more the
/// longer each pause is.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Exchange(File);

impl Exchange {
    pub(crate) fn open() -> io::Result<Self> {
        let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(Error::other)?;
        let device = memory_device(Access::Write)?;
        OpenOptions::new().read(true).write(true).custom_flags(direct).open(device).map(Self)
    }

    /// Says what the guest is at, and waits until there is another request than the last one.
    pub(crate) fn request(&self, status: Status, last: Option<u32>) -> io::Result<Request> {
        self.write(REQUEST_BYTES, &status_header(status))?;
        loop {
            if let Some(request) = self.look()?.filter(|request| Some(request.number) != last) {
                return Ok(request);
            }
            pause(LOOK_EVERY)?;
        }
    }

    fn look(&self) -> io::Result<Option<Request>> {
        let mut first = Aligned::new(BLOCK);
        self.0.read_exact_at(first.bytes_mut(), 0)?;
        let Some(length) = request_length(first.bytes()) else { return Ok(None) };
        let mut all = Aligned::new(request_extent(length));
        self.0.read_exact_at(all.bytes_mut(), 0)?;
        read_request(all.bytes()).map(Some).ok_or_else(|| Error::other("the request is no request"))
    }

    /// Leaves the reply: what it says first, and then that it's there.
    pub(crate) fn reply(&self, frames: &[u8]) -> io::Result<()> {
        if REQUEST_BYTES + BLOCK + frames.len() > EXCHANGE_BYTES {
            return Err(Error::other("the reply has no room"));
        }
        self.write(REQUEST_BYTES + BLOCK, frames)?;
        self.write(REQUEST_BYTES, &status_header(Status::Replied(frames.len())))
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let mut block = Aligned::new(bytes.len());
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.0.write_all_at(block.bytes(), offset as u64)
    }
}

/// Whole blocks that begin where a block may begin.
struct Aligned {
    buffer: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(at_least: usize) -> Self {
        let length = at_least.next_multiple_of(BLOCK);
        let buffer = vec![0; length + BLOCK];
        let start = buffer.as_ptr().align_offset(BLOCK);
        Self { buffer, start, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.start + self.length]
    }
}
